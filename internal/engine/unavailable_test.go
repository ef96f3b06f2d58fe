package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

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
