package multilock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/multilock"
)

// TestContextsEndBeforeAMemberIsFree: those of the set and of work, and one
// derived from each, when the set is unlocked, a client is closed or a session
// is lost.
func TestContextsEndBeforeAMemberIsFree(t *testing.T) {
	for how, end := range map[string]func(c *coordinator.Client, link *memory.Driver){
		"unlock": func(*coordinator.Client, *memory.Driver) {},
		"close":  func(c *coordinator.Client, _ *memory.Driver) { _ = c.Close(context.Background()) },
		"loss":   func(_ *coordinator.Client, link *memory.Driver) { link.Cut(); time.Sleep(time.Minute); link.Heal() },
	} {
		at(t, 1, func(s *site) {
			c, link := s.client(0)
			var given []context.Context
			ready, finish, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				l, err := s.set(c, "a", "b").Lock(s.Context())
				if err != nil {
					s.Error(err)
					return
				}
				defer func() { _ = l.Unlock(context.Background()) }()
				_ = s.set(c, "b", "c").Do(l.Context(), func(ctx context.Context, _ *multilock.Lock) error {
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
			select {
			case <-ready:
			case <-done: // it has failed
				return
			}
			judged := 0
			s.services[0].OnStep(func(step memory.Step) {
				if step.Kind != memory.StepLeft {
					return
				}
				outer := given[:2]
				if step.Queue == "mutex/c" {
					outer = nil // only the inner set has it
				}
				for i, ctx := range append(outer[:len(outer):len(outer)], given[2:]...) {
					judged++
					select {
					case <-ctx.Done():
					default:
						s.Errorf("%s: context %d is alive when %s is free", how, i, step.Queue)
					}
				}
			})
			if how == "unlock" {
				close(finish)
			}
			end(c, link)
			if how != "unlock" {
				close(finish)
			}
			<-done
			synctest.Wait()
			if judged == 0 {
				s.Errorf("%s: nothing was judged", how)
			}
			s.services[0].OnStep(nil)
		})
	}
}
