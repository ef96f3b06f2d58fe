// Package zookeeper is Baton's driver for ZooKeeper ensembles.
//
// [Open] makes a driver from a URL. It does not contact the service; the first
// session does. Importing the package registers the schemes zk, zookeeper and
// zks with coordinator.Open.
//
// # Guarantees, and what is not guaranteed
//
// A queue is ordered by ZooKeeper's sequence numbers. When these 32-bit numbers
// have run out, it is ordered by the entries' czxids, which costs a read of
// each entry. The fencing token is the entry's czxid, which rises for as long
// as the ensemble keeps its data. The sequence number is no token: it restarts
// when an empty queue is removed. A converted entry is a new node, so its name
// holds the token.
//
// A session's TTL is ZooKeeper's session timeout. Servers move the requested
// timeout into their bounds, by default 2 to 20 ticks (4 s to 40 s). A TTL that
// is not granted exactly is refused, since a holder computes its deadline from
// it. docs/ttl.md has the margin of the loss clock.
//
// The client library pings by itself. So a session that is not renewed ends
// with its process or its connection, and not when the renewals stop; package
// coordinator closes a session that it considers lost.
//
// Each session has its own connection, to the server that answers first. A lost
// connection is replaced at once. While that fails, all servers are tried about
// every 100 ms for a TTL, then more and more seldom, down to every two seconds
// or so. The servers' names are resolved again for each of these rounds. If a
// request stays unanswered for a quarter of the TTL, the session moves to
// another server. After a session has expired, nothing that was queued for it
// is sent on a new one.
//
// All servers must grant the TTL: a session that is continued at one with a
// smaller maxSessionTimeout ends at once. baton doctor compares them.
//
// A child of another client in a queue makes Ahead, List and Head fail with
// driver.ErrRefused and its name. A record stays until an operator deletes it.
//
// # The files
//
//	config.go    the URL
//	session.go   the driver and its sessions; the paths of queues
//	queue.go     the protocol of a queue: Join, Leave, Pass, Forget
//	view.go      Ahead, and finding an entry again
//	handoff.go   successor nodes: how Join finds the predecessor, what Pass writes
//	follow.go    Follow
//	neighbors.go handoffs between contenders of one session
//	entry.go     Convert, Write, Guard
//	names.go     the names of nodes, and their order
//	operator.go  Queues, Remove
//
//	internal/nodes    the part shared by the native driver and foreign layouts:
//	                  Watch, WatchQueue, List, Check, Head, Record, transactions
//	internal/foreign  the driver of queues shared with Curator, go-zookeeper and Kazoo
//	internal/zkconn   the wrapper of the client library, github.com/go-zookeeper/zk:
//	                  a session, its requests and its watches
package zookeeper
