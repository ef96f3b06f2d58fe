// Package concurrency implements the API of etcd's package concurrency
// (go.etcd.io/etcd/client/v3/concurrency) with Baton: to migrate, a service
// changes only the import.
//
//	s, err := concurrency.NewSession(client, concurrency.WithTTL(10))
//	...
//	m := concurrency.NewMutex(s, "/locks/orders")
//	err = m.Lock(ctx)
//
// The keys are the same, so a fleet can migrate one process at a time: both
// packages exclude each other, and both exclude etcdctl lock and etcdctl elect.
// For contexts that end with a hold, tokens and reentrancy use Baton's own
// packages, on a client with this layout: see docs/interop.md.
//
// # Differences
//
//   - Two mutexes of a session, or two goroutines with one Mutex, exclude each
//     other; with etcd's package both hold the lock. A second Lock by the
//     holder waits, also after a loss, until Unlock was called. Each contender
//     beyond the session's first has its own lease, which the session renews
//     and revokes.
//   - Two Elections of a session are two candidates: the second Campaign waits
//     for the first to resign; with etcd's package both return and lead.
//   - A failed Lock or Campaign leaves nothing behind. It returns
//     [ErrSessionExpired] if its session ends while it waits.
//   - Ctx and Done of a session end before the lease can end.
//   - After a loss Unlock and Resign return [ErrSessionExpired], and Proclaim
//     returns [ErrElectionNotLeader].
//   - Header has only a revision: of the key's creation. That of a Mutex is nil
//     after Unlock.
//   - Close after Orphan does not revoke the lease.
//   - Lock and Campaign return an error that names foreign keys below the
//     prefix; with etcd's package they would wait for them.
//   - A TTL that etcd does not grant exactly is an error, as is WithLease.
//   - For transactions (STM) import etcd's package as well.
package concurrency
