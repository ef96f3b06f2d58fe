package election_test

import (
	"context"
	"errors"
	"slices"
	"strings"
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
		must(a, err)
		second, err := other.Campaign(term.Context(), nil)
		must(a, err)
		if _, err := a.e.Campaign(second.Context(), nil); !errors.Is(err, coordinator.ErrInvalid) {
			a.Errorf("with the context of a term within: %v", err)
		}
		a.resign(second)
		a.resign(term)
		// The values of a term's context outlive the term; the refusal does
		// not.
		again, err := a.e.Campaign(context.WithoutCancel(term.Context()), nil)
		must(a, err)
		a.resign(again)
	})
}

func TestLeaderReturnsTheLeader(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		if l, err := b.e.Leader(b.Context()); !errors.Is(err, election.ErrNoLeader) || l.Token != 0 {
			a.Errorf("no candidates: %+v, %v", l, err)
		}
		began := time.Now()
		term := a.campaign()
		time.Sleep(time.Minute)
		c := b.enqueue(b.Context())
		l, err := b.e.Leader(b.Context())
		if err != nil || l.Identity != "a" || string(l.Payload) != "a" || l.Token != term.Token() ||
			l.Token == 0 ||
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
		if l, err := a.e.Leader(a.Context()); err != nil || l.Identity != "" || l.Token == 0 {
			a.Errorf("a foreign entry: %+v, %v", l, err)
		}
	})
}

func TestProclaimChangesWhatOthersSeeAndWakesNoCandidate(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		term := a.campaign()
		time.Sleep(time.Second)
		c := b.enqueue(b.Context())
		before := a.svc.Stats()
		value := []byte("new")
		must(a, term.Proclaim(a.Context(), value))
		value[0] = 'X' // the caller may change it after the call
		if after := a.svc.Stats(); after.Total()-before.Total() != 1 ||
			after.Wakeups != before.Wakeups {
			a.Errorf("%+v, then %+v", before, after)
		}
		l, err := b.e.Leader(b.Context())
		if err != nil || string(l.Payload) != "new" || l.Identity != "a" || l.Token != term.Token() {
			a.Errorf("%+v, %v", l, err)
		}
		if err := term.Proclaim(a.Context(), make([]byte, recipes.MaxPayload+1)); !errors.Is(err,
			coordinator.ErrInvalid) ||
			!strings.HasPrefix(err.Error(), `baton: proclaim "jobs": invalid: payload has `) {
			a.Errorf("too long: %v", err)
		}
		a.resign(term)
		b.resign(c.won(t))
	})
}

// TestObserveShowsEachChangeAndEndsOnce: package recipes tests the order of
// changes.
func TestObserveShowsEachChangeAndEndsOnce(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		observe := func(ctx context.Context) (shown, errs *notes[string], done chan struct{}) {
			shown, errs, done = new(notes[string]), new(notes[string]), make(chan struct{})
			go func() {
				defer close(done)
				for l, err := range b.e.Observe(ctx) {
					if err != nil {
						errs.add(err.Error())
						continue
					}
					shown.add(l.Identity + ":" + string(l.Payload))
				}
			}()
			synctest.Wait()
			return shown, errs, done
		}
		ctx, stop := context.WithCancelCause(t.Context())
		shown, errs, done := observe(ctx)
		term := a.campaign()
		synctest.Wait()
		must(t, term.Proclaim(t.Context(), []byte("two")))
		synctest.Wait()
		a.resign(term)
		synctest.Wait()
		stop(errMine)
		<-done
		if got := shown.get(); !slices.Equal(got, []string{":", "a:a", "a:two", ":"}) ||
			!slices.Equal(errs.get(), []string{"mine"}) {
			t.Errorf("shown %q, then %q", got, errs.get())
		}

		a.svc.OnRequest(memory.Once(memory.OpHead, memory.Fate{
			Err: driver.Wrap(driver.ErrRefused, errors.New("no permission"))}))
		shown, errs, done = observe(t.Context())
		<-done
		if got := errs.get(); len(shown.get()) != 0 || len(got) != 1 ||
			!strings.Contains(got[0], "jobs") || !strings.Contains(got[0], "no permission") {
			t.Errorf("refused: shown %q, then %q", shown.get(), got)
		}
	})
}
