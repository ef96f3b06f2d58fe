package election_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/recipes"
)

func TestLeaderCannotCampaignAgainstItself(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		term := a.campaign()
		before := a.svc.Stats().Total()
		for _, ctx := range []context.Context{term.Context(),
			context.WithoutCancel(term.Context())} {
			if _, err := a.e.Campaign(ctx, nil); !errors.Is(err, coordinator.ErrInvalid) ||
				!strings.Contains(err.Error(), "Proclaim") {
				a.Errorf("Campaign with the term's context = %v", err)
			}
			if _, err := a.e.TryCampaign(ctx, nil); !errors.Is(err, coordinator.ErrInvalid) {
				a.Errorf("TryCampaign with the term's context = %v", err)
			}
		}
		if n := a.svc.Stats().Total() - before; n != 0 {
			a.Errorf("%d requests", n)
		}
		if _, err := b.e.TryCampaign(term.Context(), nil); !errors.Is(err, coordinator.ErrTaken) {
			a.Errorf("another client with the term's context: %v", err)
		}
		other, err := election.New(a.client, "other")
		if err != nil {
			a.Fatal(err)
		}
		second, err := other.Campaign(term.Context(), nil)
		if err != nil {
			a.Fatal(err)
		}
		if _, err := a.e.Campaign(second.Context(), nil); !errors.Is(err, coordinator.ErrInvalid) {
			a.Errorf("with the context of a term within: %v", err)
		}
		a.resign(second)
		a.resign(term)
		// The values of a term's context outlive the term; the refusal does not.
		again, err := a.e.Campaign(context.WithoutCancel(term.Context()), nil)
		if err != nil {
			a.Fatal(err)
		}
		a.resign(again)
	})
}

func TestLeaderShowsWhoLeads(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		if l, err := b.e.Leader(b.Context()); !errors.Is(err, election.ErrNoLeader) || !l.IsZero() {
			a.Errorf("nobody: %+v, %v", l, err)
		}
		began := time.Now()
		term := a.campaign()
		time.Sleep(time.Minute)
		c := b.stand(b.Context())
		l, err := b.e.Leader(b.Context())
		if err != nil || l.Identity != "a" || string(l.Value) != "a" || l.Token != term.Token() ||
			l.IsZero() ||
			l.Session != term.Session() || !l.Since.Equal(began) {
			a.Errorf("%+v, %v", l, err)
		}
		a.resign(term)
		next := c.won(t)
		if l, err := a.e.Leader(a.Context()); err != nil || l.Identity != "b" ||
			l.Token != next.Token() {
			a.Errorf("after the hand-over: %+v, %v", l, err)
		}
		b.resign(next)
		b.svc.AddForeign(queue)
		if l, err := a.e.Leader(a.Context()); err != nil || l.Identity != "" || l.IsZero() {
			a.Errorf("a foreign entry: %+v, %v", l, err)
		}
	})
}

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
		if after := a.svc.Stats(); after.Total()-before.Total() != 1 ||
			after.Wakeups != before.Wakeups {
			a.Errorf("%+v, then %+v", before, after)
		}
		l, err := b.e.Leader(b.Context())
		if err != nil || string(l.Value) != "new" || l.Identity != "a" || l.Token != term.Token() {
			a.Errorf("%+v, %v", l, err)
		}
		if err := term.Proclaim(a.Context(), make([]byte, recipes.MaxPayload+1)); !errors.Is(err,
			coordinator.ErrInvalid) ||
			!strings.HasPrefix(err.Error(), `baton: proclaim "jobs": invalid: value has `) {
			a.Errorf("too long: %v", err)
		}
		a.resign(term)
		b.resign(c.won(t))
	})
}

// view is an Observe under way, and what it has shown.
type view struct {
	mu   sync.Mutex
	seen []election.Leader
	err  error
	stop context.CancelCauseFunc
	done chan struct{}
}

// observe follows the leader beside the test, and returns when all is quiet.
func (p party) observe() *view {
	ctx, stop := context.WithCancelCause(p.Context())
	v := &view{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(v.done)
		for l, err := range p.e.Observe(ctx) {
			v.mu.Lock()
			if err != nil {
				v.err = err
			} else {
				v.seen = append(v.seen, l)
			}
			v.mu.Unlock()
		}
	}()
	synctest.Wait()
	return v
}

// take returns what was shown since the last take, as "identity:value", and "-"
// for nobody.
func (v *view) take() []string {
	synctest.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	var s []string
	for _, l := range v.seen {
		if l.IsZero() {
			s = append(s, "-")
		} else {
			s = append(s, l.Identity+":"+string(l.Value))
		}
	}
	v.seen = nil
	return s
}

func (v *view) want(t *testing.T, want ...string) {
	t.Helper()
	if got := v.take(); !slices.Equal(got, want) {
		t.Errorf("shown %q, want %q", got, want)
	}
}

func TestObserveShowsThePresentAndThenEachChange(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		v := p[2].observe()
		v.want(t, "-")
		term := p[0].campaign()
		v.want(t, "a:a")
		c := p[1].stand(t.Context())
		v.want(t) // a candidate is no change
		if err := term.Proclaim(t.Context(), []byte("two")); err != nil {
			t.Error(err)
		}
		v.want(t, "a:two")
		p[0].resign(term)
		v.want(t, "b:b") // a hand-over is one step
		late := p[0].observe()
		late.want(t, "b:b")
		p[1].resign(c.won(t))
		v.want(t, "-")
		late.want(t, "-")
		mine := errors.New("mine")
		v.stop(mine)
		late.stop(nil)
		if <-v.done; v.err != mine { //nolint:errorlint // itself
			t.Errorf("ended with %v", v.err)
		}
		if <-late.done; !errors.Is(late.err, context.Canceled) {
			t.Errorf("ended with %v", late.err)
		}
		synctest.Wait()
		if n := p[0].svc.Stats().Watches; n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

func TestObserveEndsOnceWithAnErrorItDoesNotOutlive(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		p[0].svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpHead && r.Driver == p[1].link {
				return memory.Fate{Err: driver.Wrap(driver.ErrRefused, errors.New("no permission"))}
			}
			return memory.Fate{}
		})
		refused := p[1].observe()
		if <-refused.done; !errors.Is(refused.err, coordinator.ErrRefused) ||
			!strings.Contains(refused.err.Error(), "jobs") {
			t.Errorf("refused: %v", refused.err)
		}
		refused.want(t)

		p[0].svc.Stop()
		away := p[0].observe()
		time.Sleep(time.Minute)
		away.stop(nil)
		if <-away.done; !errors.Is(away.err, coordinator.ErrUnavailable) ||
			!errors.Is(away.err, context.Canceled) {
			t.Errorf("away: %v", away.err)
		}
		p[0].svc.Start()
	})
}
