// Package zookeeper lets Baton coordinate over a ZooKeeper ensemble.
//
// [Open] makes a driver from a URL. It does not talk to the service; the first
// session does. Importing the package makes the schemes zk, zookeeper and zks
// known to coordinator.Open.
//
// # Guarantees, and what is not guaranteed
//
// The order of a queue is the order of ZooKeeper's sequence numbers, and of the
// entries' czxids when those numbers, of 32 bits, have run out, which costs a
// read of each entry. The fencing token is the czxid of the entry, which rises
// for as long as the ensemble keeps its data; never the sequence number, which
// starts again when an empty queue is removed. An entry that was converted
// keeps its token in its name, since its node is a new one.
//
// A session's TTL is ZooKeeper's session timeout. Servers move what they are
// asked for into their bounds, by default 2 to 20 ticks (4 s to 40 s). A TTL
// that is not granted exactly is refused, since a holder computes its deadline
// from it.
//
// The client library pings by itself. So a session that is not renewed ends
// with its process or its connection, and not already when the renewals stop;
// package coordinator closes a session that it takes for lost.
//
// Each session has a connection of its own, to whichever server answers first.
// A lost connection is replaced at once, then every 100 ms or so; a server on
// which a request stays unanswered for a quarter of the TTL is left for another
// one. Nothing outlives a session: what the client library would send on a new
// one, after an expiry, is not sent.
//
// A child of another client in a queue makes Ahead, List and Head fail with
// driver.ErrRefused and its name. A record stays until an operator deletes it.
//
// docs/concepts.md shows the nodes, names.go their names, and docs/requests.md
// the requests of each call.
//
// # The files
//
//	config.go    what a URL says
//	session.go   the driver and its sessions; where a queue is
//	queue.go     the protocol of a queue: Join, Leave, Pass, Forget
//	view.go      Ahead, and finding an entry again
//	handoff.go   successor nodes: Follow, and what Pass leaves
//	entry.go     Convert, Write, Guard
//	names.go     the names of nodes, and their order
//	operator.go  Examine, Queues, Remove
//
//	internal/nodes    what the native driver has in common with foreign layouts:
//	                  Watch, WatchQueue, List, Check, Head, Record, transactions
//	internal/foreign  the driver of queues shared with Curator, go-zookeeper and Kazoo
//	internal/zkconn   the fence around the client library, github.com/go-zookeeper/zk:
//	                  a session, its requests and its watches
package zookeeper
