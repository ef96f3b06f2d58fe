package corpus

import (
	"context"
	"errors"
	"log"
	"net/http"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

type server struct {
	client *coordinator.Client
	jobs   *mutex.Mutex
	held   *mutex.Lock
}

func newServer() (*server, error) {
	c, err := coordinator.Open("etcd://localhost")
	if err != nil {
		return nil, err
	}
	m, err := mutex.New(c, "jobs")
	return &server{client: c, jobs: m}, err
}

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	err := s.jobs.Do(r.Context(), func(ctx context.Context, l *mutex.Lock) error {
		return work(ctx, l.Token())
	})
	if errors.Is(err, coordinator.ErrUnavailable) {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

func (s *server) keeps(ctx context.Context) (err error) {
	s.held, err = s.jobs.Lock(ctx)
	return err
}

func deferred(ctx context.Context, m *mutex.Mutex) error {
	l, err := m.Lock(ctx)
	if err != nil {
		log.Printf("no lock: %v", work(ctx))
		return err
	}
	defer func() { _ = l.Unlock(ctx) }()
	return work(l.Context(), l.Token())
}

func switched(ctx context.Context, m *mutex.Mutex) error {
	switch l, err := m.TryLock(ctx); {
	case errors.Is(err, coordinator.ErrTaken):
		return work(ctx)
	case err != nil:
		return err
	default:
		defer l.Unlock(ctx)
		return work(l.Context())
	}
}

func positive(ctx context.Context, m *mutex.Mutex) error {
	l, err := m.Lock(ctx)
	if err == nil {
		err = errors.Join(work(l.Context()), l.Unlock(ctx))
	}
	return err
}

func returned(ctx context.Context, l *rwlock.RWLock) (*rwlock.Lock, error) {
	held, err := l.RLock(ctx)
	if err != nil {
		return nil, err
	}
	return held, nil
}

func named(ctx context.Context, m *mutex.Mutex) (l *mutex.Lock, err error) {
	l, err = m.Lock(ctx)
	return
}

func handedOver(ctx context.Context, s *semaphore.Semaphore, to chan *semaphore.Permit) error {
	p, err := s.TryAcquire(ctx, 1)
	if err != nil {
		return err
	}
	to <- p
	return work(ctx)
}

func inTheBackground(ctx context.Context, m *mutex.Mutex) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	go func() {
		defer l.Unlock(context.WithoutCancel(ctx))
		_ = work(l.Context())
	}()
	return nil
}

func ownContext(ctx context.Context, m *mutex.Mutex) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx)
	ctx = l.Context()
	return work(ctx, l.Token())
}

func derived(ctx context.Context, m *mutex.Mutex) error {
	return m.Do(ctx, func(ctx context.Context, l *mutex.Lock) error {
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return work(soon, l.Token())
	})
}

func released(ctx context.Context, m *mutex.Mutex, e *election.Election) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if err := l.Unlock(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return e.Run(ctx, func(term context.Context, t *election.Term) error {
		if err := work(term, t.Token()); err != nil {
			return t.Resign(ctx)
		}
		<-ctx.Done()
		return nil
	})
}

func downgrade(ctx context.Context, l *rwlock.RWLock) error {
	w, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	r, err := l.RLock(w.Context())
	if err != nil {
		return errors.Join(err, w.Unlock(ctx))
	}
	if err := w.Unlock(ctx); err != nil {
		return errors.Join(err, r.Unlock(ctx))
	}
	return r.Unlock(ctx)
}

func severalClients(ctx context.Context, urls []string) (all []*coordinator.Client, err error) {
	for _, u := range urls {
		c, err := coordinator.Open(u)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, ctx.Err()
}

func panics(ctx context.Context, m *mutex.Mutex) {
	l, err := m.Lock(ctx)
	if err != nil {
		panic(err)
	}
	if err := work(l.Context(), l.Token()); err != nil {
		log.Fatal(err)
	}
	if err := l.Unlock(ctx); err != nil {
		panic(err)
	}
}

func audits(ctx context.Context, m *mutex.Mutex) error {
	return m.Do(ctx, func(held context.Context, l *mutex.Lock) error {
		go work(ctx, "started")
		if l.Token() == 1 {
			<-ctx.Done()
		}
		return work(held, l.Token())
	})
}

func withinAnIf(ctx context.Context, m *mutex.Mutex) error {
	if l, err := m.TryLock(ctx); err == nil {
		defer l.Unlock(ctx)
		return work(l.Context())
	}
	return work(ctx)
}

func again(ctx context.Context, e *election.Election) error {
	for {
		t, err := e.Campaign(ctx, nil)
		if err != nil {
			return err
		}
		if err := errors.Join(work(t.Context()), t.Resign(ctx)); err != nil {
			return err
		}
	}
}

func correlated(ctx context.Context, m *mutex.Mutex) error {
	l, err := m.Lock(ctx)
	if err == nil {
		if err = work(l.Context()); err != nil {
			err = errors.Join(err, l.Unlock(ctx))
		}
	}
	if err != nil {
		return err
	}
	return l.Unlock(ctx)
}
