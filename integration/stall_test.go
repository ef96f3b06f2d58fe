package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/stall"
)

// watchStalls records when this process, and so its clients, stood still. The
// caller calls End.
func watchStalls() *stall.Record { return stall.Watch(2*time.Millisecond, 20*time.Millisecond) }

// telling records when a holder was notified of its loss, and the stalls of
// this process.
type telling struct {
	t        testing.TB
	deadline func() time.Time
	told     chan struct{}
	at       time.Time
	still    *stall.Record
}

// awaitTelling starts recording for the hold with this context and deadline.
func awaitTelling(t testing.TB, ctx context.Context, deadline func() time.Time) *telling {
	x := &telling{t: t, deadline: deadline, told: make(chan struct{}), still: watchStalls()}
	t.Cleanup(x.still.End)
	context.AfterFunc(ctx, func() {
		x.at = time.Now()
		close(x.told)
	})
	return x
}

// wait waits for the notification.
func (x *telling) wait() time.Time {
	x.t.Helper()
	await.Receive(x.t, "the holder to be notified", x.told)
	return x.at
}

// before waits for the notification, and checks that it came before the next
// grant.
func (x *telling) before(granted time.Time, what string) {
	x.t.Helper()
	toldBefore(x.t, x.still, what, x.deadline(), x.wait(), granted)
}

// toldBefore checks that a holder was notified before the next grant. P2
// excepts a stopped process: a process that was stopped for most of the delay
// does not fail the test.
func toldBefore(t testing.TB, still *stall.Record, what string, deadline, told, granted time.Time) {
	t.Helper()
	if !told.After(granted) {
		t.Logf("%s: notified %v before the next grant", what, granted.Sub(told).Round(time.Millisecond))
		return
	}
	say, stood := t.Errorf, still.Between(deadline, told)
	if stood > told.Sub(deadline)/2 {
		say = t.Logf
	}
	say("%s: notified %v after the next grant, %v after its deadline; the process stood still for %v of that", what,
		told.Sub(granted), told.Sub(deadline), stood)
}

// verdict is a testing.TB that records failures.
type verdict struct {
	testing.TB
	failed bool
}

func (*verdict) Helper()                 {}
func (*verdict) Logf(string, ...any)     {}
func (v *verdict) Errorf(string, ...any) { v.failed = true }

func TestOnlyAStallExcusesALateNotification(t *testing.T) {
	deadline := time.Now()
	after := func(d time.Duration) time.Time { return deadline.Add(d) }
	for what, c := range map[string]struct {
		told, granted time.Duration
		stall         stall.Stall
		failed        bool
	}{
		"in time":            {told: 1, granted: 2},
		"late":               {told: 2000, granted: 1000, failed: true},
		"late for a stall":   {told: 2000, granted: 1000, stall: stall.Stall{From: after(100), To: after(1900)}},
		"late beyond one":    {told: 2000, granted: 1000, stall: stall.Stall{From: after(100), To: after(1000)}, failed: true},
		"stalled before":     {told: 2000, granted: 1000, stall: stall.Stall{From: after(-5000), To: after(10)}, failed: true},
		"stalled afterwards": {told: 2000, granted: 1000, stall: stall.Stall{From: after(2000), To: after(5000)}, failed: true},
	} {
		v := &verdict{TB: t}
		toldBefore(v, stall.Of(c.stall), what, deadline, after(c.told), after(c.granted))
		if v.failed != c.failed {
			t.Errorf("%s: failed is %v", what, v.failed)
		}
	}
}
