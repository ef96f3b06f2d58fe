package doublebarrier

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/doublebarrier/internal/round"
)

// TestContextOfAMemberEndsBeforeItsEntryLeaves: when it leaves, gives up to
// leave, its client is closed or its session is lost.
func TestContextOfAMemberEndsBeforeItsEntryLeaves(t *testing.T) {
	for how, end := range map[string]func(p party, m *Member){
		"leave": func(_ party, m *Member) { _ = m.Leave(context.Background()) },
		"give up": func(p party, m *Member) {
			ctx, cancel := context.WithTimeout(p.Context(), time.Second)
			defer cancel()
			_ = m.Leave(ctx)
		},
		"close": func(p party, _ *Member) { _ = p.client.Close(context.Background()) },
		"loss":  func(p party, _ *Member) { p.link.Cut(); time.Sleep(time.Minute); p.link.Heal() },
	} {
		inWorld(t, func(w world) {
			n := 1
			if how == "give up" {
				n = 2
				other := w.join(n)
				go func() {
					if m, err := other.Enter(w.Context()); err == nil {
						<-m.Context().Done()
					}
				}()
			}
			p := w.join(n)
			m, err := p.Enter(w.Context())
			if err != nil {
				w.Fatal(err)
			}
			derived, cancel := context.WithCancel(m.Context())
			defer cancel()
			judged := 0
			w.svc.OnStep(func(s memory.Step) {
				if s.Kind != memory.StepLeft || s.Entry.Token != m.hold.Token() {
					return
				}
				judged++
				for _, ctx := range []context.Context{m.Context(), derived} {
					select {
					case <-ctx.Done():
					default:
						w.Errorf("%s: a context is alive when the entry has left", how)
					}
				}
			})
			end(p, m)
			synctest.Wait()
			if judged != 1 {
				w.Errorf("%s: judged %d times", how, judged)
			}
			w.svc.OnStep(nil)
		})
	}
}

// TestMemberWhoseEntryToLeaveIsRemovedIsReported: an operator removes it, and
// without it no other member could see that all have called Leave.
func TestMemberWhoseEntryToLeaveIsRemovedIsReported(t *testing.T) {
	inWorld(t, func(w world) {
		crew := w.crew(3)
		members := w.inside(crew)
		removed := w.leave(w.Context(), members[0])
		for _, e := range w.svc.Snapshot(queue) {
			if !round.Entering(e.Mode) {
				w.svc.Remove(queue, e.Key)
			}
		}
		others := []*call{w.leave(w.Context(), members[1]), w.leave(w.Context(), members[2])}
		w.returned(removed)
		if !errors.Is(removed.err, coordinator.ErrRemoved) {
			w.Errorf("got %v", removed.err)
		}
		w.loses(crew[:1], others...)
		w.empty()
	})
}
