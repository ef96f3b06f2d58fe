package election_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

// TestCurrentIsTheTermUntilItIsOver, also while Run drains it.
func TestCurrentIsTheTermUntilItIsOver(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		want := func(when string, e *election.Election, term *election.Term) {
			t.Helper()
			if got := e.Current(); got != term {
				t.Errorf("%s: Current = %v, want %v", when, got, term)
			}
		}
		want("before", a.e, nil)
		term := a.campaign()
		waiting := b.enqueue(t.Context())
		want("while leading", a.e, term)
		want("while another leads", b.e, nil)
		a.resign(term)
		want("after resigning", a.e, nil)
		second := waiting.won(t)
		want("in the second term", b.e, second)
		b.link.Cut()
		time.Sleep(time.Until(second.Deadline()) - time.Millisecond)
		want("before the deadline", b.e, second)
		time.Sleep(time.Millisecond)
		want("at the deadline", b.e, nil)
		b.link.Heal()

		var third *election.Term
		r := a.run(func(ctx context.Context, term *election.Term) error {
			third = term
			<-ctx.Done()
			time.Sleep(time.Second)
			return nil
		})
		sleep(time.Minute) // until the lost entry has gone
		want("in Run", a.e, third)
		r.stop(nil)
		sleep(time.Second / 2)
		want("while the work drains", a.e, third)
		_ = r.ended()
		want("after Run", a.e, nil)
	})
}

// TestCurrentSendsNoRequest: it may be called for each message that a process
// handles.
func TestCurrentSendsNoRequest(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		term := a.campaign()
		sent := 0
		a.svc.OnRequest(func(memory.Request) (f memory.Fate) { sent++; return f })
		for range 1000 {
			if a.e.Current() != term {
				t.Fatal("does not lead")
			}
		}
		if a.svc.OnRequest(nil); sent != 0 {
			t.Errorf("%d requests", sent)
		}
		a.resign(term)
	})
}

// seen is what an observer was shown, with the time.
type seen struct {
	*notes[string]
	stop context.CancelFunc
	done chan struct{}
}

// observe notes what Observe yields, with the minute: "3m0s a", "?" for a state
// that may be over, "-" for no leader.
func (p party) observe() *seen {
	ctx, stop := context.WithCancel(p.Context())
	s, began := &seen{new(notes[string]), stop, make(chan struct{})}, time.Now()
	go func() {
		defer close(s.done)
		for leader, err := range p.e.Observe(ctx) {
			text := string(leader.Payload)
			if leader.Token == 0 {
				text = "-"
			}
			if leader.Stale {
				text += "?"
			}
			if err == nil {
				s.add(fmt.Sprint(time.Since(began).Truncate(time.Minute), " ", text))
			}
		}
	}()
	return s
}

func (s *seen) end(t *testing.T, want ...string) {
	t.Helper()
	s.stop()
	<-s.done
	if got := s.get(); !slices.Equal(got, want) {
		t.Errorf("observed %q, want %q", got, want)
	}
}

// TestObserverSaysWhenItsStateMayBeOver: what is shown after a silence of a
// quarter of the TTL, or much more, differs from a state that lasts.
func TestObserverSaysWhenItsStateMayBeOver(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		a, b, c := p[0], p[1], p[2]
		term := a.campaign()
		o := c.observe()
		sleep(10 * time.Minute) // a state that lasts is shown once
		c.link.Cut()
		sleep(2 * time.Second) // a short silence is none
		c.link.Heal()
		sleep(10 * time.Second)
		c.link.Cut() // after 10m12s
		sleep(5 * time.Second)
		c.link.Heal() // the same state is confirmed
		sleep(43 * time.Second)
		c.link.Cut() // after 11m0s
		a.resign(term)
		term = b.campaign()
		sleep(11 * time.Minute)
		c.link.Heal()
		sleep(time.Minute)
		b.resign(term)
		sleep(time.Minute)
		c.link.Cut() // after 24m0s: the absence of a leader may be over, too
		sleep(time.Minute)
		c.link.Heal()
		sleep(time.Minute)
		o.end(t, "0s a", "10m0s a?", "10m0s a", "11m0s a?", "22m0s b", "23m0s -", "24m0s -?",
			"25m0s -")
	})
}

// TestObserverBelievesNoServerThatCannotRenew: one that is cut off from the
// others may still answer reads, with a state of the past.
func TestObserverBelievesNoServerThatCannotRenew(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		term := a.campaign()
		o := b.observe()
		sleep(time.Minute)
		b.svc.OnRequest(func(r memory.Request) memory.Fate {
			return memory.Fate{DropRequest: r.Driver == b.link &&
				(r.Op == memory.OpRenew || r.Op == memory.OpOpen)}
		})
		sleep(10 * time.Minute)
		b.svc.OnRequest(nil)
		sleep(time.Minute)
		o.end(t, "0s a", "1m0s a?", "11m0s a")
		a.resign(term)
	})
}

// TestObserverSaysThatItsSessionWasLost, since it may have missed changes.
func TestObserverSaysThatItsSessionWasLost(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		term := a.campaign()
		o := b.observe()
		sleep(time.Minute)
		b.svc.Expire(b.session().ID())
		sleep(coordinator.DefaultTTL)
		o.end(t, "0s a", "1m0s a?", "1m0s a")
		a.resign(term)
	})
}
