package election_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/election"
)

// TestShutdownLeadsUntilTheWorkHasDrained: the context of the work ends, the
// term does not.
func TestShutdownLeadsUntilTheWorkHasDrained(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		var s stage
		ra := a.run(func(ctx context.Context, term *election.Term) error {
			defer s.enter(a, term)()
			<-ctx.Done()
			if cause := context.Cause(ctx); cause != errMine { //nolint:errorlint // itself
				t.Errorf("cause %v", cause)
			}
			time.Sleep(20 * time.Second) // two TTLs: the session is still renewed
			if term.Err() != nil || term.Context().Err() != nil ||
				!slices.Equal(s.working(), []string{"a"}) {
				t.Errorf("while draining: %v, %v work", term.Err(), s.working())
			}
			return term.Proclaim(term.Context(), []byte("bye"))
		})
		rb := b.run(b.until(&s))
		time.Sleep(time.Minute)
		began := time.Now()
		ra.stop(errMine)
		err, took := ra.ended(), time.Since(began)
		if err != errMine || took != 20*time.Second { //nolint:errorlint // itself
			t.Errorf("Run = %v after %v", err, time.Since(began))
		}
		synctest.Wait()
		if got := s.worked(); !slices.Equal(got, []string{"a", "b"}) || s.gaps[0] != 0 {
			t.Errorf("worked: %v, gaps %v", got, s.gaps)
		}
		rb.stop(nil)
		if err := rb.ended(); err != context.Canceled { //nolint:errorlint // itself
			t.Errorf("Run = %v", err)
		}
	})
}

func TestShutdownReturnsOnlyTheWorksOwnError(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		for name, c := range map[string]struct {
			work func(context.Context) error
			own  bool
		}{
			"nothing":             {func(context.Context) error { return nil }, false},
			"the context's error": {context.Context.Err, false},
			"its cause":           {context.Cause, false},
			"what is half done": {
				func(ctx context.Context) error {
					return fmt.Errorf("job 17 is half done: %w (%w)",
						ctx.Err(), errMine)
				}, true},
			"wrapped": {func(ctx context.Context) error { return mineIn{ctx.Err()} },
				true},
			"step down": {func(context.Context) error { return election.ErrStepDown },
				false},
			"its own": {func(context.Context) error { return errMine }, true},
			"its own, and the end": {func(
				ctx context.Context) error {
				return errors.Join(ctx.Err(), errMine)
			}, true},
		} {
			end := errors.New("shutdown")
			r := p[0].run(func(ctx context.Context, _ *election.Term) error {
				<-ctx.Done()
				return c.work(ctx)
			})
			r.stop(end)
			err := r.ended()
			said := errors.Is(err, end) && errors.Is(err, errMine) == c.own
			if !said || !c.own && err != end { //nolint:errorlint // itself
				t.Errorf("%s: Run = %v", name, err)
			}
		}
	})
}

// mineIn is a custom error about a context's end.
type mineIn struct{ error }

func (m mineIn) Error() string        { return "job 17 is half done: " + m.error.Error() }
func (m mineIn) Unwrap() error        { return m.error }
func (m mineIn) Is(target error) bool { return target == errMine }

// TestCauseOfRunsContextEndsRun: a context may end with any error, also one of
// ours. Run neither campaigns again nor steps down.
func TestCauseOfRunsContextEndsRun(t *testing.T) {
	for _, cause := range []error{
		coordinator.ErrSessionLost, coordinator.ErrRemoved, coordinator.ErrUnavailable,
		coordinator.ErrRefused, coordinator.ErrTaken,
		coordinator.ErrReleased, coordinator.ErrClosed, coordinator.ErrInvalid,
		election.ErrStepDown, election.ErrOverrun, driver.ErrGone,
		&coordinator.Error{Op: "resign", Name: "jobs", Err: coordinator.ErrSessionLost,
			Maybe: true},
	} {
		parties(t, 2, func(t *testing.T, p ...party) {
			terms := 0
			work := func(ctx context.Context, _ *election.Term) error {
				terms++
				<-ctx.Done()
				return context.Cause(ctx)
			}
			noErrors := election.WithOnError(
				func(err error) { t.Errorf("%v: reported %v", cause, err) })
			leading, waiting := p[0].run(work, noErrors), p[1].run(work, noErrors)
			for _, r := range []*runner{waiting, leading} {
				r.stop(cause)
				if err := r.ended(); err != cause { //nolint:errorlint // itself
					t.Errorf("%v: Run = %v", cause, err)
				}
			}
			if terms != 1 {
				t.Errorf("%v: %d terms", cause, terms)
			}
			if s := p[0].session(); s.Err() != nil {
				t.Errorf("%v: session %v", cause, s.Err())
			}
		})
	}
}
