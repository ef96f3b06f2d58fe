package recipes_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// What holds for every recipe is tested here for all of them.

// way is one way of asking for something on the name "n".
type way struct {
	name  string
	queue driver.Queue
	ask   func(context.Context, *coordinator.Client) (held, error)
}

// held is what any of the recipes grants.
type held struct {
	token   coordinator.Token
	session string
	ctx     context.Context
	err     func() error
	release func(context.Context) error
	show    func(context.Context) (fence.Sequencer, error)
}

// showable is what handles have in common.
type showable interface {
	Token() coordinator.Token
	Session() string
	Context() context.Context
	Err() error
	Sequencer(ctx context.Context) (fence.Sequencer, error)
}

func heldOf(h showable, release func(context.Context) error) held {
	return held{h.Token(), h.Session(), h.Context(), h.Err, release, h.Sequencer}
}

// ways shut each other out: each of them all who come after in the same way.
func ways() []way {
	return []way{
		{"lock", "mutex/n", func(ctx context.Context, c *coordinator.Client) (held, error) {
			m, err := mutex.New(c, "n")
			if err != nil {
				return held{}, err
			}
			l, err := m.Lock(ctx)
			if err != nil {
				return held{}, err
			}
			return heldOf(l, l.Unlock), nil
		}},
		{"write lock", "rwlock/n", func(ctx context.Context, c *coordinator.Client) (held, error) {
			l, err := rwlock.New(c, "n")
			if err != nil {
				return held{}, err
			}
			return ofLock(l.Lock(ctx))
		}},
		{"permits", "semaphore/n", func(ctx context.Context, c *coordinator.Client) (held, error) {
			s, err := semaphore.New(c, "n", 3)
			if err != nil {
				return held{}, err
			}
			p, err := s.Acquire(ctx, 2)
			if err != nil {
				return held{}, err
			}
			return heldOf(p, p.Release), nil
		}},
		{"term", "election/n", func(ctx context.Context, c *coordinator.Client) (held, error) {
			e, err := election.New(c, "n")
			if err != nil {
				return held{}, err
			}
			t, err := e.Campaign(ctx, nil)
			if err != nil {
				return held{}, err
			}
			return heldOf(t, t.Resign), nil
		}},
	}
}

func ofLock(l *rwlock.Lock, err error) (held, error) {
	if err != nil {
		return held{}, err
	}
	return heldOf(l, l.Unlock), nil
}

var reading = way{"read lock", "rwlock/n", func(ctx context.Context, c *coordinator.Client) (held, error) {
	l, err := rwlock.New(c, "n")
	if err != nil {
		return held{}, err
	}
	return ofLock(l.RLock(ctx))
}}

// place is a service with clients on links of their own, in virtual time.
type place struct {
	*testing.T
	svc   *memory.Service
	links []*memory.Driver
	all   []*coordinator.Client
}

const ttl = 10 * time.Second

// worlds runs a test in a world of its own for each way. Whatever is left at the end, an entry, a watch, a
// session, a goroutine, fails it.
func worlds(t *testing.T, all []way, clients int, f func(w place, ask way)) {
	t.Helper()
	for _, ask := range all {
		t.Run(ask.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := place{T: t, svc: memory.NewService()}
				for range clients {
					link := w.svc.Driver()
					c, err := coordinator.New(link, coordinator.WithTTL(ttl), coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := engine.Of(c).Session(context.Background()); err != nil {
						t.Fatal(err)
					}
					w.links, w.all = append(w.links, link), append(w.all, c)
				}
				f(w, ask)
				w.svc.OnRequest(nil)
				for _, c := range w.all {
					_ = c.Close(context.Background())
				}
				time.Sleep(2 * ttl)
				if st := w.svc.Stats(); st.Sessions != 0 || st.Watches != 0 || len(w.svc.Snapshot(ask.queue)) != 0 {
					t.Errorf("left behind: %+v", st)
				}
			})
		})
	}
}

// take asks for what is free.
func (w place) take(ask way, i int) held {
	w.Helper()
	h, err := ask.ask(context.Background(), w.all[i])
	if err != nil {
		w.Fatal(err)
	}
	return h
}

func (w place) giveBack(h held) {
	w.Helper()
	if err := h.release(context.Background()); err != nil {
		w.Error(err)
	}
}

// call is one in the background.
type call struct {
	done chan struct{}
	held held
	err  error
	at   time.Time
}

// queue asks for what is not free, and waits until the call does nothing but wait.
func (w place) queue(ctx context.Context, ask way, i int) *call {
	a := &call{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.held, a.err = ask.ask(ctx, w.all[i])
		a.at = time.Now()
	}()
	synctest.Wait()
	return a
}

func (a *call) over() bool {
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// granted waits for as long as it takes: virtual time is free, and a call that never ends fails the test.
func (w place) granted(a *call) held {
	w.Helper()
	<-a.done
	if a.err != nil {
		w.Fatal(a.err)
	}
	return a.held
}

func (w place) session(i int) *engine.Session {
	w.Helper()
	s, err := engine.Of(w.all[i]).Session(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func lost(err error) bool { return errors.Is(err, coordinator.ErrSessionLost) }
