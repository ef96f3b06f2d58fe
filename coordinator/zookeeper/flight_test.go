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
	f, tr, s := openTree(t)
	tr.put("/app/m/a", "")
	tr.on(func(op int32, _ string) treeFate { return treeFate{lost: op == opMulti} })
	_, err := s.Join(soon(t, 20*time.Millisecond), "m/a", driver.Contender{ID: testID, Mode: "x"})
	if !errors.Is(err, context.DeadlineExceeded) || f.count(opMulti) != 1 {
		t.Fatalf("Join = %v", err)
	}
	if err := s.Forget(soon(t, 20*time.Millisecond), "m/a", testID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Forget = %v with a request under way", err)
	}
	ok(t, s.Forget(soon(t, time.Second), "m/a", testID[:16])) // another contender's
	f.cut()
	ok(t, s.Forget(soon(t, time.Second), "m/a", testID))
}
