package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestOneFlightOfAContenderAtATime: the next call waits for an unanswered
// request of an earlier call, even after the earlier caller has gone.
func TestOneFlightOfAContenderAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
			tr.on(func(int32, string) treeFate { return treeFate{} })
			f.cut()
			ok(t, s.Forget(soon(t, 10*time.Second), "m/a", testID))
		}
	})
}

// TestJoinsThatAreGivenUpDisturbNoOther: forgetting one waits for its own
// request alone, so no other join fails or is sent again.
func TestJoinsThatAreGivenUpDisturbNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const givers, rounds = 50, 20
		f, tr, s := openTree(t)
		tr.put("/app/~/m/busy", "")
		tr.put("/app/~/m/free", "")
		tr.on(func(int32, string) treeFate {
			time.Sleep(2 * time.Millisecond) // for each request
			return treeFate{}
		})
		var giveUp sync.WaitGroup
		for i := range givers {
			giveUp.Go(func() {
				for round := range rounds {
					id := fmt.Sprintf("%016x", i*rounds+round+1)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*time.Millisecond)
					_, err := s.Join(ctx, "m/busy", driver.Contender{ID: id, Mode: "x"})
					cancel()
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("a join that is given up: %v", err)
					}
					ok(t, s.Forget(t.Context(), "m/busy", id))
				}
			})
		}
		for i := range rounds {
			id := fmt.Sprintf("%016x", givers*rounds+i+1)
			j, err := s.Join(t.Context(), "m/free", driver.Contender{ID: id, Mode: "x"})
			if err != nil || !j.First {
				t.Errorf("a join of a free name: %+v, %v", j, err)
			}
			ok(t, s.Leave(t.Context(), "m/free", j.Place))
		}
		giveUp.Wait()
		if n := f.count(opMulti); n > givers*rounds+rounds {
			t.Errorf("%d joins were sent; want at most one for each of %d", n, givers*rounds+rounds)
		}
		if left := tr.list("/app/~/m/busy"); len(left) > 0 || s.Err() != nil {
			t.Errorf("%d entries are left; the session: %v", len(left), s.Err())
		}
	})
}
