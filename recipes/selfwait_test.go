package recipes_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/rwlock"
)

// book is a log in memory.
type book struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.Write(p)
}

// suspicions counts the warnings of a call that waits for its own process.
func (b *book) suspicions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.lines.String(), "level=WARN msg=\"baton: waits for a hold of this process")
}

func selfWaits(t *testing.T, test func(t *testing.T, svc *memory.Service, c *coordinator.Client, b *book)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc, b := memory.NewService(), &book{}
		link := svc.Driver()
		c, err := coordinator.New(link, coordinator.WithTTL(ttl),
			coordinator.WithLogger(slog.New(slog.NewTextHandler(b, nil))))
		check(t, err)
		endWithTest(t, link, c)
		test(t, svc, c, b)
		check(t, c.Close(context.Background()))
	})
}

// TestCallThatWaitsForItsOwnProcessWarnsAfterATTL: once for each hold, of a
// writer and of many readers. The waits go on.
func TestCallThatWaitsForItsOwnProcessWarnsAfterATTL(t *testing.T) {
	selfWaits(t, func(t *testing.T, _ *memory.Service, c *coordinator.Client, b *book) {
		l, err := rwlock.New(c, "n")
		check(t, err)
		for range 2 {
			before := b.suspicions()
			h, err := l.Lock(t.Context())
			check(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			calls := []<-chan error{
				start(func() error { _, err := l.RLock(ctx); return err }),
				start(func() error { _, err := l.RLock(ctx); return err }),
				start(func() error { _, err := l.Lock(ctx); return err }),
			}
			time.Sleep(ttl - time.Millisecond)
			if n := b.suspicions() - before; n != 0 {
				t.Errorf("%d warnings before the TTL", n)
			}
			time.Sleep(time.Hour)
			if n := b.suspicions() - before; n != 1 {
				t.Errorf("%d warnings after an hour", n)
			}
			cancel()
			for _, call := range calls {
				wantErr(t, <-call, context.Canceled)
			}
			check(t, h.Unlock(t.Context()))
		}
	})
}

// TestCallThatWaitsForAKeptTurnWarnsAfterATTL: it has no entry, so it
// follows none. Once for each hold; a call that waits for several short ones,
// and one WithoutReentry, warn of nothing.
func TestCallThatWaitsForAKeptTurnWarnsAfterATTL(t *testing.T) {
	selfWaits(t, func(t *testing.T, _ *memory.Service, c *coordinator.Client, b *book) {
		m, err := mutex.New(c, "n", mutex.WithRetain(time.Second))
		check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 2 {
			before := b.suspicions()
			h, err := m.Lock(t.Context())
			check(t, err)
			calls := []<-chan error{
				start(func() error { return m.Do(ctx, nothing) }),
				start(func() error { return m.Do(ctx, nothing) }),
			}
			time.Sleep(ttl - time.Millisecond)
			if n := b.suspicions() - before; n != 0 {
				t.Errorf("%d warnings before the TTL", n)
			}
			time.Sleep(time.Hour)
			if n := b.suspicions() - before; n != 1 {
				t.Errorf("%d warnings after an hour", n)
			}
			check(t, h.Unlock(t.Context()))
			check(t, errors.Join(<-calls[0], <-calls[1]))
		}

		before := b.suspicions()
		var all []<-chan error
		for range 20 {
			all = append(all, start(func() error {
				return m.Do(ctx, func(context.Context, *mutex.Lock) error {
					time.Sleep(ttl / 5)
					return nil
				})
			}))
		}
		for _, call := range all {
			check(t, <-call)
		}
		anew, err := mutex.New(c, "n", mutex.WithRetain(time.Second), mutex.WithoutReentry())
		check(t, err)
		h, err := anew.Lock(t.Context())
		check(t, err)
		call := start(func() error { return anew.Do(ctx, nothing) })
		time.Sleep(time.Hour)
		check(t, h.Unlock(t.Context()))
		check(t, <-call)
		if n := b.suspicions() - before; n != 0 {
			t.Errorf("%d warnings of calls that are served, or that never re-enter", n)
		}
	})
}

func nothing(context.Context, *mutex.Lock) error { return nil }

// TestCallsThatWaitForOthersWarnOfNothing: behind the hold of another client,
// behind a waiter of this one, for less than a TTL, or WithoutReentry.
func TestCallsThatWaitForOthersWarnOfNothing(t *testing.T) {
	selfWaits(t, func(t *testing.T, svc *memory.Service, c *coordinator.Client, b *book) {
		other := newParty(t, svc).client
		theirs, err := mutex.New(other, "n")
		check(t, err)
		m, err := mutex.New(c, "n")
		check(t, err)
		h, err := theirs.Lock(t.Context())
		check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		one := start(func() error { _, err := m.Lock(ctx); return err })
		two := start(func() error { _, err := m.Lock(ctx); return err })
		time.Sleep(time.Hour)
		cancel()
		wantErr(t, errors.Join(<-one, <-two), context.Canceled)
		check(t, h.Unlock(t.Context()))

		mine, err := m.Lock(t.Context())
		check(t, err)
		short, cancel := context.WithTimeout(t.Context(), ttl-time.Second)
		defer cancel()
		_, err = m.Lock(short)
		wantErr(t, err, context.DeadlineExceeded)
		anew, err := mutex.New(c, "n", mutex.WithoutReentry())
		check(t, err)
		long, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err = anew.Lock(long)
		wantErr(t, err, context.DeadlineExceeded)
		check(t, mine.Unlock(t.Context()))
		if n := b.suspicions(); n != 0 {
			t.Errorf("%d warnings", n)
		}
		check(t, other.Close(t.Context()))
	})
}

// TestLockWithoutReentryQueues with the context of a hold, and gets a token of
// its own when that is released; TryLock finds it taken. With the context of
// the work of Do it is the same.
func TestLockWithoutReentryQueues(t *testing.T) {
	selfWaits(t, func(t *testing.T, _ *memory.Service, c *coordinator.Client, _ *book) {
		m, err := mutex.New(c, "n", mutex.WithoutReentry())
		check(t, err)
		l, err := rwlock.New(c, "n", rwlock.WithoutReentry())
		check(t, err)
		first, err := m.Lock(t.Context())
		check(t, err)
		_, err = m.TryLock(first.Context())
		wantErr(t, err, coordinator.ErrTaken)
		var second *mutex.Lock
		waits := start(func() (err error) { second, err = m.Lock(context.WithoutCancel(first.Context())); return err })
		select {
		case err := <-waits:
			t.Errorf("re-entered: %v", err)
		default:
		}
		check(t, first.Unlock(t.Context()))
		check(t, <-waits)
		if second.Token() <= first.Token() {
			t.Errorf("token %d after %d", second.Token(), first.Token())
		}
		check(t, second.Unlock(t.Context()))

		err = l.Do(t.Context(), func(ctx context.Context, _ *rwlock.Lock) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := l.RLock(ctx)
			return err
		})
		var wait *recipes.WaitError
		if !errors.As(err, &wait) || wait.Queued != time.Second {
			t.Errorf("a read lock within a write lock: %v", err)
		}
	})
}
