package coordinator_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

func client(t *testing.T, d driver.Driver, opts ...coordinator.Option) *coordinator.Client {
	t.Helper()
	c, err := coordinator.New(d, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// find returns the finding with an About.
func find(t *testing.T, found []coordinator.Finding, about string) coordinator.Finding {
	t.Helper()
	for _, f := range found {
		if f.About == about {
			return f
		}
	}
	t.Fatalf("no finding about %q in %+v", about, found)
	return coordinator.Finding{}
}

func TestExamineReportsTheLongestOutageAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		c := client(t, svc.Driver(), coordinator.WithTTL(10*time.Second))
		found := c.Examine(t.Context())
		for _, about := range []string{"session", "reads", "acquire and release", "TTL of this client"} {
			if f := find(t, found, about); f.Grade != driver.Fine {
				t.Errorf("%+v", f)
			}
		}
		if f := find(t, found, "TTL of this client"); !strings.Contains(f.Text, "survive an outage of 7.5s") {
			t.Errorf("%+v; docs/ttl.md says 0.75 of the TTL", f)
		}
		s, err := engine.Of(c).Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if left, err := s.List(t.Context(), "baton/probe", 0); err != nil || len(left) != 0 {
			t.Errorf("left %v, %v", left, err)
		}
	})
}

// TestExamineSendsNoJoinEvents: an observer's gauge of waiters would rise, and
// never fall.
func TestExamineSendsNoJoinEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen memory.Tally
		c := client(t, memory.NewService().Driver(), coordinator.WithObserver(&seen))
		c.Examine(t.Context())
		if n := seen.Count(event.Joined); n != 0 || seen.Count(event.SessionOpened) != 1 {
			t.Errorf("%d Joined events; events: %v", n, seen.Events())
		}
	})
}

func TestExamineReportsForeignEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		c := client(t, svc.Driver())
		place := svc.AddForeign("mutex/orders")
		found := c.Examine(t.Context())
		if f := find(t, found, "queue mutex/orders"); f.Grade != driver.Warning || !strings.Contains(f.Text, place.Key) {
			t.Errorf("%+v", f)
		}
		if f := find(t, found, "queues"); !strings.Contains(f.Text, "1 are not empty") {
			t.Errorf("%+v", f)
		}
	})
}

func TestExamineAdvisesALongerTTLForASlowService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		d := svc.Driver()
		d.Delay(150*time.Millisecond, 150*time.Millisecond)
		c := client(t, d, coordinator.WithTTL(10*time.Second))
		f := find(t, c.Examine(t.Context()), "TTL of this client")
		if f.Grade != driver.Warning || !strings.Contains(f.Advice, "TTL of 13s or more") {
			t.Errorf("%+v", f)
		}
	})
}

func TestExamineWithoutServiceEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		c := client(t, svc.Driver())
		svc.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		f := find(t, c.Examine(ctx), "session")
		if f.Grade != driver.Failure || f.Advice == "" {
			t.Errorf("%+v", f)
		}
	})
}
