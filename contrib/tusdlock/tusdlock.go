// Package tusdlock gives tusd the locks of Baton, so that several replicas
// behind a load balancer can share a store of uploads.
//
//	composer := handler.NewStoreComposer()
//	store.UseIn(composer)
//	tusdlock.New(client).UseIn(composer)
//
// # Guaranteed
//
// One request of all replicas at a time has an upload. A request that waits for
// it makes tusd interrupt the one that has it, in whatever replica: a client
// that was disconnected can go on at once. A request whose lock is lost is
// interrupted, too, before another replica has the upload.
//
// # Not guaranteed
//
// After an interruption tusd reads no more of the body, but lets the store
// complete what it has read, for Config.GracefulRequestCompletionTimeout (10 s
// by default). After a loss that may overlap with the next request: a
// tenth of the TTL is free of overlap, so keep the timeout below that.
//
// Each request that has an upload costs two requests for the lock, and a watch
// while it lasts.
package tusdlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/baton-go/baton/contrib/internal/names"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
)

// Locker makes locks of uploads. It is safe for concurrent use.
type Locker struct{ client *coordinator.Client }

// New returns a locker of client. It does no I/O.
func New(client *coordinator.Client) *Locker { return &Locker{client} }

// UseIn adds the locker to composer.
func (l *Locker) UseIn(composer *handler.StoreComposer) { composer.UseLocker(l) }

// NewLock returns the lock of an upload, for one request. It does no I/O.
func (l *Locker) NewLock(id string) (handler.Lock, error) {
	m, err := mutex.New(l.client, names.Lock("tusd", id), mutex.WithoutReentry())
	if err != nil {
		return nil, err
	}
	return &lock{mutex: m}, nil
}

type lock struct {
	mutex *mutex.Mutex
	held  *mutex.Lock // nil if it is not held
	stop  context.CancelFunc
	done  chan struct{} // closed when interrupt will not be called
}

// Lock blocks until no other request has the upload. If ctx ends before, it
// returns handler.ErrLockTimeout, joined with the error of mutex.Mutex.Lock.
// interrupt is called when another request waits, or when the lock is lost.
func (l *lock) Lock(ctx context.Context, interrupt func()) error {
	held, err := l.mutex.Lock(ctx)
	if err != nil && ctx.Err() != nil {
		return errors.Join(handler.ErrLockTimeout, err)
	}
	if err != nil {
		return err
	}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.held, l.done = held, make(chan struct{})
	go func() {
		defer close(l.done)
		_ = held.Wanted(ctx) // returns nil if it is wanted, or why it is lost
		if ctx.Err() == nil {
			interrupt()
		}
	}()
	return nil
}

// Unlock releases the lock. If it was lost before, it returns why.
func (l *lock) Unlock() error {
	if l.held == nil {
		return fmt.Errorf("unlock %q: %w", l.mutex.Name(), coordinator.ErrNotHeld)
	}
	l.stop()
	<-l.done
	return l.held.Unlock(context.Background())
}
