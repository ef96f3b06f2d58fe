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
// starts again when an empty queue is removed. An entry that was converted keeps
// its token in its name, since its node is a new one.
//
// A session's TTL is ZooKeeper's session timeout. Servers move what they are
// asked for into their bounds, by default 2 to 20 ticks (4 s to 40 s). A TTL
// that is not granted exactly is refused, since a holder computes its deadline
// from it.
//
// The client library pings by itself. So a session that is not renewed ends with
// its process or its connection, and not already when the renewals stop;
// package coordinator closes a session that it takes for lost.
//
// Each session has a connection of its own, to whichever server answers first.
// A lost connection is replaced at once, then every 100 ms or so; a server on
// which a request stays unanswered for a quarter of the TTL is left for another
// one. Nothing outlives a session: what the client library would send on a new
// one, after an expiry, is not sent.
//
// # What it costs
//
//	Open       connect; one request more with a user and password
//	Join       one transaction; with Alone a listing before it, which is all if the queue is taken.
//	           The first join of a queue that is not there creates it: two or three more.
//	           In a contended queue, one read more, which finds and watches the nearest
//	Ahead      one listing of the queue
//	Watch      for one place a read; for several a listing, and another one for each
//	           change of the queue, once for all waiters of the session
//	WatchQueue the same listings
//	Follow     nothing, if the Join has found the nearest, else a read or two
//	Convert    one transaction
//	Write      one write
//	Leave      one delete, or one transaction
//	Pass       the same; and one delete a second after the last of them, if others came between
//	Forget     sync, listing, and a delete if there is something to delete
//	List       one listing, and one read for each entry
//	Check      one sync and one read
//	Remove     the two of Check, and one transaction; one delete more without a successor node
//	Queues     one sync, one listing of the kinds and one of each; and one of each name that
//	           has or had a queue
//	Head       a listing and a read; a read when the head was written to, while it is followed
//	Record     one read
//	SetRecord  one write
//	Renew      one sync
//	Close      one connection, on which the session is ended
//
// A wait costs nothing if a watch is left from one before. A view after a
// reconnect costs one sync more, and a waiter then looks again.
//
// # The tree
//
//	/chroot/kind/name/x_5f0c…_1000a2b3c4d5e6f_0000000007
//	                  │ │     │               └ sequence number: the order
//	                  │ │     └ session
//	                  │ └ contender
//	                  └ mode
//	/chroot/kind/name/r_5f0c…_1000a2b3c4d5e6f_00000001000002a7_1_0000000007
//	                                          │                └ first conversion
//	                                          └ token
//	/chroot/kind/name/successor_0000000008
//	                            └ of the entry whose number is one less
//	/chroot/kind/name+record
//
// Only contended queues have successor nodes: see handoff.go. Most go with their
// entries. One that was passed stays until the next entry leaves, or for a
// second. To delete any is safe: the follower then reads the queue.
//
// Queues and what is above them are container nodes, which the service removes
// when they have been empty for a while; on servers before 3.5 they are plain
// nodes, and stay. A record is a plain node, which stays until an operator
// deletes it. A child of another client makes Ahead, List and Head fail with
// driver.ErrRefused and its name.
//
// # Queues shared with other clients
//
// With layout=curator or layout=kazoo in the URL, queues are those of Curator
// and go-zookeeper, or of Kazoo: see internal/foreign, and docs/interop.md for
// what excludes what.
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
