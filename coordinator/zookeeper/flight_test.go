package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestOneFlightOfAContenderAtATime: the next call waits for an unanswered
// request of an earlier call, even after the earlier caller has gone.
func TestOneFlightOfAContenderAtATime(t *testing.T) {
	for _, converts := range []bool{false, true} {
		f, tr, s := openTree(t)
		tr.put("/app/~/m/a", "")
		c := driver.Contender{ID: testID, Mode: "x"}
		call := func(ctx context.Context) error { return second(s.Join(ctx, "m/a", c)) }
		if converts {
			own, err := s.Join(soon(t, 10*time.Second), "m/a", c)
			ok(t, err)
			call = func(ctx context.Context) error {
				return second(s.Convert(ctx, "m/a", own, "r", nil))
			}
		}
		sent := f.count(opMulti)
		tr.on(func(op int32, _ string) treeFate { return treeFate{lost: op == opMulti} })
		ctx, cancel := context.WithCancel(t.Context())
		called := make(chan error, 1)
		go func() { called <- call(ctx) }()
		eventually(t, "the request", func() bool { return f.count(opMulti) == sent+1 })
		cancel()
		if err := <-called; !errors.Is(err, context.Canceled) {
			t.Fatalf("the call = %v", err)
		}
		err := s.Forget(soon(t, 20*time.Millisecond), "m/a", testID)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Forget = %v with a request under way", err)
		}
		ok(t, s.Forget(soon(t, 10*time.Second), "m/a", testID[:16])) // another contender's
		f.cut()
		ok(t, s.Forget(soon(t, 10*time.Second), "m/a", testID))
	}
}
