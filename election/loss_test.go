package election_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
)

// TestLossEndsTheWorkBeforeTheNextLeaderBegins, and the process that lost the
// term campaigns again.
func TestLossEndsTheWorkBeforeTheNextLeaderBegins(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		var s stage
		var reported notes[error]
		ra := a.run(a.until(&s), election.WithOnError(reported.add))
		rb := b.run(b.until(&s))
		time.Sleep(33 * time.Second)
		a.link.Cut()
		cut := time.Now()
		time.Sleep(30 * time.Second)
		if got := s.working(); !slices.Equal(got, []string{"b"}) || time.Since(cut) > time.Minute ||
			s.gaps[0] <= 0 {
			t.Errorf("%v work, gaps %v", got, s.gaps)
		}
		if errs := reported.get(); len(errs) != 2 || !errors.Is(errs[0], coordinator.ErrSessionLost) ||
			!strings.Contains(errs[0].Error(), "jobs") ||
			!errors.Is(errs[1], coordinator.ErrUnavailable) { // 10 s later

			t.Errorf("reported %v", errs)
		}
		a.link.Heal()
		time.Sleep(30 * time.Second)
		if n := len(a.svc.Snapshot(queue)); n != 2 {
			t.Errorf("%d in the queue, want the process that lost the term again", n)
		}
		rb.end()
		synctest.Wait()
		if got := s.worked(); !slices.Equal(got, []string{"a", "b", "a"}) {
			t.Errorf("worked: %v", got)
		}
		ra.end()
	})
}

// TestNextCampaignBeginsWhenTheOldWorkHasReturned: calls of work in a process
// do not overlap.
func TestNextCampaignBeginsWhenTheOldWorkHasReturned(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		var s stage
		r := a.run(func(ctx context.Context, term *election.Term) error {
			defer s.enter(a, term)()
			<-ctx.Done()
			time.Sleep(20 * time.Second)
			return ctx.Err()
		})
		a.svc.Expire(a.session().ID())
		time.Sleep(19 * time.Second)
		if n := len(a.svc.Snapshot(queue)); n != 0 || len(s.worked()) != 1 {
			t.Errorf("%d candidates while the old work drains, %v worked", n, s.worked())
		}
		time.Sleep(2 * time.Second)
		if got := s.worked(); len(got) != 2 {
			t.Errorf("worked: %v", got)
		}
		r.end()
	})
}

// TestErrorOfWorkAfterALossIsReportedWithTheLoss: it may be a consequence of
// the loss, such as an interrupted query, so it does not end Run. It may also
// say what was left unfinished, so it must not get lost.
func TestErrorOfWorkAfterALossIsReportedWithTheLoss(t *testing.T) {
	for name, mine := range map[string]error{
		"joined": errors.Join(context.Canceled, errMine), "plain": errMine,
		"wrapped": fmt.Errorf("%w: %w", errMine, context.Canceled),
	} {
		t.Run(name, func(t *testing.T) {
			parties(t, 1, func(t *testing.T, p ...party) {
				a := p[0]
				var reported []error
				terms := 0
				err := a.e.Run(t.Context(), func(ctx context.Context, _ *election.Term) error {
					if terms++; terms == 2 {
						return nil
					}
					a.svc.Expire(a.session().ID())
					<-ctx.Done()
					return mine
				}, election.WithOnError(func(err error) { reported = append(reported, err) }))
				if err != nil || terms != 2 {
					t.Errorf("Run = %v after %d terms", err, terms)
				}
				if len(reported) != 1 || !errors.Is(reported[0], errMine) ||
					!errors.Is(reported[0], coordinator.ErrSessionLost) ||
					!strings.Contains(reported[0].Error(), `run "jobs"`) {
					t.Errorf("reported %v", reported)
				}
			})
		})
	}
}

func TestWorkThatOnlyReportsItsContextIsRunAgain(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		returned := []func(context.Context, *election.Term) error{
			func(context.Context, *election.Term) error { return nil },
			func(ctx context.Context, _ *election.Term) error { return ctx.Err() },
			func(ctx context.Context, _ *election.Term) error { return context.Cause(ctx) },
			func(_ context.Context,
				term *election.Term) error {
				return term.Proclaim(a.Context(), nil)
			},
			func(_ context.Context, term *election.Term) error {
				return errors.Join(term.Err(), term.Context().Err())
			},
			func(context.Context, *election.Term) error { return coordinator.ErrSessionLost },
			func(context.Context, *election.Term) error { return election.ErrStepDown },
			func(context.Context, *election.Term) error {
				return fmt.Errorf("tired: %w", election.ErrStepDown)
			},
		}
		terms := 0
		err := a.e.Run(t.Context(), func(ctx context.Context, term *election.Term) error {
			if ctx.Err() != nil || context.Cause(ctx) != nil || term.Err() != nil {
				t.Errorf("term %d begins with %v, %v", terms, context.Cause(ctx), term.Err())
			}
			if terms == len(returned) {
				return nil
			}
			a.svc.Expire(term.Session())
			<-ctx.Done()
			terms++
			return returned[terms-1](ctx, term)
		}, election.WithOnError(func(err error) {
			if strings.Contains(err.Error(), "proclaim") {
				t.Errorf("reported %v", err)
			}
		}))
		if err != nil || terms != len(returned) {
			t.Errorf("Run = %v after %d terms", err, terms)
		}
	})
}

func TestLossWhileDrainingIsInTheErrorOnce(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		r := a.run(func(ctx context.Context, term *election.Term) error {
			<-ctx.Done()
			a.svc.Expire(term.Session())
			<-term.Context().Done()
			return term.Err()
		})
		r.stop(errMine)
		err := r.ended()
		if !errors.Is(err, errMine) || !errors.Is(err, coordinator.ErrSessionLost) {
			t.Errorf("Run = %v", err)
		}
		if n := strings.Count(err.Error(), "session lost"); n != 1 {
			t.Errorf("%d times in the error: %v", n, err)
		}
	})
}

// TestContextOfWorkReadsTheClock: after a pause of the process no timer has run
// yet. Here the timers race with the test, so it is repeated.
func TestContextOfWorkReadsTheClock(t *testing.T) {
	for range 30 {
		parties(t, 1, func(t *testing.T, p ...party) {
			a := p[0]
			terms := 0
			r := a.run(func(ctx context.Context, term *election.Term) error {
				if terms++; terms == 2 {
					return nil
				}
				a.link.Cut()
				time.Sleep(time.Until(term.Deadline()))
				if ctx.Err() == nil || !errors.Is(context.Cause(ctx), coordinator.ErrSessionLost) {
					t.Errorf("at its deadline: %v, %v", ctx.Err(), context.Cause(ctx))
				}
				a.link.Heal()
				return errMine
			})
			if err := r.ended(); err != nil || terms != 2 {
				t.Errorf("Run = %v after %d terms", err, terms)
			}
		})
	}
}

// TestNextLeaderBeginsATenthOfTheTTLAfterALoss: work may need as long to stop.
// The client that has lost the term could end its session at the service at
// once, if that answers again by then.
func TestNextLeaderBeginsATenthOfTheTTLAfterALoss(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		var s stage
		r := a.run(func(ctx context.Context, term *election.Term) error {
			defer s.enter(a, term)()
			<-ctx.Done()
			a.link.Heal()
			time.Sleep(a.session().TTL()/10 - time.Millisecond)
			return nil
		})
		rb := b.run(b.until(&s))
		a.link.Cut()
		time.Sleep(2 * time.Minute)
		if got := s.working(); !slices.Equal(got, []string{"b"}) || len(s.gaps) != 1 || s.gaps[0] > time.Second {
			t.Errorf("%v work, gaps %v", got, s.gaps)
		}
		rb.end()
		r.end()
	})
}
