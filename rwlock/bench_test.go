package rwlock_test

import (
	"context"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/rwlock"
)

// bench measures Baton alone: the memory service answers without delay.
func bench(b *testing.B, prepare func(*rwlock.RWLock) context.Context,
	op func(context.Context, *rwlock.RWLock) error) {
	b.Helper()
	svc := memory.NewService()
	c, err := coordinator.New(svc.Driver(), quiet)
	check(b, err)
	defer c.Close(context.Background())
	l, err := rwlock.New(c, "catalogue")
	check(b, err)
	ctx := prepare(l)
	before := svc.Stats().Total()
	b.ReportAllocs()
	for b.Loop() {
		check(b, op(ctx, l))
	}
	b.ReportMetric(float64(svc.Stats().Total()-before)/float64(b.N), "requests/op")
}

func alone(*rwlock.RWLock) context.Context { return context.Background() }

// once locks in one of the ways, and unlocks.
func once(f func(*rwlock.RWLock, context.Context) (*rwlock.Lock, error)) func(context.Context,
	*rwlock.RWLock) error {
	return func(ctx context.Context, l *rwlock.RWLock) error {
		h, err := f(l, ctx)
		if err != nil {
			return err
		}
		return h.Unlock(context.Background())
	}
}

func BenchmarkLockUnlock(b *testing.B)  { bench(b, alone, once((*rwlock.RWLock).Lock)) }
func BenchmarkRLockUnlock(b *testing.B) { bench(b, alone, once((*rwlock.RWLock).RLock)) }

func BenchmarkTryRLockUnlock(b *testing.B) { bench(b, alone, once((*rwlock.RWLock).TryRLock)) }

// BenchmarkRLockBesideReaders joins a queue with ten readers.
func BenchmarkRLockBesideReaders(b *testing.B) {
	bench(b, func(l *rwlock.RWLock) context.Context {
		for range 10 {
			_, err := l.RLock(context.Background())
			check(b, err)
		}
		return context.Background()
	}, once((*rwlock.RWLock).RLock))
}

func BenchmarkDowngrade(b *testing.B) {
	bench(b, alone, func(ctx context.Context, l *rwlock.RWLock) error {
		w, err := l.Lock(ctx)
		if err != nil {
			return err
		}
		r, err := l.RLock(w.Context())
		if err != nil {
			return err
		}
		if err := w.Unlock(ctx); err != nil {
			return err
		}
		return r.Unlock(ctx)
	})
}

func BenchmarkReenter(b *testing.B) {
	bench(b, func(l *rwlock.RWLock) context.Context {
		w, err := l.Lock(context.Background())
		check(b, err)
		return w.Context()
	}, once((*rwlock.RWLock).RLock))
}
