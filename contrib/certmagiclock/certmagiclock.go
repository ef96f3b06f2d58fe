// Package certmagiclock gives any storage of certmagic the locks of Baton, so
// that of several replicas one obtains or renews a certificate.
//
//	certmagic.Default.Storage = certmagiclock.New(client, storage)
//
// All replicas must use the same service, namespace and storage.
//
// # Guaranteed
//
// One critical section per name runs at a time, also among the goroutines of a
// process. Lock waits in a fair queue, without polling. A lock is renewed as
// long as the process lives: work of any length keeps it.
//
// A replica that lost its lock stores no key, certificate or metadata of that
// site until it has the lock again: Store and Delete return the loss. Before
// it tries again, certmagic calls RenewLockLease, which waits for the lock;
// then certmagic looks whether another replica has stored a certificate.
//
// # Not guaranteed
//
// certmagic gives no context to end: after a loss an order that the issuer has
// got goes on, and may count against a rate limit. A Store that the storage
// was executing when the lock was lost can complete later. Locks for ARI, for
// the registration of accounts and for cleaning guard no keys, nor do those of
// domains in Unicode instead of Punycode: after a loss their work may overlap
// with another replica's.
package certmagiclock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/baton-go/baton/contrib/internal/byname"
	"github.com/baton-go/baton/coordinator"
)

var (
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// Storage is a storage whose locks are Baton's. It is safe for concurrent use.
type Storage struct {
	certmagic.Storage
	locks *byname.Locks // by safe name
}

// New returns the storage with locks of client. It does no I/O.
func New(client *coordinator.Client, storage certmagic.Storage) *Storage {
	return &Storage{Storage: storage, locks: byname.New(client, "certmagic")}
}

// safe is how certmagic makes keys of names: sites that share keys share a
// lock.
func safe(name string) string { return certmagic.StorageKeys.Safe(name) }

// Lock blocks until no other goroutine or replica has the name. On failure
// nothing is held. The errors are those of mutex.Mutex.Lock.
func (s *Storage) Lock(ctx context.Context, name string) error {
	return s.locks.Lock(ctx, safe(name))
}

// TryLock returns false, without an error, if another goroutine or replica has
// the name or waits for it.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	err := s.locks.TryLock(ctx, safe(name))
	if errors.Is(err, coordinator.ErrTaken) {
		return false, nil
	}
	return err == nil, err
}

// RenewLockLease returns nil if the lock is held. If it was lost, it blocks
// until it has the lock again. The lease needs no duration: the session of the
// client is renewed in the background.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	return s.locks.Relock(ctx, safe(name))
}

// Unlock releases the lock, from any goroutine. If it was lost before, Unlock
// returns why, for certmagic to log. After any other error it continues in the
// background.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	return s.locks.Unlock(ctx, safe(name))
}

// Store is that of the storage, unless this process has lost the lock of the
// site to which key belongs.
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	if err := s.check(key); err != nil {
		return err
	}
	return s.Storage.Store(ctx, key, value)
}

// Delete is that of the storage, unless this process has lost the lock of the
// site to which key belongs. certmagic deletes what it had stored when a later
// Store fails: that would be the key of the lock's next holder.
func (s *Storage) Delete(ctx context.Context, key string) error {
	if err := s.check(key); err != nil {
		return err
	}
	return s.Storage.Delete(ctx, key)
}

// check returns why the lock was lost under which this process changes the site
// of a key. A process without the lock may change the key: certmagic decides
// which changes need one.
func (s *Storage) check(key string) error {
	parts := strings.Split(key, "/") // certificates/issuer/site/file: see certmagic.StorageKeys
	if len(parts) < 3 || parts[0] != "certificates" {
		return nil
	}
	if err := s.locks.Err("issue_cert_" + parts[2]); err != nil {
		return fmt.Errorf("%s is unchanged: %w", key, err)
	}
	return nil
}
