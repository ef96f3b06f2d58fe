// Package virtualzk is a ZooKeeper ensemble for virtual time: a server in Go
// that speaks ZooKeeper's client protocol over connections in memory, so that
// it, the client library and Baton run in a bubble of testing/synctest. It also
// runs in real time.
//
//	e := virtualzk.New(virtualzk.Config{Members: 3, Tick: time.Second, Random: rand.New(…)})
//	link := e.Link("a")
//	d, err := zookeeper.OpenWith(e.URL("/app"), zookeeper.Dialer(link.Dial))
//	link.Cut()
//
// # What is ZooKeeper's
//
// A test sends the same random requests to this server and to a real one, and
// compares the replies and the notices with their numbers: sessions, passwords,
// credentials, the tree with its zxids, versions and sequence numbers,
// transactions, watches, and their setting again.
//
// The rest is as ZooKeeper's documentation and real ensembles have it: sessions
// end at multiples of a tick, a follower reports what it heard from its clients
// every half tick, a member refuses a client that has seen more than the
// member, a session that moves closes the older connection, and requests of its
// former member are refused. Requests of one connection are answered in order.
//
// # Members
//
// A transaction is committed when the leader has evaluated it: from then on it
// survives everything. Each member applies transactions in order, after a time
// of its own. A member can lag behind, stop to apply, lose the leader, be
// paused, crash, and be a leader that does not know that it is none any more.
//
// # What is missing
//
// SASL, quotas, nodes with a TTL, persistent watches, reconfiguration, local
// sessions, observers, setACL, reads of several nodes in one request, four
// letter words. An unknown request is refused as ZooKeeper refuses it.
//
//	jute.go      the encoding
//	tree.go      nodes, and the changes of a transaction
//	evaluate.go  requests that write, as the leader evaluates them
//	acl.go       permissions and credentials
//	watch.go     the watches of a member
//	session.go   sessions, as the leader knows them
//	member.go    one server: its prefix of the log, reads
//	ensemble.go  the log, the leader, and the faults of members
//	conn.go      one connection at its server
//	link.go      the network of one client, and its faults
//	socket.go    the client's end of a connection
package virtualzk
