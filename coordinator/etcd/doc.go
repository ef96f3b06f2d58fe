// Package etcd is Baton's driver for etcd clusters.
//
// [Open] makes a driver from a URL, [FromClient] from an existing client,
// [FromSession] from a session of go.etcd.io/etcd/client/v3/concurrency. None
// of them contacts the service; the first session does.
//
//	import _ "github.com/baton-go/baton/coordinator/etcd"
//
//	client, err := coordinator.Open("etcd://h1,h2,h3/apps/orders?ttl=10s")
//
// # Guarantees, and what is not guaranteed
//
// A queue is ordered by etcd's create revisions. An entry's create revision is
// its fencing token. It rises for as long as the cluster keeps its data:
// restoring a snapshot takes revisions back, and tokens with them, unless it is
// restored with --bump-revision.
//
// A session is a lease. Its time to live is whole seconds, and etcd grants no
// less than one and a half election timeouts (2 s with its defaults). A TTL
// that is not granted exactly is refused, since a holder computes its deadline
// from it.
//
// A client that the driver makes has gRPC's keep-alive on, reconnects within a
// quarter of a second of a member's return and logs nothing. gRPC pings no
// sooner than every 10 s, so a request to a member that is stopped can wait for
// 12 s; an attempt that ends sooner goes to the next member. A client passed to
// FromClient keeps its own settings: set DialKeepAliveTime on it, or it waits
// on a dead connection for as long as TCP does.
//
// Renewals go to up to three members in turn. So a member that hangs costs some
// of them, and one that does not know that it was deposed is found out. If one
// member answers them all, a renewal costs a read by quorum, too; not if the
// client knows one address only. See docs/guarantees.md, P2, for what that does
// not cover before etcd 3.4.31 and 3.5.13.
//
// A member whose disk hangs answers pings and keeps the session alive, but
// shows no change any more. While a session waits, it therefore checks about
// once in a TTL that the member behind its watches follows the others, and else
// moves all its watches to another member; see package internal/lease. The
// client must know at least three members for that. Behind a load balancer it
// sees one address, and stays on the member to which its connection leads.
//
// # The protocol
//
// A session is a lease and a sentinel: see package internal/lease. queue.go
// begins with the states of a contender, handoff.go with the tail key and the
// handoff markers. Names of contenders are reused, so a key identifies one only
// together with its create revision.
//
// # Queues shared with other clients
//
// With [Layout], or layout=concurrency in the URL, queues are those of etcd's
// package concurrency: its mutexes and elections, etcdctl lock and etcdctl
// elect, and the server's lock and election services use them too. See
// docs/interop.md. Each further contender of a session in one queue needs a
// lease of its own, and Renew and Close are one request for each. Up to 16
// streams carry the keep-alives.
//
// # Queues under the native layout are Baton's alone
//
// No other program may use a queue in Baton's layout, neither concurrency.Mutex
// or Election nor etcdctl lock. A contender that knows its predecessor does not
// read the queue, and is admitted past another program's key between the two.
// The other program does not know converted entries and takes markers for
// contenders. Baton takes keys whose names end in "~" for markers, and may
// delete them.
//
// # The files
//
//	queue.go     the protocol of a queue: Join, Leave, Forget
//	try.go       the read before a join that wants to be alone
//	handoff.go   the tail key and handoff markers: Pass, Follow
//	view.go      Ahead
//	wait.go      WatchQueue
//	entry.go     Convert, Write, Guard
//	record.go    the record of a queue
//	operator.go  Queues, Remove
//	examine.go   the status of the members
//	memory.go    what a session remembers
//	driver.go    the drivers, and their sessions
//	client.go    the etcd client of a driver
//	renew.go     its keep-alives
//	config.go    the URL
//	external.go  sessions on the lease of a concurrency.Session
package etcd
