package semaphore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/semaphore"
)

// TestTryAcquireSeesThatTheLimitWasRaised although it is told of nothing and remembers the old one.
func TestTryAcquireSeesThatTheLimitWasRaised(t *testing.T) {
	parties(t, semaphore.Stored, func(a, b party) {
		a.setLimit(1)
		b.release(b.acquire(1)) // b has read the limit
		h := a.acquire(1)
		a.setLimit(2)
		_, err := b.s.TryAcquire(b.Context(), 1) // nobody can tell yet whether h waits by the old limit
		wantErr(t, err, coordinator.ErrTaken)
		time.Sleep(time.Second)
		p, err := b.s.TryAcquire(b.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		b.release(p, h)
		b.empty()
	})
}

// TestPermitsAreCountedAgainstTheLimitOfToday and not against one that is remembered.
func TestPermitsAreCountedAgainstTheLimitOfToday(t *testing.T) {
	parties(t, semaphore.Stored, func(a, b party) {
		a.setLimit(1)
		b.release(b.acquire(1))
		a.setLimit(3)
		b.release(b.acquire(3))
		a.setLimit(2)
		_, err := b.s.Acquire(b.Context(), 3)
		wantErr(t, err, coordinator.ErrInvalid)
		held := b.acquire(2)
		w := b.begin(1)
		w.waits()
		b.release(held)
		b.release(w.granted())
		b.empty()
	})
}

// TestRecordThatIsNoLimitIsRefusedUntilItIsSet by somebody who knows.
func TestRecordThatIsNoLimitIsRefusedUntilItIsSet(t *testing.T) {
	for _, value := range []string{"garbage", "{}", `{"limit":0}`, `{"limit":-3}`, `{"limit":1000000001}`, `{"limit":"3"}`, "[]", "\x00"} {
		parties(t, 3, func(a, b party) {
			held := a.acquire(3)
			w, behind := b.begin(1), a.begin(1)
			a.write(value)
			w.failed(coordinator.ErrRefused)
			behind.failed(coordinator.ErrRefused) // as soon as it is the first who waits
			_, err := b.s.Acquire(a.Context(), 1)
			wantErr(t, err, coordinator.ErrRefused)
			_, err = b.s.TryAcquire(a.Context(), 1)
			wantErr(t, err, coordinator.ErrRefused)
			_, err = b.s.Limit(a.Context())
			wantErr(t, err, coordinator.ErrRefused)
			_, err = b.s.List(a.Context())
			wantErr(t, err, coordinator.ErrRefused)
			if held.Err() != nil {
				t.Errorf("the holder was disturbed: %v", held.Err())
			}
			a.setLimit(3)
			a.release(held)
			b.release(b.acquire(3))
			a.empty()
		})
	}
}

// write puts a record, as somebody would who does not know what it is for.
func (p party) write(value string) {
	p.Helper()
	d := p.svc.Driver()
	s, err := d.Open(p.Context(), time.Minute)
	if err == nil {
		_, err = s.SetRecord(p.Context(), queue, []byte(value), p.svc.Record(queue).Version)
	}
	if err == nil {
		err = s.Close(p.Context())
	}
	if err != nil {
		p.Fatal(err)
	}
	synctest.Wait()
}

// TestRecordThatIsDeletedIsWrittenByTheNextWhoKnowsTheLimit: those who wait are sent away, since nobody can say what they
// wait for.
func TestRecordThatIsDeletedIsWrittenByTheNextWhoKnowsTheLimit(t *testing.T) {
	parties(t, 3, func(a, b party) {
		held := a.acquire(2)
		w, behind := b.begin(2), a.begin(2)
		if !a.svc.RemoveRecord(queue) {
			t.Fatal("no record")
		}
		w.failed(semaphore.ErrNoLimit, recipes.ErrNoRecord)
		behind.failed(semaphore.ErrNoLimit, recipes.ErrNoRecord)
		synctest.Wait()
		if l := a.list(); l.Limit != 0 || len(l.Contenders) != 1 || l.Free() != 0 {
			t.Errorf("listing %+v", l)
		}
		_, err := b.believing(semaphore.Stored).Acquire(a.Context(), 1)
		wantErr(t, err, semaphore.ErrNoLimit, recipes.ErrNoRecord)
		one := b.acquire(1)
		if n, err := a.s.Limit(a.Context()); n != 3 || err != nil {
			t.Errorf("Limit = %d, %v", n, err)
		}
		a.svc.RemoveRecord(queue)
		_, err = b.s.TryAcquire(a.Context(), 1) // by what it remembers it would fit or not: the record is asked
		wantErr(t, err, coordinator.ErrTaken)
		a.release(held)
		b.release(one)
		a.empty()
	})
}

// loseOnly gives one request, counted from now, a fate.
func loseOnly(svc *memory.Service, n int, fate memory.Fate) {
	var mu sync.Mutex
	svc.OnRequest(func(r memory.Request) memory.Fate {
		mu.Lock()
		defer mu.Unlock()
		if r.Op == memory.OpRenew {
			return memory.Fate{}
		}
		if n--; n == -1 {
			return fate
		}
		return memory.Fate{}
	})
}

// TestSetLimitEndsByItsContext and says that it may have been applied.
func TestSetLimitEndsByItsContext(t *testing.T) {
	parties(t, 3, func(a, b party) {
		a.setLimit(3)
		b.session()
		b.link.HoldReplies()
		ctx, cancel := context.WithTimeout(a.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := b.s.SetLimit(ctx, 4)
		wantErr(t, err, coordinator.ErrUnavailable, context.DeadlineExceeded)
		if time.Since(began) != time.Second {
			t.Errorf("took %v", time.Since(began))
		}
		b.link.Heal()
		b.setLimit(4)
		_, err = a.s.Acquire(a.Context(), 1)
		var limit *semaphore.LimitError
		if !errors.As(err, &limit) || limit.Asked != 3 || limit.Stored != 4 {
			t.Errorf("Acquire = %v", err)
		}
	})
}
