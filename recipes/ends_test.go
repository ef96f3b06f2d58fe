package recipes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock"
	"github.com/baton-go/baton/recipes/partition"
)

// given collects the contexts that work got, and judges the requests that give
// its name to someone else.
type given struct {
	place
	mu     sync.Mutex
	all    []context.Context
	judged int
}

// work lasts until its context ends.
func (g *given) work(ctx context.Context) error {
	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	g.mu.Lock()
	g.all = append(g.all, ctx, derived)
	g.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (g *given) judge(r memory.Request) memory.Fate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Op == memory.OpLeave || r.Op == memory.OpForget || r.Op == memory.OpClose {
		for _, ctx := range g.all {
			g.judged++
			select {
			case <-ctx.Done():
			default:
				g.Errorf("%s is sent while a context of work is alive", r.Op)
			}
		}
		g.all = nil
	}
	return memory.Fate{}
}

// everyWork are all calls on a client that give a context to work.
func everyWork(g *given, c *coordinator.Client) map[string]func(context.Context) error {
	m, _ := newMutex(c)
	l, _ := newLock(c)
	s, _ := newSemaphore(c)
	e, _ := newElection(c)
	p, _ := partition.New(c, "n", 3)
	set, _ := multilock.New(multilock.Mutex(c, "a"), multilock.Write(c, "b"))
	return map[string]func(context.Context) error{
		"mutex":   func(ctx context.Context) error { return bare(m.Do)(ctx, g.work) },
		"writer":  func(ctx context.Context) error { return bare(l.Do)(ctx, g.work) },
		"reader":  func(ctx context.Context) error { return bare(l.RDo)(ctx, g.work) },
		"permits": func(ctx context.Context) error { return doing(s)(ctx, g.work) },
		"set":     func(ctx context.Context) error { return bare(set.Do)(ctx, g.work) },
		"nested": func(ctx context.Context) error {
			return bare(m.Do)(ctx, func(ctx context.Context) error {
				return bare(set.Do)(ctx, g.work)
			})
		},
		"election": func(ctx context.Context) error {
			return e.Run(ctx, func(ctx context.Context, _ *election.Term) error { return g.work(ctx) })
		},
		"partition": func(ctx context.Context) error {
			return p.Run(ctx, func(ctx context.Context, _ *partition.Shard) error {
				return g.work(ctx)
			})
		},
	}
}

// TestContextOfWorkEndsBeforeTheNameIsGivenAway: when the client is closed, or
// tells the service of a loss, the context of work and those derived from it
// have ended. A goroutine that still has to end them may run too late.
func TestContextOfWorkEndsBeforeTheNameIsGivenAway(t *testing.T) {
	for name := range everyWork(nil, unused(t)) {
		for how, end := range map[string]func(w place){
			"close": func(w place) { _ = w.all[0].Close(context.Background()) },
			"loss":  func(w place) { w.links[0].Cut(); time.Sleep(2 * ttl); w.links[0].Heal() },
		} {
			worlds(t, []way{{name: name + ", " + how, queue: "mutex/n"}}, 1, func(w place, _ way) {
				g := &given{place: w}
				w.svc.OnRequest(g.judge)
				ctx, cancel := context.WithCancel(w.Context())
				done := start(func() error { return everyWork(g, w.all[0])[name](ctx) })
				time.Sleep(time.Second)
				end(w)
				cancel()
				<-done
				if g.judged == 0 {
					t.Error("nothing was judged")
				}
			})
		}
	}
}

// TestContextOfWorkEndsBeforeItsReleaseIsSent, of Do and RDo, and of work that
// itself resigns or is released by another handle.
func TestContextOfWorkEndsBeforeItsReleaseIsSent(t *testing.T) {
	returns := func(g *given, release func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			g.mu.Lock()
			g.all = append(g.all, ctx)
			g.mu.Unlock()
			return release(ctx)
		}
	}
	nothing := func(context.Context) error { return nil }
	for name, run := range map[string]func(g *given, c *coordinator.Client) error{
		"mutex": func(g *given, c *coordinator.Client) error {
			m, _ := newMutex(c)
			return bare(m.Do)(g.Context(), returns(g, nothing))
		},
		"reader": func(g *given, c *coordinator.Client) error {
			l, _ := newLock(c)
			return bare(l.RDo)(g.Context(), returns(g, nothing))
		},
		"permits": func(g *given, c *coordinator.Client) error {
			s, _ := newSemaphore(c)
			return doing(s)(g.Context(), returns(g, nothing))
		},
		"term": func(g *given, c *coordinator.Client) error {
			e, _ := newElection(c)
			return e.Run(g.Context(), func(ctx context.Context, term *election.Term) error {
				return returns(g, term.Resign)(ctx)
			})
		},
	} {
		worlds(t, []way{{name: name, queue: "mutex/n"}}, 1, func(w place, _ way) {
			g := &given{place: w}
			w.svc.OnRequest(g.judge)
			for range 50 {
				w.want("work", run(g, w.all[0]), nil)
			}
			if g.judged != 50 {
				t.Errorf("%d judged", g.judged)
			}
		})
	}
}

// TestDeadlineOfWorkKeepsItsCause: the context of work ends with the error and
// the cause of its caller's, and with those of the hold otherwise.
func TestDeadlineOfWorkKeepsItsCause(t *testing.T) {
	worlds(t, ways()[:1], 1, func(w place, _ way) {
		late, most := errors.New("late"), 2*time.Second
		m, err := mutex.New(w.all[0], "n", mutex.WithMaxHold(most))
		check(t, err)
		for d, want := range map[time.Duration][2]error{
			time.Second: {context.DeadlineExceeded, late},
			time.Minute: {context.Canceled, recipes.ErrHeldTooLong},
		} {
			ctx, cancel := context.WithTimeoutCause(w.Context(), d, late)
			_ = m.Do(ctx, func(ctx context.Context, _ *mutex.Lock) error {
				child, stop := context.WithCancel(ctx)
				defer stop()
				<-child.Done()
				for _, c := range []context.Context{ctx, child} {
					if c.Err() != want[0] || context.Cause(c) != want[1] { //nolint:errorlint // themselves
						t.Errorf("after %v: %v, %v", d, c.Err(), context.Cause(c))
					}
				}
				return nil
			})
			cancel()
			synctest.Wait()
		}
	})
}
