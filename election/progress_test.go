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
	"github.com/baton-go/baton/election"
)

// TestWorkWithoutProgressEndsItsTerm, after the drain; the next candidate
// leads, and the process that hung campaigns again.
func TestWorkWithoutProgressEndsItsTerm(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		var s stage
		h := new(election.Health)
		var reported notes[error]
		began, ended := time.Now(), make(chan time.Duration, 1)
		terms := 0
		ra := a.run(func(ctx context.Context, term *election.Term) error {
			defer s.enter(a, term)()
			if terms++; terms > 1 {
				return nil
			}
			for range 10 {
				time.Sleep(20 * time.Second)
				term.Progress()
			}
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, election.ErrStalled) || term.Err() != nil {
				t.Errorf("the context of the work: %v, its term: %v", cause, term.Err())
			}
			ended <- time.Since(began)
			time.Sleep(10 * time.Second) // it is slow to stop
			return nil                   // it has stopped, and is not done
		}, election.WithProgress(30*time.Second), election.WithHealth(h),
			election.WithOnError(reported.add))
		rb := b.run(b.until(&s))
		check(t, h, 200, "leading", 200, "ok")
		if at := <-ended; at != 230*time.Second {
			t.Errorf("ended after %v, want 200s of progress and 30s", at)
		}
		check(t, h, 503, "stopping: work has made no progress for 30s", 503, "no progress")
		if got := s.working(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%v work during the drain", got)
		}
		sleep(10 * time.Second)
		check(t, h, 503, "work has made no progress", 200, "ok")
		if got := s.working(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("%v work after the drain", got)
		}
		if got := reported.get(); len(got) != 1 || !errors.Is(got[0], election.ErrStalled) {
			t.Errorf("reported %v", got)
		}
		sleep(time.Minute)
		check(t, h, 503, "not leading: candidate", 200, "ok")
		rb.end()
		must(t, ra.ended())
	})
}

// TestStalledWorkThatDoesNotStopIsAnOverrun: nobody knows when it would go on.
func TestStalledWorkThatDoesNotStopIsAnOverrun(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		h := new(election.Health)
		hung := make(chan struct{})
		r := p[0].run(func(context.Context, *election.Term) error { <-hung; return nil },
			election.WithProgress(time.Minute), election.WithDrain(time.Minute), election.WithHealth(h))
		err := r.ended()
		if !errors.Is(err, election.ErrOverrun) || !errors.Is(err, election.ErrStalled) {
			t.Errorf("Run = %v", err)
		}
		check(t, h, 503, "not a candidate", 503, "still runs")
		close(hung)
		check(t, h, 503, "not a candidate", 200, "ok")
	})
}

// TestStallIsNotTheErrorOfAnotherEnd: a lost term, the end of Run and Stop come
// first.
func TestStallIsNotTheErrorOfAnotherEnd(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		for what, c := range map[string]struct {
			end  func(stop context.CancelCauseFunc, term *election.Term)
			work error
			want error
		}{
			"loss": {func(_ context.CancelCauseFunc, term *election.Term) {
				a.svc.Expire(term.Session())
			}, nil, coordinator.ErrSessionLost},
			"end of Run":    {func(stop context.CancelCauseFunc, _ *election.Term) { stop(errMine) }, nil, errMine},
			"Stop":          {func(context.CancelCauseFunc, *election.Term) {}, election.Stop(errMine), errMine},
			"its own error": {func(context.CancelCauseFunc, *election.Term) {}, errMine, errMine},
		} {
			var reported []error
			ctx, stop := context.WithCancelCause(t.Context())
			terms := 0
			err := a.e.Run(ctx, func(ctx context.Context, term *election.Term) error {
				if terms++; terms > 1 {
					return nil
				}
				<-ctx.Done()
				c.end(stop, term)
				time.Sleep(time.Second)
				return c.work
			}, election.WithProgress(time.Minute),
				election.WithOnError(func(err error) { reported = append(reported, err) }))
			if all := errors.Join(append(reported, err)...); !errors.Is(all, c.want) {
				t.Errorf("%s: Run = %v, reported %v", what, err, reported)
			}
			if n := strings.Count(fmt.Sprint(reported), "no progress"); what == "its own error" && n != 1 {
				t.Errorf("%s: reported %v", what, reported)
			}
			stop(nil)
		}
	})
}
