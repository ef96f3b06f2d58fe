package election_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

func TestProclaimChangesWhatOthersSeeAndWakesNoCandidate(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		term := a.campaign()
		time.Sleep(time.Second)
		c := b.stand(b.Context())
		before := a.svc.Stats()
		value := []byte("new")
		if err := term.Proclaim(a.Context(), value); err != nil {
			a.Fatal(err)
		}
		value[0] = 'X' // the caller's own again
		if after := a.svc.Stats(); after.Total()-before.Total() != 1 || after.Wakeups != before.Wakeups {
			a.Errorf("%+v, then %+v", before, after)
		}
		l, err := b.e.Leader(b.Context())
		if err != nil || string(l.Value) != "new" || l.Identity != "a" || l.Token != term.Token() {
			a.Errorf("%+v, %v", l, err)
		}
		if err := term.Proclaim(a.Context(), make([]byte, recipes.MaxPayload+1)); !errors.Is(err, coordinator.ErrInvalid) ||
			!strings.HasPrefix(err.Error(), `baton: proclaim "jobs": invalid: value has `) {
			a.Errorf("too long: %v", err)
		}
		if err := term.Proclaim(a.Context(), bytes.Repeat([]byte("x"), recipes.MaxPayload)); err != nil {
			a.Errorf("longest: %v", err)
		}
		a.resign(term)
		b.resign(c.won(t))
	})
}

func TestProclaimAfterTheTermWritesNothing(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		term := a.campaign()
		a.resign(term)
		next := b.campaign()
		err := term.Proclaim(a.Context(), []byte("late"))
		if !errors.Is(err, coordinator.ErrReleased) || !strings.Contains(err.Error(), "proclaim") {
			a.Errorf("after Resign: %v", err)
		}
		b.link.Cut()
		if err := next.Proclaim(b.Context(), []byte("late")); !errors.Is(err, coordinator.ErrSessionLost) {
			b.Errorf("while lost: %v", err)
		}
		third := a.campaign()
		b.link.Heal() // lets the late request through
		synctest.Wait()
		if l, err := a.e.Leader(a.Context()); err != nil || string(l.Value) != "a" {
			a.Errorf("%+v, %v", l, err)
		}
		time.Sleep(time.Second)
		a.svc.Remove(queue, a.svc.Snapshot(queue)[0].Key)
		if err := third.Proclaim(a.Context(), []byte("late")); !errors.Is(err, coordinator.ErrRemoved) {
			b.Errorf("after the removal: %v", err)
		}
		if left := a.svc.Snapshot(queue); len(left) != 0 {
			a.Errorf("left: %v", left)
		}
	})
}

// TestProclaimThatMeetsAResignReturnsThat: the write finds the entry gone, and the term was not lost.
func TestProclaimThatMeetsAResignReturnsThat(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		term := a.campaign()
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpWrite {
				return memory.Fate{DelayRequest: 2 * time.Second}
			}
			return memory.Fate{}
		})
		resigned := make(chan struct{})
		time.AfterFunc(time.Second, func() {
			defer close(resigned)
			a.resign(term)
		})
		if err := term.Proclaim(a.Context(), []byte("late")); !errors.Is(err, coordinator.ErrReleased) {
			a.Errorf("Proclaim = %v", err)
		}
		<-resigned
	})
}
