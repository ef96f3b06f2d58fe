package quorum_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/multilock/quorum"
)

// TestContextsEndBeforeTooFewMembersAreHeld: those of the hold and of work, and
// one derived from each, when the quorum is unlocked, the clients are closed or
// the sessions are lost.
func TestContextsEndBeforeTooFewMembersAreHeld(t *testing.T) {
	for how, end := range map[string]func(p *caller, finish func()){
		"unlock": func(_ *caller, finish func()) { finish() },
		"close": func(p *caller, _ func()) {
			for _, c := range p.clients {
				_ = c.Close(context.Background())
			}
		},
		"loss": func(p *caller, _ func()) { p.cut(0, 2); time.Sleep(time.Minute); p.heal() },
	} {
		within(t, 3, func(w *world) {
			p := w.caller(quorum.Majority)
			outer, err := w.caller(quorum.Majority).Lock(w.Context())
			if err != nil {
				w.Fatal(err)
			}
			w.unlock(outer)
			var given []context.Context
			ready, finish, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				l := p.lock()
				defer func() { _ = l.Unlock(context.Background()) }()
				inner, err := p.Lock(l.Context()) // re-enters
				if err != nil {
					w.Error(err)
					return
				}
				defer func() { _ = inner.Unlock(context.Background()) }()
				_ = p.Do(inner.Context(), func(ctx context.Context, _ *quorum.Lock) error {
					for _, c := range []context.Context{l.Context(), ctx} {
						derived, cancel := context.WithCancel(c)
						defer cancel()
						given = append(given, c, derived)
					}
					close(ready)
					<-finish
					return nil
				})
			}()
			<-ready
			var left atomic.Int32
			for _, svc := range w.services {
				svc.OnStep(func(s memory.Step) {
					if s.Kind != memory.StepLeft || left.Add(1) < 2 {
						return
					}
					for i, ctx := range given {
						select {
						case <-ctx.Done():
						default:
							w.Errorf("%s: context %d is alive when %d members have left", how, i, left.Load())
						}
					}
				})
			}
			end(p, func() { close(finish) })
			if how != "unlock" {
				close(finish)
			}
			<-done
			synctest.Wait()
			if left.Load() < 2 {
				w.Errorf("%s: %d members have left", how, left.Load())
			}
			for _, svc := range w.services {
				svc.OnStep(nil)
			}
		})
	}
}
