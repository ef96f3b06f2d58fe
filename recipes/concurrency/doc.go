// Package concurrency has the sessions, mutexes and elections of etcd's package
// of that name (go.etcd.io/etcd/client/v3/concurrency), made of Baton's: a
// service changes the import, and nothing else.
//
//	s, err := concurrency.NewSession(client, concurrency.WithTTL(10))
//	...
//	m := concurrency.NewMutex(s, "/locks/orders")
//	err = m.Lock(ctx)
//
// The keys are the same, so a fleet can change one process at a time: both
// kinds exclude each other, and both exclude etcdctl lock and etcdctl elect.
// What is new is better asked of Baton itself, on a client with the layout of
// these keys: contexts that end with a hold, tokens, re-entering. See
// docs/interop.md.
//
// # What is different
//
// Two mutexes of one session, or two goroutines with one Mutex, exclude each
// other; with etcd's package both have the lock. So does a Lock by whoever has
// locked already: it waits. Each contender that comes while the session has
// another one has a lease of its own, which the session keeps and revokes.
//
// A Lock, or Campaign, that fails leaves nothing behind, and one whose session
// ends while it waits returns [ErrSessionExpired] instead of waiting on. Ctx
// and Done of a session end before the lease can.
//
// Unlock and Resign of what was lost, with the session or because somebody
// deleted the key, say so with [ErrSessionExpired], and Proclaim with
// [ErrElectionNotLeader].
//
// Header has a revision only. Keys in the range of a name that end in no lease
// make Lock and Campaign return an error that names them; etcd's would wait.
//
// A TTL that etcd does not grant exactly is an error, and so is WithLease: the
// lease is Baton's to keep. The transactions of etcd's package (STM) are not
// here: import both.
package concurrency
