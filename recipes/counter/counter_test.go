package counter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/counter"
)

const coordinatorTTL = 10 * time.Second

func TestCallsOfTwoClientsSeeEachOther(t *testing.T) {
	inWorld(t, func(w world) {
		a, b := w.join(), w.join()
		a.is(0)
		if n := a.add(5); n != 5 {
			w.Errorf("got %d", n)
		}
		if n := b.add(-7); n != -2 {
			w.Errorf("got %d", n)
		}
		a.is(-2)
		if err := a.CompareAndSet(w.Context(), -2, 40); err != nil {
			w.Error(err)
		}
		err := b.CompareAndSet(w.Context(), -2, 1)
		var other *counter.OtherValueError
		if !errors.As(err, &other) || other.Value != 40 || other.Expected != -2 ||
			!errors.Is(err, coordinator.ErrStale) || coordinator.MayHaveApplied(err) {
			w.Errorf("got %v", err)
		}
		if err := b.Set(w.Context(), 7); err != nil {
			w.Error(err)
		}
		a.is(7)
	})
}

// TestRequestsAreCounted: what each call costs without contention. A call that
// writes nothing reads once more, since its answer must not rest on a server
// that is behind.
func TestRequestsAreCounted(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		a.add(1)
		ctx := w.Context()
		for name, c := range map[string]struct {
			call         func() error
			reads, write int
		}{
			"add":                        {func() error { a.add(1); return nil }, 1, 1},
			"get":                        {func() error { a.is(2); return nil }, 1, 1},
			"add nothing":                {func() error { a.add(0); return nil }, 2, 1},
			"compare with another value": {func() error { return a.CompareAndSet(ctx, 1, 9) }, 2, 1},
		} {
			if err := a.Set(ctx, 2); err != nil {
				w.Error(err)
			}
			before := w.svc.Stats()
			_ = c.call()
			s := w.svc.Stats().Since(before)
			if s.Requests[memory.OpRecord] != c.reads || s.Requests[memory.OpSetRecord] != c.write ||
				s.Total() != c.reads+c.write {
				w.Errorf("%s: %v", name, s.Requests)
			}
		}
	})
}

func TestOverflowIsAnErrorAndWritesNothing(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		for _, c := range []struct{ value, delta int64 }{
			{math.MaxInt64, 1}, {1, math.MaxInt64}, {math.MinInt64, -1}, {-1, math.MinInt64},
		} {
			if err := a.Set(w.Context(), c.value); err != nil {
				w.Fatal(err)
			}
			_, err := a.Add(w.Context(), c.delta)
			if !errors.Is(err, counter.ErrOverflow) || coordinator.MayHaveApplied(err) ||
				!strings.Contains(err.Error(), fmt.Sprint(c.value)) {
				w.Errorf("%d%+d: %v", c.value, c.delta, err)
			}
			a.is(c.value)
		}
		a.add(math.MaxInt64)
		a.is(math.MaxInt64 - 1)
	})
}

// TestForeignValues: a number written by hand is the value. Anything else is an
// error that names it, until Set.
func TestForeignValues(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		a.add(1)
		for _, text := range []string{"41", " 41\n", `{"value":41}`} {
			w.write(text)
			a.is(41)
			if n := a.add(1); n != 42 {
				w.Errorf("after %q: %d", text, n)
			}
		}
		for _, text := range []string{"many", "1.5", `{"limit":4}`, "9223372036854775808", "null", `{"value":1e30,"writes":3}`} {
			w.write(text)
			_, got := a.Get(w.Context())
			_, added := a.Add(w.Context(), 1)
			set := a.CompareAndSet(w.Context(), 0, 1)
			for _, err := range []error{got, added, set} {
				if !errors.Is(err, coordinator.ErrRefused) || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
					w.Errorf("%s: %v", text, err)
				}
			}
			if string(w.svc.Record(queue).Value) != text {
				w.Errorf("%s was overwritten", text)
			}
			if err := a.Set(w.Context(), 0); err != nil {
				w.Error(err)
			}
			a.is(0)
		}
	})
}

func TestInvalidArgumentsAreRefused(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		_, noClient := counter.New(nil, "n")
		_, noName := counter.New(a.client, "")
		_, small := counter.NewIDs(a.client, "n", 0)
		_, large := counter.NewIDs(a.client, "n", counter.MaxBlock+1)
		for _, err := range []error{noClient, noName, small, large} {
			if !errors.Is(err, coordinator.ErrInvalid) {
				w.Errorf("got %v", err)
			}
		}
		if !strings.Contains(large.Error(), "4294967297") || !strings.Contains(small.Error(), `blocks of 0 numbers for "n"`) {
			w.Errorf("got %v, %v", small, large)
		}
	})
}

// TestRefusedWriteIsAnError: permissions, say. Nothing may have been applied.
func TestRefusedWriteIsAnError(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		a.add(3)
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpSetRecord {
				return memory.Fate{Err: driver.ErrRefused}
			}
			return memory.Fate{}
		})
		if _, err := a.Add(w.Context(), 1); !errors.Is(err, coordinator.ErrRefused) || coordinator.MayHaveApplied(err) {
			w.Errorf("got %v", err)
		}
		a.is(3) // a client that may only read can read
	})
}

// TestRecordWithoutMoreVersions: ZooKeeper has 2^31 of them.
func TestRecordWithoutMoreVersions(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		a.add(3)
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpSetRecord {
				return memory.Fate{Err: driver.ErrStale}
			}
			return memory.Fate{}
		})
		_, err := a.Add(w.Context(), 1)
		if !errors.Is(err, coordinator.ErrRefused) || coordinator.MayHaveApplied(err) ||
			!strings.Contains(err.Error(), "another name") {
			w.Errorf("got %v", err)
		}
	})
}

// TestCallsEndWithTheirContext, with its cause, in each wait of a call.
func TestCallsEndWithTheirContext(t *testing.T) {
	cause := errors.New("the caller has gone")
	calls := map[string]func(party, context.Context) error{
		"add": func(p party, ctx context.Context) error { _, err := p.Add(ctx, 1); return err },
		"get": func(p party, ctx context.Context) error { _, err := p.Get(ctx); return err },
		"set": func(p party, ctx context.Context) error { return p.Set(ctx, 1) },
		"observe": func(p party, ctx context.Context) (err error) {
			for _, err = range p.Observe(ctx) {
			}
			return err
		},
	}
	for name, call := range calls {
		inWorld(t, func(w world) {
			a := w.join()
			a.add(1)
			for _, ctx := range []context.Context{ended(w, cause), later(w, cause)} {
				a.link.Cut()
				began := time.Now()
				err := call(a, ctx)
				if !errors.Is(err, cause) || time.Since(began) > time.Second {
					w.Errorf("%s: %v after %v", name, err, time.Since(began))
				}
				a.link.Heal()
				synctest.Wait()
			}
			// also while another goroutine of the same counter writes
			a.link.Cut()
			other := make(chan struct{})
			go func() {
				defer close(other)
				_, _ = a.Add(later(w, cause), 1)
			}()
			synctest.Wait()
			if err := call(a, ended(w, cause)); !errors.Is(err, cause) {
				w.Errorf("%s: %v", name, err)
			}
			<-other
		})
	}
}

func ended(w world, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(w.Context())
	cancel(cause)
	return ctx
}

func later(w world, cause error) context.Context {
	ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second, cause)
	w.Cleanup(cancel)
	return ctx
}

// TestLostReplies loses the reply to each write of a, or the write itself,
// while other clients write before a asks again.
func TestLostReplies(t *testing.T) {
	for _, lost := range []memory.Fate{{DropReply: true}, {DropRequest: true}} {
		for others := range 3 {
			inWorld(t, func(w world) {
				a, b := w.join(), w.join()
				b.add(100)
				faults := 0
				w.svc.OnRequest(func(r memory.Request) memory.Fate {
					if r.Driver == a.link && r.Op == memory.OpSetRecord && faults < 2 {
						faults++
						return lost
					}
					return memory.Fate{}
				})
				done := make(chan int64)
				go func() { done <- a.add(1) }()
				synctest.Wait() // a pauses before it asks again
				for range others {
					b.add(10)
				}
				n := <-done
				if faults != 2 && !(lost.DropReply && others > 0) {
					w.Errorf("%d faults", faults)
				}
				if want := int64(101); lost.DropReply && n != want {
					w.Errorf("a got %d, want %d", n, want)
				}
				a.is(int64(101 + 10*others))
			})
		}
	}
}

// TestWriteThatArrivesLateIsNotAppliedTwice: the first attempt is on its way
// when the session ends; a sends it again in another session.
func TestWriteThatArrivesLateIsNotAppliedTwice(t *testing.T) {
	inWorld(t, func(w world) {
		a, b := w.join(), w.join()
		a.add(1)
		first := true
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Driver == a.link && r.Op == memory.OpSetRecord && first {
				first = false
				a.link.HoldRequests()
			}
			return memory.Fate{}
		})
		done := make(chan int64)
		go func() { done <- a.add(1) }()
		synctest.Wait()
		a.link.Strand()
		if n := <-done; n != 2 {
			w.Errorf("got %d", n)
		}
		b.add(1)
		a.link.Deliver()
		synctest.Wait()
		a.is(3)
	})
}

// TestOutcomeThatIsNotKnownIsReported: 32 other writers write after the write
// whose reply was lost.
func TestOutcomeThatIsNotKnownIsReported(t *testing.T) {
	for others, known := range map[int]bool{31: true, 32: false} {
		inWorld(t, func(w world) {
			a := w.join()
			a.add(1)
			w.svc.OnRequest(memory.Once(memory.OpSetRecord, memory.Fate{DropReply: true}))
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, err = a.Add(w.Context(), 1)
			}()
			synctest.Wait()
			for range others {
				w.join().add(1)
			}
			<-done
			if known && err != nil {
				w.Errorf("after %d writers: %v", others, err)
			}
			if !known && (!coordinator.MayHaveApplied(err) || !errors.Is(err, coordinator.ErrUnavailable)) {
				w.Errorf("after %d writers: %v", others, err)
			}
			a.is(int64(2 + others))
			a.add(1) // with another identity
			a.is(int64(3 + others))
		})
	}
}

// TestLateWriteIsNotTakenForALaterOne: a gives up a write that is under way,
// and its next write over the same record is lost.
func TestLateWriteIsNotTakenForALaterOne(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		a.add(1)
		writes := 0
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op != memory.OpSetRecord {
				return memory.Fate{}
			}
			switch writes++; writes {
			case 1: // arrives while the second write is repeated
				return memory.Fate{DelayRequest: time.Second + 10*time.Millisecond}
			case 2:
				return memory.Fate{DropRequest: true}
			}
			return memory.Fate{}
		})
		if _, err := a.Add(later(w, errors.New("gone")), 10); !coordinator.MayHaveApplied(err) {
			w.Errorf("got %v", err)
		}
		if n := a.add(100); n != 111 {
			w.Errorf("got %d", n)
		}
		a.is(111)
	})
}

// TestEarlierWriteIsNotTakenForALaterOne: after the loss of its session a reads
// a record that is older than its own latest write, and its next write is lost.
func TestEarlierWriteIsNotTakenForALaterOne(t *testing.T) {
	inWorld(t, func(w world) {
		history := remember(w.svc, func(int) int { return 0 }) // as old as allowed
		a := w.joinBy(func(link *memory.Driver) driver.Driver { return lag{link, history} })
		b := w.join()
		a.add(1)
		b.add(10)
		a.link.Expire()
		synctest.Wait()
		w.svc.OnRequest(memory.Once(memory.OpSetRecord, memory.Fate{DropRequest: true}))
		if n := a.add(100); n != 111 {
			w.Errorf("got %d", n)
		}
		a.is(111)
	})
}

// TestErrorSaysWhetherTheWriteMayHaveBeenApplied: ctx ends before the record is
// read, while the write is under way, and before a write that was lost is
// repeated.
func TestErrorSaysWhetherTheWriteMayHaveBeenApplied(t *testing.T) {
	for _, c := range []struct {
		op    memory.Op
		fate  memory.Fate
		maybe bool
	}{
		{memory.OpRecord, memory.Fate{DelayRequest: time.Minute}, false},
		{memory.OpRecord, memory.Fate{DelayReply: time.Minute}, false},
		{memory.OpSetRecord, memory.Fate{DelayRequest: time.Minute}, true},
		{memory.OpSetRecord, memory.Fate{DelayReply: time.Minute}, true},
		{memory.OpSetRecord, memory.Fate{Err: driver.ErrUnavailable}, true},
	} {
		inWorld(t, func(w world) {
			a := w.join()
			a.add(1)
			w.svc.OnRequest(func(r memory.Request) memory.Fate {
				if r.Op == c.op {
					return c.fate
				}
				return memory.Fate{}
			})
			_, err := a.Add(later(w, errors.New("gone")), 1)
			if err == nil || coordinator.MayHaveApplied(err) != c.maybe ||
				strings.Contains(err.Error(), "(may have been applied)") != c.maybe {
				w.Errorf("%s %+v: %v", c.op, c.fate, err)
			}
			w.svc.OnRequest(nil)
			time.Sleep(2 * time.Minute)
			before, err := a.Get(w.Context())
			if err != nil || before < 1 || before > 2 || before == 2 && !c.maybe {
				w.Errorf("%s %+v: %d, %v", c.op, c.fate, before, err)
			}
			a.add(1)
			a.is(before + 1)
		})
	}
}

// TestWaitForTheQueueIsNoWrite: ctx ends while a joins the queue, whose reply
// is late.
func TestWaitForTheQueueIsNoWrite(t *testing.T) {
	inWorld(t, func(w world) {
		a, b := w.join(), w.join()
		a.add(1)
		writes := 0
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			switch {
			case r.Driver == a.link && r.Op == memory.OpSetRecord:
				if writes++; writes <= 2 {
					b.add(10)
				}
			case r.Op == memory.OpJoin:
				return memory.Fate{DelayReply: 5 * time.Second}
			}
			return memory.Fate{}
		})
		cause := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(w.Context(), time.Second/2, cause)
		defer cancel()
		if _, err := a.Add(ctx, 1); !errors.Is(err, cause) || !errors.Is(err, coordinator.ErrUnavailable) ||
			coordinator.MayHaveApplied(err) {
			w.Errorf("got %v", err)
		}
		a.is(21)
		time.Sleep(time.Minute)
	})
}

// TestClosedClient: no call goes on.
func TestClosedClient(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		if err := a.client.Close(w.Context()); err != nil {
			w.Fatal(err)
		}
		_, added := a.Add(w.Context(), 1)
		_, got := a.Get(w.Context())
		for _, err := range []error{added, got, a.Set(w.Context(), 1)} {
			if !errors.Is(err, coordinator.ErrClosed) || coordinator.MayHaveApplied(err) {
				w.Errorf("got %v", err)
			}
		}
	})
}

// TestWritersSucceedInTheOrderOfTheQueue under contention, and none starves.
func TestWritersSucceedInTheOrderOfTheQueue(t *testing.T) {
	inWorld(t, func(w world) {
		const writers, each = 8, 100
		var mu sync.Mutex
		joined := 0
		var wrote []*memory.Driver
		w.svc.OnStep(func(s memory.Step) {
			mu.Lock()
			defer mu.Unlock()
			if s.Kind == memory.StepJoined && s.Queue == queue {
				joined++
			}
		})
		var wg sync.WaitGroup
		for range writers {
			p := w.join()
			p.link.Delay(time.Millisecond, time.Millisecond)
			wg.Go(func() {
				for range each {
					p.add(1)
					mu.Lock()
					wrote = append(wrote, p.link)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		s := w.svc.Stats()
		w.join().is(writers * each)
		// In the queue a write is overtaken only by writers that are not in it
		// yet, so nearly each write succeeds at once.
		if n := s.Requests[memory.OpSetRecord]; n > writers*each*5/4 {
			w.Errorf("%d writes for %d additions", n, writers*each)
		}
		if joined < writers*each/2 {
			w.Errorf("%d of %d additions went through the queue", joined, writers*each)
		}
		// Nobody writes twice while another waits: in the steady state all
		// writers succeed once before one succeeds again.
		steady := wrote[len(wrote)/2 : len(wrote)/2+3*writers]
		for i := range len(steady) - writers {
			if again := slices.Index(steady[i+1:], steady[i]); again < writers/2 {
				w.Errorf("a writer succeeded again after %d others", again)
			}
		}
	})
}

// TestStoppedWriterInTheQueueDelaysOthersBriefly: it stays in the queue for its
// TTL. The others go on without it after a second.
func TestStoppedWriterInTheQueueDelaysOthersBriefly(t *testing.T) {
	inWorld(t, func(w world) {
		a, b, c := w.join(), w.join(), w.join()
		<-overtake(a, b, a.link.Cut) // a is in the queue
		began := time.Now()
		<-overtake(c, b, func() {})
		b.add(1)
		if since := time.Since(began); since > 2*time.Second {
			w.Errorf("b and c took %v", since)
		}
		w.svc.OnRequest(nil)
		a.link.Heal()
		time.Sleep(time.Minute)
		if len(w.svc.Snapshot(queue)) > 0 {
			w.Errorf("left in the queue: %v", w.svc.Snapshot(queue))
		}
	})
}

// overtake lets b overtake a call of a until a has waited for the queue. When a
// sends its next write, it calls then and closes the channel.
func overtake(a, b party, then func()) <-chan struct{} {
	in := make(chan struct{})
	var once sync.Once
	writes := 0
	a.svc.OnRequest(func(r memory.Request) memory.Fate {
		if r.Driver == a.link && r.Op == memory.OpSetRecord {
			if writes++; writes <= 2 {
				b.add(1)
			} else {
				once.Do(func() { then(); close(in) })
			}
		}
		return memory.Fate{}
	})
	go func() { _, _ = a.Add(a.Context(), 1) }()
	return in
}

// TestObserveShowsTheLatestValue, also over lost sessions, and costs a watch.
func TestObserveShowsTheLatestValue(t *testing.T) {
	inWorld(t, func(w world) {
		a, b := w.join(), w.join()
		b.add(1)
		ctx, cancel := context.WithCancelCause(w.Context())
		var seen []int64
		var end error
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n, err := range a.Observe(ctx) {
				if end = err; err == nil {
					seen = append(seen, n)
				}
			}
		}()
		synctest.Wait()
		if s := w.svc.Stats(); s.Watches != 1 {
			w.Errorf("%d watches", s.Watches)
		}
		before := w.svc.Stats()
		b.add(1)
		synctest.Wait()
		if s := w.svc.Stats().Since(before); s.Wakeups != 1 {
			w.Errorf("%d wake-ups", s.Wakeups)
		}
		a.link.Cut()
		b.add(1)
		b.add(1)
		time.Sleep(30 * time.Second) // the session ends
		a.link.Heal()
		time.Sleep(30 * time.Second)
		w.write("7")
		synctest.Wait()
		w.svc.RemoveRecord(queue)
		synctest.Wait()
		cause := errors.New("enough")
		cancel(cause)
		<-done
		if !slices.Equal(seen, []int64{1, 2, 4, 7, 0}) || end != cause { //nolint:errorlint // unchanged
			w.Errorf("saw %v, then %v", seen, end)
		}
	})
}

// TestObserveNeverGoesBack: a new session first shows older records.
func TestObserveNeverGoesBack(t *testing.T) {
	inWorld(t, func(w world) {
		history := remember(w.svc, func(int) int { return 0 }) // as old as allowed
		a := w.joinBy(func(link *memory.Driver) driver.Driver { return lag{link, history} })
		b := w.join()
		ctx, cancel := context.WithCancel(w.Context())
		var seen []int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n, err := range a.Observe(ctx) {
				if err == nil {
					seen = append(seen, n)
				}
			}
		}()
		for range 3 {
			time.Sleep(time.Second) // it pauses after a lost session
			b.add(1)
			synctest.Wait()
			a.link.Expire()
		}
		time.Sleep(time.Second)
		cancel()
		<-done
		if !slices.Equal(seen, []int64{0, 1, 2, 3}) {
			w.Errorf("saw %v", seen)
		}
	})
}

// TestObserveDoesNotShowADeletedRecordAgain: a new session first shows the
// record that an operator has deleted.
func TestObserveDoesNotShowADeletedRecordAgain(t *testing.T) {
	inWorld(t, func(w world) {
		history := remember(w.svc, func(n int) int { return max(0, n-2) }) // the last but one
		a := w.joinBy(func(link *memory.Driver) driver.Driver { return lag{link, history} })
		b := w.join()
		b.add(7)
		ctx, cancel := context.WithCancel(w.Context())
		var seen []int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n, err := range a.Observe(ctx) {
				if err == nil {
					seen = append(seen, n)
				}
			}
		}()
		synctest.Wait()
		w.svc.RemoveRecord(queue)
		synctest.Wait()
		a.link.Expire()
		synctest.Wait()
		cancel()
		<-done
		if !slices.Equal(seen, []int64{7, 0}) {
			w.Errorf("saw %v", seen)
		}
	})
}

func TestObserveEndsWithAValueThatIsNoNumber(t *testing.T) {
	inWorld(t, func(w world) {
		a := w.join()
		var seen []string
		for n, err := range a.Observe(w.Context()) {
			seen = append(seen, fmt.Sprint(n, errors.Is(err, coordinator.ErrRefused)))
			if len(seen) == 1 {
				w.write("many")
			}
		}
		if !slices.Equal(seen, []string{"0 false", "0 true"}) {
			w.Errorf("saw %v", seen)
		}
	})
}

// TestIDsAreUnique over clients, sizes and goroutines; a block costs two
// requests.
func TestIDsAreUnique(t *testing.T) {
	inWorld(t, func(w world) {
		var mu sync.Mutex
		seen := make(map[int64]bool)
		var wg sync.WaitGroup
		for _, size := range []int64{1, 7, 100} {
			p := w.join()
			ids, err := counter.NewIDs(p.client, "n", size)
			if err != nil {
				w.Fatal(err)
			}
			for range 4 {
				wg.Go(func() {
					last := int64(0)
					for range 50 {
						id, err := ids.Next(w.Context())
						if err != nil || id <= last {
							w.Errorf("%d after %d: %v", id, last, err)
						}
						last = id
						mu.Lock()
						if seen[id] {
							w.Errorf("%d twice", id)
						}
						seen[id] = true
						mu.Unlock()
					}
				})
			}
		}
		wg.Wait()
		p := w.join()
		p.is(0) // IDs are not the counter of the same name
		before := w.svc.Stats()
		ids, err := counter.NewIDs(p.client, "other", 100)
		if err != nil {
			w.Fatal(err)
		}
		for i := range int64(200) {
			if id, err := ids.Next(w.Context()); err != nil || id != i+1 {
				w.Errorf("got %d, %v; want %d", id, err, i+1)
			}
		}
		if s := w.svc.Stats().Since(before); s.Total() != 4 {
			w.Errorf("requests %v", s.Requests)
		}
	})
}

// TestBlockWithoutAReplyIsNeverUsed: the caller gets an error, and the next
// call another block.
func TestBlockWithoutAReplyIsNeverUsed(t *testing.T) {
	inWorld(t, func(w world) {
		p := w.join()
		ids, err := counter.NewIDs(p.client, "n", 10)
		if err != nil {
			w.Fatal(err)
		}
		w.svc.OnRequest(memory.Once(memory.OpSetRecord, memory.Fate{DelayReply: time.Minute}))
		if _, err := ids.Next(later(w, errors.New("gone"))); !coordinator.MayHaveApplied(err) {
			w.Errorf("got %v", err)
		}
		if id, err := ids.Next(w.Context()); err != nil || id != 11 {
			w.Errorf("got %d, %v", id, err)
		}
	})
}

// TestLastIDIsNotFollowedByANegativeOne: an operator has set the number to the
// end of its range.
func TestLastIDIsNotFollowedByANegativeOne(t *testing.T) {
	inWorld(t, func(w world) {
		p := w.join()
		ids, err := counter.NewIDs(p.client, "n", 2)
		if err != nil {
			w.Fatal(err)
		}
		w.writeTo("ids/n", fmt.Sprint(int64(math.MaxInt64-2)))
		for _, want := range []int64{math.MaxInt64 - 1, math.MaxInt64} {
			if id, err := ids.Next(w.Context()); err != nil || id != want {
				w.Errorf("got %d, %v; want %d", id, err, want)
			}
		}
		for range 2 {
			if id, err := ids.Next(w.Context()); !errors.Is(err, counter.ErrOverflow) {
				w.Errorf("got %d, %v", id, err)
			}
		}
	})
}
