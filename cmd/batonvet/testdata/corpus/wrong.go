// Package corpus has wrong uses of Baton, with what batonvet says, and right
// ones, of which it says nothing.
package corpus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/multilock"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

var errBusy = errors.New("busy")

func work(context.Context, ...any) error { return nil }

func earlyReturn(ctx context.Context, m *mutex.Mutex, busy bool) error {
	l, err := m.Lock(ctx) // want `Mutex.Lock is not released before the return in line 30: defer l.Unlock`
	if err != nil {
		return err
	}
	if busy {
		return errBusy
	}
	return l.Unlock(ctx)
}

func neverReleased(ctx context.Context, s *semaphore.Semaphore) error {
	p, err := s.Acquire(ctx, 2) // want `Semaphore.Acquire is not released before the return in line 40: defer p.Release`
	if err != nil {
		return err
	}
	return work(p.Context())
}

func failedWork(ctx context.Context, e *election.Election) error {
	t, err := e.Campaign(ctx, nil) // want `Election.Campaign is not released before the return in line 49: defer t.Resign`
	if err != nil {
		return err
	}
	if err = work(t.Context()); err != nil { // no longer the error of the grant
		return err
	}
	return t.Resign(ctx)
}

func dropped(ctx context.Context, l *rwlock.RWLock) error {
	_, err := l.RLock(ctx) // want `the hold of RWLock.RLock is dropped`
	return err
}

func inALoop(ctx context.Context, m *mutex.Mutex, names []string) error {
	for range names {
		l, err := m.TryLock(ctx) // want `Mutex.TryLock is not released before the return in line 69`
		if errors.Is(err, coordinator.ErrTaken) {
			continue
		}
		if err != nil {
			return err
		}
		if err := work(l.Context()); err != nil {
			return err
		}
		if err := l.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

func outerContext(ctx context.Context, m *mutex.Mutex) error {
	return m.Do(ctx, func(held context.Context, l *mutex.Lock) error {
		return work(ctx, l.Token()) // want `ctx comes from outside of Mutex.Do, so it does not end with the hold: use held$`
	})
}

func outerContextOfARequest(m *multilock.Set, r *http.Request) error {
	return m.Do(r.Context(), func(_ context.Context, l *multilock.Lock) error {
		return work(r.Context(), l.Tokens()) // want `r.Context\(\) comes from outside of Set.Do.*use the work's own context`
	})
}

func waitsForItself(ctx context.Context, m *mutex.Mutex) error {
	return m.Do(ctx, func(held context.Context, _ *mutex.Lock) error {
		return m.Do(ctx, func(ctx context.Context, _ *mutex.Lock) error { // want `ctx comes from outside.*or Mutex.Do of the same name waits for itself`
			return work(ctx)
		})
	})
}

func outerContextOfAHold(ctx context.Context, m *mutex.Mutex) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	return work(ctx, l.Token()) // want `ctx does not end with the hold of Mutex.Lock: use l.Context\(\)$`
}

func lockWithinALock(ctx context.Context, a, b *mutex.Mutex) (err error) {
	first, err := a.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, first.Unlock(ctx)) }()
	second, err := b.Lock(ctx) // want `ctx does not end with the hold of Mutex.Lock: use first.Context\(\), or Mutex.Lock of the same name waits for itself`
	if err != nil {
		return err
	}
	return second.Unlock(ctx)
}

func tokenIsOnlyPrinted(ctx context.Context, m *mutex.Mutex) error {
	return m.Do(ctx, func(ctx context.Context, l *mutex.Lock) error {
		token := l.Token() // want `the token of Lock.Token is not sent`
		slog.InfoContext(ctx, "holds", "token", token)
		return work(ctx)
	})
}

func tokenIsDropped(ctx context.Context, e *election.Election) error {
	return e.Run(ctx, func(ctx context.Context, t *election.Term) error {
		_ = t.Token() // want `the token of Term.Token is dropped`
		return work(ctx)
	})
}

func handler(w http.ResponseWriter, r *http.Request) {
	c, err := coordinator.Open("etcd://localhost") // want `a client is opened for each HTTP request`
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer c.Close(r.Context())
	fmt.Fprintln(w, "ok")
}

func clientInALoop(ctx context.Context, names []string) error {
	for range names {
		c, err := coordinator.Open("etcd://localhost") // want `a client is opened in each round of a loop`
		if err != nil {
			return err
		}
		if err := c.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

func clientInTheWork(ctx context.Context, m *mutex.Mutex) error {
	return m.Do(ctx, func(ctx context.Context, l *mutex.Lock) error {
		c, err := coordinator.Open("zk://localhost") // want `a client is opened in the work of Mutex.Do`
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		return work(ctx, l.Token())
	})
}
