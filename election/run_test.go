package election_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// TestStopEndsRunWithTheErrorOfTheWorkItself, also if that looks like the end
// of a context, or like an error that only ends the term.
func TestStopEndsRunWithTheErrorOfTheWorkItself(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		for _, mine := range []error{errMine, coordinator.ErrSessionLost, context.Canceled,
			election.ErrStepDown, fmt.Errorf("more: %w", election.Stop(errMine)), nil} {
			err := p[0].e.Run(t.Context(),
				func(context.Context, *election.Term) error { return election.Stop(mine) })
			if err != mine { //nolint:errorlint // itself
				t.Errorf("Run = %v", err)
			}
			p[1].resign(p[1].campaign())
		}
		wrapped := fmt.Errorf("more: %w", election.Stop(errMine))
		err := p[0].e.Run(t.Context(), func(context.Context, *election.Term) error { return wrapped })
		if err != wrapped || err.Error() != "more: mine" { //nolint:errorlint // itself
			t.Errorf("Run = %v", err)
		}
	})
}

// TestStopEndsRunAfterALostTerm, with the loss.
func TestStopEndsRunAfterALostTerm(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		err := p[0].e.Run(t.Context(), func(ctx context.Context, term *election.Term) error {
			p[0].svc.Expire(term.Session())
			<-ctx.Done()
			return election.Stop(errMine)
		})
		if !errors.Is(err, errMine) || !errors.Is(err, coordinator.ErrSessionLost) {
			t.Errorf("Run = %v", err)
		}
	})
}

// TestErrorOfWorkEndsOnlyTheTerm: the next candidate leads, and the one that
// failed leads again. Each error is reported, and logged on one line.
func TestErrorOfWorkEndsOnlyTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out notes[string]
		svc := memory.NewService()
		a := join(t, svc, "a", coordinator.WithLogger(
			slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))))
		b := join(t, svc, "b")
		var s stage
		var reported notes[error]
		h := new(election.Health)
		mine := []error{errors.Join(errMine, errors.New("disk full")), coordinator.ErrClosed,
			context.Canceled, nil}
		terms := 0
		ra := a.run(func(_ context.Context, term *election.Term) error {
			defer s.enter(a, term)()
			time.Sleep(time.Second)
			terms++
			return mine[terms-1]
		}, election.WithOnError(reported.add), election.WithHealth(h))
		rb := b.run(func(ctx context.Context, term *election.Term) error {
			defer s.enter(b, term)()
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return election.ErrStepDown
		})
		sleep(2 * time.Second)
		if term := s.working(); !slices.Equal(term, []string{"b"}) {
			t.Errorf("%v work after an error of a", term)
		}
		check(t, h, 503, "not leading: candidate", 200, "ok")
		must(t, ra.ended())
		got := reported.get()
		if len(got) != 3 {
			t.Fatalf("reported %v", got)
		}
		for i, err := range got {
			if !errors.Is(err, mine[i]) || !strings.HasPrefix(err.Error(), `baton: run "jobs": work: `) {
				t.Errorf("reported %v for %v", err, mine[i])
			}
		}
		rb.end()
		if s.worked()[1] != "b" || s.overlap > 0 {
			t.Errorf("worked: %v", s.worked())
		}
		for _, p := range []party{a, b} {
			must(t, p.client.Close(t.Context())) // and writes its log
		}
		if lines := strings.Split(strings.TrimSpace(strings.Join(out.get(), "")), "\n"); len(lines) != 3 ||
			!strings.Contains(lines[0], `mine\ndisk full`) || !strings.Contains(lines[0], "pause=") {
			t.Errorf("logged %q", lines)
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
			{errMine, nil}, {election.Stop(errMine), errMine}} {
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
			again := c.returned != nil && c.want == nil
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
			"-1s without progress":  p[0].e.Run(t.Context(), work, election.WithProgress(-time.Second)),
			"30ns without progress": p[0].e.Run(t.Context(), work, election.WithProgress(30)),
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
		err := a.e.Run(t.Context(), func(context.Context, *election.Term) error {
			return election.Stop(errMine)
		})
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
