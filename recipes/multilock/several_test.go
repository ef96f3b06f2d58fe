package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock"
)

// counting counts how often it is asked for a value.
type counting struct {
	context.Context
	asked *atomic.Int64
}

func (c counting) Value(key any) any {
	c.asked.Add(1)
	return c.Context.Value(key)
}

// TestContextsOfSetsInSetsAskTheCallersOnce for a key that they do not have.
func TestContextsOfSetsInSetsAskTheCallersOnce(t *testing.T) {
	at(t, 1, func(s *site) {
		c, _ := s.client(0)
		type other struct{}
		var asked atomic.Int64
		ctx := context.Context(counting{s.Context(), &asked})
		var held []*multilock.Lock
		for depth := range 5 {
			var names []string
			for i := range 4 {
				names = append(names, fmt.Sprint(depth, i))
			}
			l, err := s.set(c, names...).Lock(ctx)
			if err != nil {
				s.Fatal(err)
			}
			held = append(held, l)
			ctx = l.Context()
			asked.Store(0)
			if ctx.Value(other{}) != nil || asked.Load() != 1 {
				s.Errorf("at depth %d the context of the caller was asked %d times", depth, asked.Load())
			}
			err = s.set(c, "inner"+fmt.Sprint(depth)).Do(ctx, func(ctx context.Context, _ *multilock.Lock) error {
				asked.Store(0)
				if ctx.Value(other{}) != nil || asked.Load() != 1 {
					s.Errorf("of work at depth %d: asked %d times", depth, asked.Load())
				}
				for _, names := range []string{"00", names[3]} { // the outermost, the innermost
					m, err := mutex.New(c, names)
					if err != nil {
						return err
					}
					again, err := m.TryLock(ctx)
					if err != nil {
						return err
					}
					if err := again.Unlock(ctx); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				s.Error(err)
			}
		}
		for _, l := range held {
			s.unlock(l)
		}
	})
}

// TestLockOfManyNamesAsksTheContextLinearly: twice as many names, twice as many
// lookups of values.
func TestLockOfManyNamesAsksTheContextLinearly(t *testing.T) {
	at(t, 1, func(s *site) {
		c, _ := s.client(0)
		cost := func(n int) int64 {
			var names []string
			for i := range n {
				names = append(names, fmt.Sprint("name", i))
			}
			var asked atomic.Int64
			l, err := s.set(c, names...).Lock(counting{s.Context(), &asked})
			if err != nil {
				s.Fatal(err)
			}
			s.unlock(l)
			return asked.Load()
		}
		if one, four := cost(50), cost(200); four > 4*one+4 {
			s.Errorf("50 names ask %d times, 200 names %d times", one, four)
		}
	})
}

// TestLongestHoldCountsFromTheGrantOfTheSet, not from that of an early member.
func TestLongestHoldCountsFromTheGrantOfTheSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, tally := memory.NewService(), &memory.Tally{}
		c, err := coordinator.New(svc.Driver(), coordinator.WithObserver(tally))
		if err != nil {
			t.Fatal(err)
		}
		late, err := mutex.New(c, "b")
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := late.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		set, err := multilock.New(multilock.Mutex(c, "a", recipes.WithMaxHold(time.Minute)),
			multilock.Mutex(c, "b"), multilock.Read(c, "c", recipes.WithMaxHold(time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(5*time.Minute, func() { _ = blocks.Unlock(context.Background()) })
		l, err := set.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		<-l.Context().Done()
		if took := time.Since(began); took != time.Minute || !errors.Is(context.Cause(l.Context()), recipes.ErrHeldTooLong) {
			t.Errorf("%v after %v", context.Cause(l.Context()), took)
		}
		synctest.Wait()
		if n := tally.Count(event.HeldTooLong); n != 1 {
			t.Errorf("%d events", n)
		}
		if err := l.Unlock(t.Context()); err != nil { // all members were held until now
			t.Errorf("unlock: %v", err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
