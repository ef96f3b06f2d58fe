package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// slow is a driver whose joins, reads and leaves take a second, and that counts
// those under way.
type slow struct {
	driver.Driver
	mu             sync.Mutex
	now, most, all int
}

type slowSession struct {
	driver.Session
	d *slow
}

func (d *slow) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return slowSession{s, d}, err
}

func (s slowSession) Join(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
	defer s.d.takesTime()()
	return s.Session.Join(ctx, queue, c)
}

func (s slowSession) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
	defer s.d.takesTime()()
	return s.Session.Ahead(ctx, queue, own)
}

func (s slowSession) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	defer s.d.takesTime()()
	return s.Session.Leave(ctx, queue, own)
}

func (d *slow) takesTime() (over func()) {
	d.count(+1)
	time.Sleep(time.Second)
	return func() { d.count(-1) }
}

func (d *slow) count(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now += n
	d.most, d.all = max(d.most, d.now), d.all+max(0, n)
}

// counted returns the maximum and the total since its last call.
func (d *slow) counted() (most, all int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	most, all = d.most, d.all
	d.most, d.all = 0, 0
	return most, all
}

// joinMany lets n contenders join at once, and returns the channel of their
// errors.
func joinMany(ctx context.Context, s *engine.Session, n int) <-chan error {
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := s.Join(ctx, queue, driver.Contender{ID: s.NewID(false), Mode: "x"})
			errs <- err
		}()
	}
	return errs
}

// TestConcurrentJoinsAreBounded: of many joins at once only a bounded number is
// under way. Patience does not bound the wait of the others.
func TestConcurrentJoinsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const portions = 8 // one a second: together longer than the bound of a join
		svc := memory.NewService()
		d := &slow{Driver: svc.Driver()}
		s := sessionOn(t, d)
		const n = portions * engine.MostChanges
		errs := joinMany(t.Context(), s, n)
		for range n {
			check(t, <-errs)
		}
		if most, all := d.counted(); most != engine.MostChanges || all != n {
			t.Errorf("%d joins at once, %d in all", most, all)
		}
	})
}

// TestWaitingToJoinLeavesNothing: a contender that gives up, or loses its
// session, before it may send its join has sent nothing. Its error is the cause
// of its context, also if that is one of our errors.
func TestWaitingToJoinLeavesNothing(t *testing.T) {
	lost := errors.New("the session, not the context, ends")
	for _, cause := range []error{
		lost, context.Canceled, engine.ErrSessionLost, engine.ErrTaken, engine.ErrRefused,
	} {
		synctest.Test(t, func(t *testing.T) {
			svc := memory.NewService()
			d := &slow{Driver: svc.Driver()}
			s := sessionOn(t, d)
			first := joinMany(t.Context(), s, engine.MostChanges)
			synctest.Wait()
			ctx, cancel := context.WithCancelCause(t.Context())
			second := joinMany(ctx, s, 10)
			synctest.Wait()
			want, lose := cause, errors.Is(cause, lost)
			if lose {
				want = engine.ErrSessionLost
				svc.Expire(s.ID())
			} else {
				cancel(cause)
			}
			for range 10 {
				if err := <-second; !errors.Is(err, want) || engine.MayHaveApplied(err) {
					t.Errorf("%v: %v", cause, err)
				}
			}
			if err := s.Err(); (err != nil) != lose {
				t.Errorf("%v: session %v", cause, err)
			}
			for range engine.MostChanges {
				if err := <-first; (err == nil) == lose {
					t.Errorf("%v: one under way: %v", cause, err)
				}
			}
			if _, all := d.counted(); all != engine.MostChanges {
				t.Errorf("%v: %d have sent a join", cause, all)
			}
			cancel(nil)
		})
	}
}
