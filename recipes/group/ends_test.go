package group_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/group"
)

// TestContextOfAMemberEndsBeforeItIsUnlisted: when it leaves, its client is
// closed or its session is lost.
func TestContextOfAMemberEndsBeforeItIsUnlisted(t *testing.T) {
	for how, end := range map[string]func(s *site, link *memory.Driver, m *group.Member){
		"leave": func(_ *site, _ *memory.Driver, m *group.Member) { _ = m.Leave(context.Background()) },
		"close": func(s *site, _ *memory.Driver, _ *group.Member) { _ = s.clients[0].Close(context.Background()) },
		"loss": func(_ *site, link *memory.Driver, _ *group.Member) {
			link.Cut()
			time.Sleep(time.Minute)
			link.Heal()
		},
	} {
		at(t, func(s *site) {
			g, link := s.group()
			m, err := g.Join(s.Context(), nil)
			if err != nil {
				s.Fatal(err)
			}
			derived, cancel := context.WithCancel(m.Context())
			defer cancel()
			judged := 0
			s.svc.OnStep(func(step memory.Step) {
				if step.Kind != memory.StepLeft {
					return
				}
				judged++
				for _, ctx := range []context.Context{m.Context(), derived} {
					select {
					case <-ctx.Done():
					default:
						s.Errorf("%s: a context is alive when the entry has left", how)
					}
				}
			})
			end(s, link, m)
			synctest.Wait()
			if judged != 1 {
				s.Errorf("%s: judged %d times", how, judged)
			}
			s.svc.OnStep(nil)
		})
	}
}
