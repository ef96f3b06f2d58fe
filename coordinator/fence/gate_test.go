package fence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

func TestGateRefusesStaleTokensAndNamesBoth(t *testing.T) {
	g := fence.NewGate(fence.Scope{})
	for _, token := range []driver.Token{5, 5, 7, 7} {
		if err := g.Check(t.Context(), orders(token)); err != nil {
			t.Fatal(token, err)
		}
	}
	ran := false
	err := g.Do(t.Context(), orders(5), func(context.Context) error { ran = true; return nil })
	stale, ok := errors.AsType[*fence.StaleError](err)
	if !ok || !errors.Is(err, fence.ErrStale) || stale.Shown.Token != 5 || stale.Latest != 7 || ran {
		t.Fatalf("Do = %v, ran %t", err, ran)
	}
	for _, part := range []string{"5", "7", "mutex", `"orders"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %s", err, part)
		}
	}
	if g.Latest() != 7 {
		t.Errorf("latest %d", g.Latest())
	}
}

func TestGateTakesOneScope(t *testing.T) {
	for _, want := range []fence.Scope{{}, {Kind: "mutex", Name: "orders"}, orders(1).Scope} {
		g := fence.NewGate(want)
		if err := g.Check(t.Context(), orders(5)); err != nil {
			t.Fatal(err)
		}
		for _, s := range foreign() {
			s.Token = 100
			if err := g.Check(t.Context(), s); !errors.Is(err, fence.ErrForeign) {
				t.Errorf("%v: %v", s, err)
			}
		}
		if err := g.Check(t.Context(), fence.Sequencer{}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("zero sequencer: %v", err)
		}
		if err := g.Check(t.Context(), orders(5)); err != nil || g.Latest() != 5 {
			t.Errorf("a refused sequencer has changed the gate: %v, latest %d", err, g.Latest())
		}
	}
}

// TestCheckAndAccessAreOneStep has accesses that read, pause and write.
func TestCheckAndAccessAreOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fence.NewGate(fence.Scope{})
		var wg sync.WaitGroup
		var stored driver.Token // by the last access
		admitted, refused := 0, 0
		var mu sync.Mutex
		for i := range 64 {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			wg.Go(func() {
				for range 50 {
					token := driver.Token(1 + rng.IntN(1000))
					err := g.Do(t.Context(), orders(token), func(context.Context) error {
						before := stored
						time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
						if stored != before || token < stored {
							t.Errorf("token %d, stored %d, before the pause %d", token, stored, before)
						}
						stored = token
						return nil
					})
					mu.Lock()
					if err == nil {
						admitted++
					} else if stale, ok := errors.AsType[*fence.StaleError](err); ok && stale.Latest > token && stale.Shown.Token == token {
						refused++
					} else {
						t.Error(err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if g.Latest() != stored || admitted == 0 || refused == 0 {
			t.Errorf("latest %d, stored %d, %d admitted, %d refused", g.Latest(), stored, admitted, refused)
		}
	})
}

func TestWaitForAGateEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fence.NewGate(fence.Scope{})
		leave := make(chan struct{})
		go func() { _ = g.Do(context.Background(), orders(5), func(context.Context) error { <-leave; return nil }) }()
		synctest.Wait()
		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		if err := g.Check(ctx, orders(7)); !errors.Is(err, why) || g.Latest() != 7 {
			t.Errorf("Check = %v, latest %d", err, g.Latest())
		}
		close(leave)
		if err := g.Check(t.Context(), orders(7)); err != nil {
			t.Error(err)
		}
	})
}

func TestGateIsUnlockedWhenAccessFailsOrPanics(t *testing.T) {
	g := fence.NewGate(fence.Scope{})
	why := errors.New("disk full")
	if err := g.Do(t.Context(), orders(5), func(context.Context) error { return why }); !errors.Is(err, why) {
		t.Error(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = g.Do(t.Context(), orders(5), func(context.Context) error { panic("out") })
	}()
	if err := g.Check(t.Context(), orders(5)); err != nil {
		t.Error(err)
	}
}

// TestStoppedHolderLetsTheNextOneIn: its access is told to end, and smaller
// tokens that wait are refused before the next holder's turn.
func TestStoppedHolderLetsTheNextOneIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := fence.NewGate(fence.Scope{})
		var order []driver.Token
		access := func(token driver.Token) func(context.Context) error {
			return func(ctx context.Context) error {
				order = append(order, token)
				if token == 5 {
					<-ctx.Done() // a body that does not arrive
					return context.Cause(ctx)
				}
				return nil
			}
		}
		var first, late error
		go func() { first = g.Do(t.Context(), orders(5), access(5)) }()
		synctest.Wait()
		go func() { late = g.Do(t.Context(), orders(6), access(6)) }()
		go func() { _ = g.Do(t.Context(), orders(7), access(7)) }()
		synctest.Wait()
		stale, ok := errors.AsType[*fence.StaleError](first)
		if !ok || stale.Shown != orders(5) || stale.Latest < 6 {
			t.Errorf("the first access ended with %v", first)
		}
		if last := order[len(order)-1]; order[0] != 5 || last != 7 {
			t.Errorf("the order was %v", order)
		}
		if late != nil && !errors.Is(late, fence.ErrStale) {
			t.Error(late)
		}
		if g.Latest() != 7 {
			t.Errorf("latest %d", g.Latest())
		}
	})
}

// TestWaiterIsRefusedAtOnce when a greater token is shown, also if the access
// that it waits for goes on: that may be its caller's own.
func TestWaiterIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		inner := make(chan error, 1)
		go func() {
			_ = g.Do(t.Context(), orders(5), func(context.Context) error {
				inner <- g.Check(t.Context(), orders(5)) // such as for a message of a stream
				return nil
			})
		}()
		synctest.Wait()
		if err := g.Check(t.Context(), orders(7)); err != nil {
			t.Errorf("the next holder: %v", err)
		}
		if err := <-inner; !errors.Is(err, fence.ErrStale) {
			t.Errorf("the waiter: %v", err)
		}
		q := quorumGate(t, 3)
		go func() {
			_ = q.Do(t.Context(), of("a:1 b:1"), func(context.Context) error {
				inner <- q.Check(t.Context(), of("a:1 b:1"))
				return nil
			})
		}()
		synctest.Wait()
		if err := q.Check(t.Context(), of("b:2 c:4")); err != nil {
			t.Errorf("the next holder of a majority: %v", err)
		}
		if err := <-inner; !errors.Is(err, fence.ErrStale) {
			t.Errorf("the waiter at the other gate: %v", err)
		}
	})
}

func TestAccessNeverBeginsWithAContextThatHasEnded(t *testing.T) {
	g := fence.NewGate(fence.Scope{})
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := g.Do(ctx, orders(5), func(context.Context) error { t.Error("access ran"); return nil })
		if !errors.Is(err, context.Canceled) || g.Latest() != 0 {
			t.Fatalf("Do = %v, latest %d", err, g.Latest())
		}
	}
	// A waiter whose context ends at the moment at which it may go on.
	synctest.Test(t, func(t *testing.T) {
		var g fence.Gate
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			leave := make(chan struct{})
			go func() { _ = g.Do(t.Context(), orders(5), func(context.Context) error { <-leave; return nil }) }()
			synctest.Wait()
			go func() {
				<-ctx.Done()
				close(leave)
			}()
			_ = g.Do(ctx, orders(5), func(ctx context.Context) error {
				if ctx.Err() != nil {
					t.Error("access ran with a context that has ended")
				}
				return nil
			})
			cancel()
			synctest.Wait()
		}
	})
}

func TestZeroGateIsUsable(t *testing.T) {
	var g fence.Gate
	if err := g.Check(t.Context(), orders(5)); err != nil || g.Latest() != 5 {
		t.Errorf("Check = %v, latest %d", err, g.Latest())
	}
	if err := g.Check(t.Context(), orders(4)); !errors.Is(err, fence.ErrStale) {
		t.Error(err)
	}
}

func TestRiseOfTheTokenIsConfirmed(t *testing.T) {
	var g fence.Gate
	asked, forged := 0, errors.New("no such grant")
	g.Confirm = func(_ context.Context, s fence.Sequencer) error {
		if asked++; s.Token > 100 {
			return forged
		}
		return nil
	}
	for _, token := range []driver.Token{5, 5, 7} {
		if err := g.Check(t.Context(), orders(token)); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Check(t.Context(), orders(1<<62)); !errors.Is(err, forged) {
		t.Error(err)
	}
	if err := g.Check(t.Context(), orders(5)); !errors.Is(err, fence.ErrStale) {
		t.Error(err)
	}
	if g.Latest() != 7 || asked != 3 {
		t.Errorf("latest %d, asked %d times; want 7, 3", g.Latest(), asked)
	}
}

func TestResetForgetsTokenAndScope(t *testing.T) {
	g := fence.NewGate(fence.Scope{Kind: "mutex"})
	other := orders(3)
	other.Service += "2"
	if err := g.Check(t.Context(), orders(5)); err != nil {
		t.Fatal(err)
	}
	err := g.Check(t.Context(), other)
	if !errors.Is(err, fence.ErrForeign) || !strings.Contains(err.Error(), "reset") {
		t.Errorf("%v: want a refusal that names the remedy", err)
	}
	g.Reset()
	if err := g.Check(t.Context(), other); err != nil || g.Latest() != 3 {
		t.Errorf("after a reset: %v, latest %d", err, g.Latest())
	}
	wrong := other
	wrong.Kind = "election"
	if err := g.Check(t.Context(), wrong); !errors.Is(err, fence.ErrForeign) || strings.Contains(err.Error(), "reset") {
		t.Errorf("a reset has dropped the kind of NewGate, or advises a reset: %v", err)
	}
}

func TestContextCarriesTheSequencer(t *testing.T) {
	if s, ok := fence.From(t.Context()); ok {
		t.Errorf("from a plain context: %v", s)
	}
	if s, ok := fence.From(fence.With(fence.With(t.Context(), orders(1)), orders(5))); !ok || s != orders(5) {
		t.Errorf("%v, %t", s, ok)
	}
}
