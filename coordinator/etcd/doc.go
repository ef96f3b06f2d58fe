// Package etcd lets Baton coordinate over an etcd cluster.
//
// [Open] makes a driver from a URL, [FromClient] from a client that exists
// already, [FromSession] from a session of
// go.etcd.io/etcd/client/v3/concurrency. None of them talks to the service; the
// first session does.
//
//	import _ "github.com/baton-go/baton/coordinator/etcd"
//
//	client, err := coordinator.Open("etcd://h1,h2,h3/apps/orders?ttl=10s")
//
// # Guarantees, and what is not guaranteed
//
// The order of a queue is the order of etcd's create revisions, and the create
// revision of an entry is its fencing token. It rises for as long as the
// cluster keeps its data: restoring a snapshot takes revisions back unless it
// is restored with --bump-revision, and tokens with them.
//
// A session is a lease. Its time to live is whole seconds, and etcd grants no
// less than one and a half election timeouts (2 s with its defaults). A TTL
// that is not granted exactly is refused, since a holder computes its deadline
// from it.
//
// A client that the driver makes itself has gRPC's keep-alive on, reconnects
// within half a second of a member's return and logs nothing. gRPC pings no
// sooner than every 10 s, so a member that is stopped rather than dead can keep
// those who wait on it for about 12 s; an attempt that is given up sooner goes
// to the next member. A client that was given keeps its own settings: set
// DialKeepAliveTime on it, or it waits on a dead connection for as long as TCP
// does. grpc.WithStaticStreamWindowSize and grpc.WithStaticConnWindowSize save
// two messages for each answer.
//
// With a user name and password every renewal costs an authentication, because
// the client fetches a token for each stream it opens. Client certificates do
// not.
//
// # The protocol
//
// docs/requests.md has the requests of each call.
//
// A session is a lease and a sentinel: see package internal/lease. queue.go
// begins with the states of a contender, and handoff.go with the tail key and
// the handoff markers. Names of contenders are used again, since etcd's index
// keeps each until it is compacted: only together with the create revision does
// a key stand for one contender.
//
// With a client of its own, a session sends requests of several goroutines, to
// join queues that seem empty or to leave them, in one transaction: see package
// internal/batch. One whose context has gRPC metadata to send goes alone.
//
// # Queues shared with other clients
//
// With [Layout], or layout=concurrency in the URL, queues are those of etcd's
// package concurrency, and its mutexes and elections, etcdctl lock and etcdctl
// elect, and the server's lock and election services are queued in them too:
// see docs/interop.md. Join, Leave and Forget are one transaction each, Ahead
// is one read with values; Write is two transactions once the entry was
// written; Renew and Close are one request for each lease, of which each
// further contender of a session in one queue needs one.
//
// # Queues under the native layout are Baton's alone
//
// No other program may stand in a queue under Baton's layout: not
// concurrency.Mutex or Election, not etcdctl lock. A contender that knows the
// entry directly ahead does not read the queue, and is admitted past a key of
// another program between the two; the other program knows nothing of converted
// entries and takes markers for contenders. Keys whose names end in "~" are
// taken for markers, and may be deleted.
//
// # The files
//
//	queue.go     the protocol of a queue: Join, Leave, Forget
//	handoff.go   the tail key and handoff markers: Pass, Follow
//	view.go      Ahead
//	wait.go      WatchQueue
//	entry.go     Convert, Write, Guard
//	record.go    the record of a queue
//	operator.go  Queues, Remove
//	examine.go   what the members say of themselves
//	memory.go    what a session remembers to save requests
//	driver.go    the drivers, and their sessions
//	client.go    the etcd client of a driver
//	config.go    what a URL says
//	external.go  sessions on the lease of a concurrency.Session
//
// The packages below internal have the parts that do not know the protocol:
// lease (a session, its epoch, and what needs no more than the names of keys),
// watch, batch, keys (the names of keys), answer (what an error means), and
// foreign, the driver for queues that are shared with etcd's package
// concurrency.
package etcd
