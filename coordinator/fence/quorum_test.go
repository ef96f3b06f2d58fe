package fence_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// of returns sequencers of "a:3 b:7": tokens of services.
func of(all string) (shown []fence.Sequencer) {
	for _, one := range strings.Fields(all) {
		service, number, _ := strings.Cut(one, ":")
		token, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			panic(err)
		}
		shown = append(shown, fence.Sequencer{Token: driver.Token(token), Key: "k",
			Scope: fence.Scope{Service: service, Kind: "mutex", Name: "nightly"}})
	}
	return shown
}

func quorumGate(t *testing.T, services int) *fence.QuorumGate {
	t.Helper()
	g, err := fence.NewQuorumGate(fence.Scope{Kind: "mutex"}, services)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestQuorumGateRefusesEarlierHolders, in whatever order they name services.
func TestQuorumGateRefusesEarlierHolders(t *testing.T) {
	g := quorumGate(t, 3)
	for _, step := range []struct {
		shown string
		want  error
	}{
		{"a:5", fence.ErrMissing},
		{"a:5 a:6", driver.ErrInvalid},
		{"a:5 b:9", nil},
		{"b:9 a:5", nil}, // again, in another order
		{"b:8 c:1", fence.ErrStale},
		{"c:100 b:8", fence.ErrStale}, // and nothing of it counts
		{"c:2 b:10", nil},
		{"a:5 b:9", fence.ErrStale},
		{"b:9 a:5", fence.ErrStale},
		{"a:6 c:1", fence.ErrStale},
		{"d:9 c:3", fence.ErrForeign},
		{"d:9 e:3", fence.ErrForeign},
		{"a:6 b:11 c:3", nil},
		{"", fence.ErrMissing},
		{"a:0 b:12", driver.ErrInvalid},
	} {
		if err := g.Check(t.Context(), of(step.shown)); !errors.Is(err, step.want) || step.want == nil && err != nil {
			t.Errorf("%q: %v", step.shown, err)
		}
	}
	if a, c := g.Latest("a"), g.Latest("c"); a != 6 || c != 3 {
		t.Errorf("latest %d and %d", a, c)
	}
	other := of("a:7 b:12")
	other[1].Name = "hourly"
	if err := g.Check(t.Context(), other); !errors.Is(err, fence.ErrForeign) {
		t.Errorf("of another name: %v", err)
	}
	g.Reset()
	if err := g.Check(t.Context(), of("d:1 e:1")); err != nil {
		t.Errorf("after Reset: %v", err)
	}
	mixed := of("d:2 e:2")
	mixed[0].Name = "hourly"
	g.Reset()
	if err := g.Check(t.Context(), mixed); !errors.Is(err, fence.ErrForeign) {
		t.Errorf("of two names: %v", err)
	}
	for _, n := range []int{0, -1} {
		if _, err := fence.NewQuorumGate(fence.Scope{}, n); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%d services: %v", n, err)
		}
	}
}

// TestQuorumGateEndsTheAccessOfAnEarlierHolder, and admits the next one when it
// has returned.
func TestQuorumGateEndsTheAccessOfAnEarlierHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := quorumGate(t, 3)
		runs, ended := make(chan struct{}), make(chan error)
		go func() {
			ended <- g.Do(t.Context(), of("a:1 b:1"), func(ctx context.Context) error {
				close(runs)
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		<-runs
		waits, giveUp := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		giveUp(enough)
		if err := g.Check(waits, of("a:1 b:1")); err != enough { //nolint:errorlint // untouched
			t.Errorf("got %v", err)
		}
		second := make(chan error)
		go func() {
			second <- g.Do(t.Context(), of("b:2 c:4"), func(context.Context) error { return nil })
		}()
		if err := <-ended; !errors.Is(err, fence.ErrStale) {
			t.Errorf("the access ended with %v", err)
		}
		if err := <-second; err != nil {
			t.Errorf("the next holder: %v", err)
		}
	})
}
