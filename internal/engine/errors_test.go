package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// causal is a driver that returns the cause of its context, as real ones do.
type causal struct{ driver.Driver }

func (d causal) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return causalSession{coordinatortest.WithCapabilities(s)}, nil
}

type causalSession struct{ coordinatortest.Full }

// Capabilities returns the session's, some of them replaced.
func (s causalSession) Capabilities() driver.Capabilities { return s.Offer(s) }

func (s causalSession) Join(ctx context.Context, l driver.Queue, c driver.Contender) (driver.Joined, error) {
	j, err := s.Full.Join(ctx, l, c)
	return j, causeOf(ctx, err)
}

func (s causalSession) Leave(ctx context.Context, l driver.Queue, p driver.Place) error {
	return causeOf(ctx, s.Full.Leave(ctx, l, p))
}

func (s causalSession) Watch(ctx context.Context, l driver.Queue, p ...driver.Place) error {
	return causeOf(ctx, s.Full.Watch(ctx, l, p...))
}

func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// ours are errors that may be the cause of a context, since users pass them on,
// but mean something else when a driver returns them.
var ours = []error{
	engine.ErrTaken, engine.ErrSessionLost, engine.ErrRefused, engine.ErrInvalid, engine.ErrClosed,
	engine.ErrUnavailable, driver.ErrGone,
	&engine.Error{Op: "unlock", Name: "other", Err: engine.ErrNotHeld, Maybe: true},
}

// caused runs a test on a causal driver for each of these errors.
func caused(t *testing.T, f func(w world, cause error)) {
	t.Helper()
	for _, cause := range ours {
		within(t, func(w world) {
			var err error
			w.link = w.svc.Driver()
			if w.client, err = coordinator.New(causal{w.link}, quiet); err != nil {
				w.Fatal(err)
			}
			endWithTest(w.T, w.link, w.client)
			f(w, cause)
			check(w, w.client.Close(w.Context()))
		})
	}
}

// endsIn returns a context that ends with a cause after a time.
func endsIn(w world, d time.Duration, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(w.Context())
	time.AfterFunc(d, func() { cancel(cause) })
	return ctx
}

// TestCauseOfTheCallersContextIsNotTakenFromTheService: joins and leaves that
// are cancelled with one of our own errors are cleaned up like others, and the
// session stays alive.
func TestCauseOfTheCallersContextIsNotTakenFromTheService(t *testing.T) {
	caused(t, func(w world, cause error) {
		s := w.session()
		w.link.Delay(500*time.Millisecond, 500*time.Millisecond)
		_, err := s.Join(endsIn(w, 700*time.Millisecond, cause), queue, driver.Contender{ID: "0123456789abcdef", Mode: "x"})
		if err == nil || !engine.MayHaveApplied(err) {
			w.Errorf("%v: Join = %v", cause, err)
		}
		time.Sleep(5 * time.Second)
		if left := w.svc.Snapshot(queue); len(left) != 0 {
			w.Errorf("%v: a join that was cancelled with it left %v", cause, left)
		}
		j, err := s.Join(w.Context(), queue, driver.Contender{ID: "0123456789abcdee", Mode: "x"})
		check(w, err)
		if err := s.Leave(endsIn(w, 200*time.Millisecond, cause), queue, j.Place); err == nil {
			w.Error("Leave did not end with its context")
		}
		time.Sleep(5 * time.Second)
		if left := w.svc.Snapshot(queue); len(left) != 0 || s.Err() != nil {
			w.Errorf("%v: a leave that was cancelled with it left %v; session %v", cause, left, s.Err())
		}
	})
}

func TestCancelledOpeningIsNotAClosedClient(t *testing.T) {
	caused(t, func(w world, cause error) {
		w.link.Delay(time.Second, 0)
		_, err := engine.Of(w.client).Session(endsIn(w, 500*time.Millisecond, cause))
		if !errors.Is(err, engine.ErrUnavailable) {
			w.Errorf("%v: Session = %v, want ErrUnavailable with the cause behind it", cause, err)
		}
		w.link.Delay(0, 0)
		w.session()
	})
}

func TestAnswerIsKeptWhenTheContextEnds(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		w.join(s)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpJoin {
				cancel() // before the answer arrives
			}
			return memory.Fate{}
		})
		_, err := s.Join(ctx, queue, driver.Contender{ID: "0123456789abcdee", Mode: "x", Alone: true})
		if !errors.Is(err, engine.ErrTaken) && !errors.Is(err, context.Canceled) {
			w.Errorf("Join = %v", err)
		}
		if errors.Is(err, engine.ErrUnavailable) {
			w.Errorf("Join = %v, but the service is available", err)
		}
	})
}

// TestDescribeNamesOneStep, the one that the user knows. Maybe is set if it is
// set in any step.
func TestDescribeNamesOneStep(t *testing.T) {
	refused := fmt.Errorf("%w: no permission", engine.ErrRefused)
	step := func(err error, maybe bool) error {
		return &engine.Error{Op: "convert", Name: "rwlock/x", Err: err, Maybe: maybe}
	}
	for _, err := range []error{step(refused, true), step(step(refused, false), true), step(step(step(refused, true), false), false)} {
		got := engine.Describe(context.Background(), "unlock", "x", err)
		if want := `baton: unlock "x": refused by the service: no permission (may have been applied)`; got.Error() != want {
			t.Errorf("%v, want %s", got, want)
		}
		if !errors.Is(got, engine.ErrRefused) || !engine.MayHaveApplied(got) {
			t.Errorf("%#v", got)
		}
	}
	// A user's own text and the cause of a context are kept.
	said := fmt.Errorf("mine: %w", step(refused, false))
	if got := engine.Describe(context.Background(), "unlock", "x", step(said, false)); !errors.Is(got, said) {
		t.Errorf("%v", got)
	}
}

// curious is a context whose Err can take long, like that of a hold.
type curious struct {
	context.Context
	asked *int
}

func (c curious) Err() error {
	*c.asked++
	return c.Context.Err()
}

// TestIsCauseDoesNotCallErrOfALiveContext: an observer that classifies errors
// must not wait.
func TestIsCauseDoesNotCallErrOfALiveContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := 0
	if c := (curious{ctx, &asked}); engine.IsCause(c, io.EOF) || asked != 0 {
		t.Errorf("Err was called %d times", asked)
	}
	cancel(io.EOF)
	if c := (curious{ctx, &asked}); !engine.IsCause(c, io.EOF) || engine.IsCause(c, context.Canceled) {
		t.Error("the cause of a context that has ended is not recognized")
	}
}

// away is a driver that reaches no server, and returns the end of its context
// as real ones do.
type away struct{ driver.Driver }

var errDial = errors.New("no connection")

func (away) Open(ctx context.Context, _ time.Duration) (driver.Session, error) {
	<-ctx.Done()
	return nil, driver.Wrap(driver.ErrUnavailable, fmt.Errorf("%w: %w", context.Cause(ctx), errDial))
}

// TestTimeoutIsNotMistakenForACancellation: the driver's context is cancelled
// when the caller's times out. The error must not be context.Canceled, by which
// callers distinguish a shutdown from an outage.
func TestTimeoutIsNotMistakenForACancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := coordinator.New(away{memory.NewService().Driver()}, quiet)
		check(t, err)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = engine.Of(c).Session(ctx)
		if errors.Is(err, context.Canceled) || !errors.Is(err, context.DeadlineExceeded) ||
			!errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, errDial) || strings.Contains(err.Error(), "canceled") {
			t.Errorf("timed out: %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err = engine.Of(c).Session(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled: %v", err)
		}
		check(t, c.Close(t.Context()))
	})
}

// TestCloseEndsWithinTheTTL, also with a context that never ends: after the TTL
// there is nothing to release.
func TestCloseEndsWithinTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{T: t, svc: memory.NewService()}
		w.client, w.link = w.another()
		s := w.session()
		w.link.Cut()
		began := time.Now()
		if err := w.client.Close(context.Background()); !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("Close = %v", err)
		}
		if took := time.Since(began); took > s.TTL() {
			t.Errorf("Close took %v with a TTL of %v", took, s.TTL())
		}
		w.link.Heal()
	})
}
