package election_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

var errMine = errors.New("mine")

func TestRunEndsWhenItsWorkIsDone(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		type key struct{}
		want := time.Now().Add(time.Hour)
		ctx, cancel := context.WithDeadline(context.WithValue(t.Context(), key{}, 7), want)
		defer cancel()
		err := a.e.Run(ctx, func(ctx context.Context, term *election.Term) error {
			l, err := b.e.Leader(b.Context())
			if err != nil || l.Token != term.Token() || string(l.Payload) != "v" {
				t.Errorf("during the work: %+v, %v", l, err)
			}
			if d, ok := ctx.Deadline(); !ok || !d.Equal(want) || ctx.Value(key{}) != 7 {
				t.Errorf("the work's context has deadline %v and value %v", d, ctx.Value(key{}))
			}
			time.Sleep(30 * time.Minute) // renewed
			return errors.Join(ctx.Err(), term.Err())
		}, election.WithValue([]byte("v")))
		if err != nil || len(a.svc.Snapshot(queue)) != 0 {
			t.Errorf("Run = %v, left %v", err, a.svc.Snapshot(queue))
		}
	})
}

func TestRunReturnsTheErrorOfTheWorkItself(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		// The work's own error, although it looks like the end of a context.
		for _, mine := range []error{errMine, coordinator.ErrSessionLost, context.Canceled} {
			err := p[0].e.Run(t.Context(),
				func(context.Context, *election.Term) error { return mine })
			if err != mine { //nolint:errorlint // itself
				t.Errorf("Run = %v", err)
			}
			p[1].resign(p[1].campaign())
		}
	})
}

func TestStepDownGoesToTheEndOfTheQueue(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		var s stage
		work := func(p party) func(context.Context, *election.Term) error {
			return func(_ context.Context, term *election.Term) error {
				defer s.enter(p, term)()
				time.Sleep(time.Minute)
				if len(s.worked()) > 5 {
					return nil
				}
				return fmt.Errorf("tired: %w", election.ErrStepDown)
			}
		}
		ra, rb := a.run(work(a)), b.run(work(b))
		must(t, errors.Join(ra.ended(), rb.ended()))
		if got := s.worked(); !slices.Equal(got, []string{"a", "b", "a", "b", "a", "b", "a"}) {
			t.Errorf("worked: %v", got)
		}
		for i, gap := range s.gaps[:5] {
			if gap != 0 {
				t.Errorf("hand-over %d took %v", i, gap)
			}
		}
	})
}

// TestWorkThatResignsDecidesWhetherRunCampaignsAgain: a resigned term is not a
// lost term.
func TestWorkThatResignsDecidesWhetherRunCampaignsAgain(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		for _, c := range []struct{ returned, want error }{{nil, nil}, {election.ErrStepDown, nil},
			{errMine, errMine}} {
			terms := 0
			err := p[0].e.Run(t.Context(), func(ctx context.Context, term *election.Term) error {
				if terms++; terms > 1 {
					return nil
				}
				p[0].resign(term)
				if cause := context.Cause(ctx); !errors.Is(cause, coordinator.ErrReleased) {
					t.Errorf("the work's context: %v", cause)
				}
				return c.returned
			})
			again := errors.Is(c.returned, election.ErrStepDown)
			if err != c.want || (terms == 2) != again { //nolint:errorlint // itself
				t.Errorf("work returned %v: Run = %v after %d terms", c.returned, err, terms)
			}
		}
	})
}

func TestRunRefusesBadInput(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		work := func(context.Context, *election.Term) error { t.Error("worked"); return nil }
		for rule, err := range map[string]error{
			"nil work":              p[0].e.Run(t.Context(), nil),
			"nil option":            p[0].e.Run(t.Context(), work, nil),
			"drain of 0s":           p[0].e.Run(t.Context(), work, election.WithDrain(0)),
			"drain of -2ns":         p[0].e.Run(t.Context(), work, election.WithDrain(-2)),
			"nil health":            p[0].e.Run(t.Context(), work, election.WithHealth(nil)),
			"nil function for err":  p[0].e.Run(t.Context(), work, election.WithOnError(nil)),
			"nil function for over": p[0].e.Run(t.Context(), work, election.WithOnOverrun(nil)),
			"pauses from 0s to 1s": p[0].e.Run(t.Context(), work,
				election.WithPause(0, time.Second)),
			"pauses from 1s to 1ms": p[0].e.Run(t.Context(), work,
				election.WithPause(time.Second, time.Millisecond)),
			"value has 5000 bytes": p[0].e.Run(t.Context(), work,
				election.WithValue(make([]byte, 5000))),
		} {
			if !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(err.Error(), rule) ||
				strings.Count(err.Error(), "baton") != 1 {
				t.Errorf("Run = %v, want ErrInvalid with %q", err, rule)
			}
		}
		if n := p[0].svc.Stats().Total(); n != 0 {
			t.Errorf("%d requests", n)
		}
		dead, cancel := context.WithCancelCause(t.Context())
		cancel(errMine)
		if err := p[0].e.Run(dead, work); err != errMine { //nolint:errorlint // itself
			t.Errorf("Run with a dead context = %v", err)
		}
		p[0].svc.Stop()
		if err := p[0].e.Run(dead, work); err != errMine { //nolint:errorlint // itself
			t.Errorf("Run with a dead context, and no service = %v", err)
		}
		p[0].svc.Start()
	})
}

func TestResignationThatGotNoAnswerIsInTheError(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			return memory.Fate{DropRequest: r.Op == memory.OpLeave && r.Driver == a.link}
		})
		err := a.e.Run(t.Context(), func(context.Context, *election.Term) error { return errMine })
		if !errors.Is(err, errMine) || !errors.Is(err, coordinator.ErrUnavailable) ||
			!coordinator.MayHaveApplied(err) {
			t.Errorf("Run = %v", err)
		}
		a.svc.OnRequest(nil)
		began := time.Now()
		b.resign(b.campaign())
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the name was free after %v", took)
		}
	})
}

// TestResigningIsBounded if the service does not answer. The end of Run's
// context does not shorten it.
func TestResigningIsBounded(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a := p[0]
		var began time.Time
		err := a.e.Run(t.Context(), func(context.Context, *election.Term) error {
			a.link.Cut()
			began = time.Now()
			return nil
		})
		if took := time.Since(began); !errors.Is(err, coordinator.ErrUnavailable) ||
			took != 2*time.Second {
			t.Errorf("cut off: Run = %v after %v", err, took)
		}
		a.link.Heal()
		sleep(time.Minute)

		a.link.Delay(500*time.Millisecond, 500*time.Millisecond)
		ctx, stop := context.WithCancel(t.Context())
		err = a.e.Run(ctx, func(context.Context, *election.Term) error {
			time.AfterFunc(100*time.Millisecond, stop) // while it resigns
			return nil
		})
		if err != nil || len(a.svc.Snapshot(queue)) != 0 {
			t.Errorf("done, then stopped while resigning: Run = %v, left %v", err,
				a.svc.Snapshot(queue))
		}
	})
}

func TestRunThatNeverReachedTheServiceSaysSo(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		p[0].svc.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := p[0].e.Run(ctx, idle)
		if !errors.Is(err, coordinator.ErrUnavailable) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run = %v", err)
		}
		p[0].svc.Start()
	})
}

// TestDeadlineOfRunEndsTheWork with its own cause, also for contexts derived
// from the work's.
func TestDeadlineOfRunEndsTheWork(t *testing.T) {
	for range 20 {
		parties(t, 1, func(t *testing.T, p ...party) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errMine)
			defer cancel()
			err := p[0].e.Run(ctx, func(ctx context.Context, _ *election.Term) error {
				derived, cancel := context.WithCancel(ctx)
				defer cancel()
				<-derived.Done()
				said := []error{ctx.Err(), derived.Err(), context.Cause(derived)}
				want := []error{context.DeadlineExceeded, context.DeadlineExceeded, errMine}
				if !slices.Equal(said, want) {
					t.Errorf("the work's context: %v, derived: %v (%v)", ctx.Err(), derived.Err(),
						context.Cause(derived))
				}
				return ctx.Err()
			})
			if err != errMine { //nolint:errorlint // itself
				t.Errorf("Run = %v", err)
			}
		})
	}
}
