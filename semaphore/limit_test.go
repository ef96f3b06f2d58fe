package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/semaphore"
)

// TestClientsWithOtherLimitsAreRefused with both values in the error, and are
// not queued. FIELD 59
func TestClientsWithOtherLimitsAreRefused(t *testing.T) {
	parties(t, 5, func(a, b party) {
		p := a.acquire(1)
		other := b.withLimit(6)
		calls := map[string]func() error{
			"Acquire":    func() error { _, err := other.Acquire(a.Context(), 1); return err },
			"TryAcquire": func() error { _, err := other.TryAcquire(a.Context(), 1); return err },
			"Do":         func() error { return other.Do(a.Context(), 1, nothing) },
		}
		for what, call := range calls {
			err := call()
			var limit *semaphore.LimitError
			if !errors.As(err, &limit) ||
				*limit != (semaphore.LimitError{Name: "jobs", Asked: 6, Stored: 5}) ||
				!errors.Is(err, coordinator.ErrInvalid) ||
				!strings.Contains(err.Error(), `"jobs" is 5, not 6`) {
				t.Errorf("%s = %v", what, err)
			}
		}
		synctest.Wait()
		if s := a.svc.Stats(); s.Entries != 1 || s.Requests[memory.OpJoin] != 1 {
			t.Errorf("%+v", s)
		}
		a.setLimit(6) // their limit is now the stored one
		check(t, calls["Do"]())
		a.release(p)
		a.empty()
	})
}

func nothing(context.Context, *semaphore.Permit) error { return nil }

func TestStoredLimitIsFollowed(t *testing.T) {
	parties(t, semaphore.Stored, func(a, b party) {
		for _, s := range []*semaphore.Semaphore{a.s, b.s} {
			_, err := s.Acquire(a.Context(), 1)
			wantErr(t, err, semaphore.ErrNoLimit)
			_, err = s.TryAcquire(a.Context(), 1)
			wantErr(t, err, semaphore.ErrNoLimit)
			_, err = s.Limit(a.Context())
			wantErr(t, err, semaphore.ErrNoLimit)
			want := "nothing is stored at the name: give a limit to New, or call SetLimit"
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
		for limit := 1; limit <= 4; limit++ {
			a.setLimit(limit)
			if n, err := b.s.Limit(a.Context()); n != limit || err != nil {
				t.Errorf("Limit = %d, %v", n, err)
			}
			all := b.acquire(limit)
			_, err := b.s.TryAcquire(a.Context(), 1)
			wantErr(t, err, coordinator.ErrTaken)
			_, err = b.s.Acquire(a.Context(), limit+1)
			wantErr(t, err, coordinator.ErrInvalid)
			want := fmt.Sprintf("%d permits exceed the limit of %d", limit+1, limit)
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("error %v, want %q", err, want)
			}
			b.release(all)
		}
		a.empty()
	})
}

// TestLatestProcessThatStartsSetsTheLimit: each stores its own with the first
// Acquire, and follows the stored limit afterwards.
func TestLatestProcessThatStartsSetsTheLimit(t *testing.T) {
	parties(t, semaphore.Set(5), func(a, b party) {
		limit := func(want int) {
			t.Helper()
			if n, err := a.s.Limit(a.Context()); n != want || err != nil {
				t.Errorf("the limit is %d, %v; want %d", n, err, want)
			}
		}
		_, err := a.s.Limit(a.Context()) // nobody has acquired
		wantErr(t, err, semaphore.ErrNoLimit)
		old := a.acquire(5)
		limit(5)
		deployed := b.withLimit(semaphore.Set(7))
		_, err = deployed.TryAcquire(a.Context(), 3) // 5 + 3
		wantErr(t, err, coordinator.ErrTaken)
		limit(7)
		a.release(old)
		a.release(a.acquire(7)) // not 5 again
		limit(7)
		check(t, deployed.Do(a.Context(), 7, nothing))
		a.setLimit(6) // by an operator
		check(t, deployed.Do(a.Context(), 6, nothing))
		limit(6)
		_, err = deployed.Acquire(a.Context(), 7)
		wantErr(t, err, coordinator.ErrInvalid)
		b.release(b.acquire(1)) // b has not acquired yet, and so stores its own
		limit(5)
		for n, invalid := range map[int]int{0: 0, -1: -1, semaphore.MaxLimit + 1: semaphore.MaxLimit + 1} {
			if got := semaphore.Set(n); got != invalid {
				t.Errorf("Set(%d) = %d", n, got)
			}
		}
		check(t, b.withLimit(semaphore.Set(semaphore.MaxLimit)).Do(a.Context(), semaphore.MaxLimit, nothing))
		a.empty()
	})
}

// TestLimitOfSetIsStoredOnce by the calls of a process that come together, also
// if the first has no answer, which costs one more request. It is stored again
// if an operator has deleted it.
func TestLimitOfSetIsStoredOnce(t *testing.T) {
	for _, lost := range []bool{false, true} {
		parties(t, semaphore.Set(5), func(a, b party) {
			b.setLimit(3)
			a.link.Delay(time.Millisecond, time.Millisecond)
			a.svc.OnRequest(memory.Once(memory.OpSetRecord, memory.Fate{DropReply: lost}))
			before := a.svc.Stats()
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() { check(t, a.s.Do(a.Context(), 1, nothing)) })
			}
			wg.Wait()
			a.svc.OnRequest(nil)
			if n := a.svc.Stats().Since(before).Requests[memory.OpSetRecord]; n != 1 && !(lost && n == 2) {
				t.Errorf("lost %v: %d writes", lost, n)
			}
			a.svc.RemoveRecord("semaphore/jobs")
			check(t, a.s.Do(a.Context(), 5, nothing))
			a.empty()
		})
	}
}

// TestLimitOfSetThatWasRefusedIsStoredByTheNextCall.
func TestLimitOfSetThatWasRefusedIsStoredByTheNextCall(t *testing.T) {
	parties(t, 5, func(a, _ party) {
		other := a.withLimit(semaphore.Set(6))
		a.svc.OnRequest(memory.Once(memory.OpSetRecord, memory.Fate{Err: errors.New("refused")}))
		_, err := other.Acquire(a.Context(), 1)
		wantErr(t, err, coordinator.ErrRefused)
		a.svc.OnRequest(nil)
		check(t, other.Do(a.Context(), 6, nothing))
		a.empty()
	})
}

// TestFirstUsersAgreeOnOneLimit however they race, and clients with another
// limit get an error.
func TestFirstUsersAgreeOnOneLimit(t *testing.T) {
	for round := range 20 {
		synctest.Test(t, func(t *testing.T) {
			svc := memory.NewService()
			var mu sync.Mutex
			stored, mine := map[int]int{}, map[int]int{}
			var wg sync.WaitGroup
			for i := range 12 {
				p := join(t, svc, 3+(i+round)%3)
				p.link.Delay(time.Duration(i%4)*time.Millisecond, time.Millisecond)
				wg.Go(func() {
					err := p.s.Do(p.Context(), 3, nothing)
					var limit *semaphore.LimitError
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						mine[3+(i+round)%3]++
					case errors.As(err, &limit):
						stored[limit.Stored]++
					default:
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if len(mine) != 1 || len(stored) != 1 {
				t.Errorf("granted with the limits %v, others got %v", mine, stored)
			}
			for limit, n := range mine {
				if n != 4 || stored[limit] != 8 {
					t.Errorf("granted with the limits %v, others got %v", mine, stored)
				}
			}
		})
	}
}

// TestRaisingTheLimitAdmitsAtOnce all waiters that fit, in order, when the
// holders' entries are converted. FIELD 52
func TestRaisingTheLimitAdmitsAtOnce(t *testing.T) {
	for seed := range uint64(20) {
		parties(t, 3, func(a, b party) {
			held := a.acquire(3)
			time.Sleep(250 * time.Millisecond)
			var waiting []*wait
			for _, n := range []int{2, 1, 3, 1} {
				waiting = append(waiting, b.begin(n))
			}
			began := time.Now()
			a.setLimit(6)
			for i, w := range waiting {
				if i < 2 {
					b.release(w.granted())
					continue
				}
				a.setLimit(7) // now 3 + 3 + 1
				b.release(w.granted())
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("seed %d: took %v", seed, took)
			}
			a.release(held)
			a.empty()
		}, memory.WithStaleViews(seed))
	}
}

func TestLoweringTheLimitRevokesNothingAndAdmitsNone(t *testing.T) {
	parties(t, 6, func(a, b party) {
		held := []*semaphore.Permit{a.acquire(2), a.acquire(2), b.acquire(2)}
		time.Sleep(time.Second)
		w, second := b.begin(1), a.begin(2)
		a.setLimit(3)
		over := func(limit, n int) {
			t.Helper()
			if l := a.list(); l.Limit != limit || l.Held != n || l.Free() != max(0, limit-n) {
				t.Errorf("listing %+v, want %d of %d and %d free", l, n, limit, max(0, limit-n))
			}
		}
		over(3, 6)
		_, err := a.s.TryAcquire(a.Context(), 1)
		wantErr(t, err, coordinator.ErrTaken)
		a.release(held[0])
		w.waits()
		over(3, 4)
		if _, err := held[1].ReleasePart(a.Context(), 1); err != nil { // 3 of 3
			t.Error(err)
		}
		w.waits()
		over(3, 3)
		a.release(held[1])
		p := w.granted() // 2 + 1
		second.waits()
		over(3, 3)
		for _, h := range append(held[1:], p) {
			if h != held[1] && h.Err() != nil {
				t.Errorf("a holder was disturbed: %v", h.Err())
			}
		}
		a.setLimit(5)
		a.release(second.granted())
		b.release(held[2], p)
		a.empty()
	})
}

// TestWaiterForMoreThanTheNewLimitFailsAndOthersContinue also if it is not the
// first waiter.
func TestWaiterForMoreThanTheNewLimitFailsAndOthersContinue(t *testing.T) {
	parties(t, 4, func(a, b party) {
		held := a.acquire(2)
		big, small, big2, last := b.begin(4), a.begin(1), b.begin(3), a.begin(1)
		a.setLimit(2)
		big.failed(coordinator.ErrInvalid)
		want := "4 permits exceed the limit of 2"
		if !strings.Contains(big.err.Error(), want) {
			t.Errorf("error %v, want %q", big.err, want)
		}
		small.waits()
		a.release(held)
		p := small.granted()
		big2.failed(coordinator.ErrInvalid)
		q := last.granted()
		a.release(p, q)
		a.empty()
	})
}

// TestRecordThatIsNoLimitIsRefusedUntilItIsSet with SetLimit.
func TestRecordThatIsNoLimitIsRefusedUntilItIsSet(t *testing.T) {
	for _, value := range []string{"garbage", "{}", `{"limit":0}`, `{"limit":-3}`,
		`{"limit":1000000001}`, `{"limit":"3"}`, "[]", "\x00"} {
		parties(t, 3, func(a, b party) {
			held := a.acquire(3)
			w, behind := b.begin(1), a.begin(1)
			a.write(value)
			w.failed(coordinator.ErrRefused)
			behind.failed(coordinator.ErrRefused) // when it is the first waiter
			for what, err := range map[string]error{
				"Acquire":    second(b.s.Acquire(a.Context(), 1)),
				"TryAcquire": second(b.s.TryAcquire(a.Context(), 1)),
				"Limit":      second(b.s.Limit(a.Context())),
				"List":       second(b.s.List(a.Context())),
			} {
				if !errors.Is(err, coordinator.ErrRefused) {
					t.Errorf("%s = %v", what, err)
				}
			}
			check(a, held.Err())
			a.setLimit(3)
			a.release(held)
			b.release(b.acquire(3))
			a.empty()
		})
	}
}

// write writes any record.
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

// TestDeletedRecordIsWrittenByTheNextCallerWithALimit: waiters fail, since
// their limit is unknown.
func TestDeletedRecordIsWrittenByTheNextCallerWithALimit(t *testing.T) {
	parties(t, 3, func(a, b party) {
		held := a.acquire(2)
		w, behind := b.begin(2), a.begin(2)
		if !a.svc.RemoveRecord(queue) {
			t.Fatal("no record")
		}
		w.failed(semaphore.ErrNoLimit)
		behind.failed(semaphore.ErrNoLimit)
		synctest.Wait()
		if l := a.list(); l.Limit != 0 || len(l.Contenders) != 1 || l.Free() != 0 {
			t.Errorf("listing %+v", l)
		}
		_, err := b.withLimit(semaphore.Stored).Acquire(a.Context(), 1)
		wantErr(t, err, semaphore.ErrNoLimit)
		one := b.acquire(1)
		if n, err := a.s.Limit(a.Context()); n != 3 || err != nil {
			t.Errorf("Limit = %d, %v", n, err)
		}
		a.svc.RemoveRecord(queue)
		// It reads the record again instead of using the one that it knows.
		_, err = b.s.TryAcquire(a.Context(), 1)
		wantErr(t, err, coordinator.ErrTaken)
		a.release(held)
		b.release(one)
		a.empty()
	})
}
