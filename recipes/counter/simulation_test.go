package counter_test

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/counter"
)

// call is a call of a simulated client. Each adds a bit of its own to the
// value, so the value shows which calls were applied: a bit that was added
// twice is missing, and its carry is in the place of another.
type call struct {
	bit         uint // of the value; reads have none
	begin, end  int64
	value       int64 // that it returned
	done, maybe bool
}

// TestCallsAreLinearizable under random faults of the network, the sessions and
// the service. BATON_SEEDS sets the number of worlds, BATON_SIM_BASE the first.
func TestCallsAreLinearizable(t *testing.T) {
	seeds, base := number("BATON_SEEDS", 60), number("BATON_SIM_BASE", 0)
	var total, maybe atomic.Int64
	for seed := range seeds {
		inWorld(t, func(w world) {
			calls, last := simulate(w, base+seed)
			if broken := check(calls, last); broken != "" {
				w.Fatalf("seed %d: %s", base+seed, broken)
			}
			for _, c := range calls {
				total.Add(1)
				if c.maybe {
					maybe.Add(1)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d worlds, %d calls, %d of unknown outcome", seeds, total.Load(), maybe.Load())
}

func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// simulate returns all calls, and the value after all faults.
func simulate(w world, seed uint64) ([]call, int64) {
	r := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex // of r and calls
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	history := remember(w.svc, roll)
	clients := make([]party, 2+roll(4))
	for i := range clients {
		clients[i] = w.joinBy(func(link *memory.Driver) driver.Driver { return lag{link, history} })
		clients[i].link.Delay(time.Duration(roll(3))*time.Millisecond, time.Duration(roll(3))*time.Millisecond)
	}
	rate := 5 + roll(100)
	w.svc.OnRequest(func(memory.Request) memory.Fate { return fate(roll, rate) })
	faults, heal := context.WithCancel(w.Context())
	var wg, faulty sync.WaitGroup
	faulty.Go(func() { disturb(faults, w, clients, roll) })
	var calls []call
	var clock atomic.Int64
	var bit atomic.Int32
	for _, p := range clients {
		for range 1 + roll(3) {
			wg.Go(func() {
				for range 12 {
					c := call{bit: uint(bit.Add(1)), begin: clock.Add(1)}
					if c.bit > 62 || roll(6) == 0 {
						c.bit = 0
					}
					p.perform(&c, roll(6) == 0, time.Duration(50<<roll(9))*time.Millisecond)
					c.end = clock.Add(1)
					mu.Lock()
					calls = append(calls, c)
					mu.Unlock()
					time.Sleep(time.Duration(roll(400)) * time.Millisecond)
				}
			})
		}
	}
	wg.Wait()
	heal()
	faulty.Wait()
	w.svc.OnRequest(nil)
	w.svc.Start()
	for _, p := range clients {
		p.link.Heal()
		p.link.Deliver()
	}
	time.Sleep(time.Minute) // whatever is under way arrives
	last, err := clients[0].Get(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return calls, last
}

// perform adds the bit, by Add or CompareAndSet, or reads.
func (p party) perform(c *call, compare bool, patience time.Duration) {
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	var err error
	switch {
	case c.bit == 0:
		c.value, err = p.Get(ctx)
	case compare:
		if c.value, err = p.Get(ctx); err != nil {
			c.bit = 0
			break
		}
		before := c.value
		c.value |= 1 << (c.bit - 1)
		err = p.CompareAndSet(ctx, before, c.value)
		if other, ok := err.(*coordinator.Error); ok { //nolint:errorlint // as returned
			if o, ok := other.Err.(*counter.OtherValueError); ok { //nolint:errorlint // as returned
				c.value, c.done = o.Value, true
				if o.Value&(1<<(c.bit-1)) != 0 {
					c.value = -1 // check complains
				}
				c.bit = 0
				return
			}
		}
	default:
		c.value, err = p.Add(ctx, 1<<(c.bit-1))
	}
	c.done, c.maybe = err == nil, coordinator.MayHaveApplied(err)
}

// fate is that of one request.
func fate(roll func(int) int, rate int) memory.Fate {
	if roll(rate) > 0 {
		return memory.Fate{}
	}
	late := time.Duration(1<<roll(14)) * time.Millisecond
	return []memory.Fate{
		{DropReply: true}, {DropRequest: true}, {DelayReply: late}, {DelayRequest: late},
		{Err: driver.ErrUnavailable}, {DropReply: true, DelayRequest: late},
	}[roll(6)]
}

// disturb causes faults of links, sessions and the service until ctx ends.
func disturb(ctx context.Context, w world, clients []party, roll func(int) int) {
	for ctx.Err() == nil {
		link := clients[roll(len(clients))].link
		switch roll(8) {
		case 0:
			link.Cut()
		case 1:
			link.HoldReplies()
		case 2:
			link.HoldRequests()
		case 3:
			link.Strand()
		case 4:
			link.Deliver()
		case 5:
			link.Expire()
		case 6:
			link.Reset()
		case 7:
			w.svc.Stop()
		}
		time.Sleep(time.Duration(roll(1000)) * time.Millisecond)
		w.svc.Start()
		if roll(3) > 0 {
			link.Heal()
		}
	}
}

// check returns why the calls are not linearizable. Values only gain bits, so
// the values in the order of their effects are those in the order of the number
// of their bits, and each has the bits of those before.
func check(calls []call, last int64) string {
	var mayBe, mustBe int64
	var done []call
	for _, c := range calls {
		own := int64(1) << c.bit >> 1 // 0 for a read
		switch {
		case c.done && c.value&own != own:
			return "a call returned a value without its own bit"
		case c.done:
			mustBe |= own
			done = append(done, c)
		case c.maybe:
			mayBe |= own
		}
	}
	if last&mustBe != mustBe {
		return "a call that succeeded was not applied"
	}
	if last&^(mustBe|mayBe) != 0 {
		return "a call that failed was applied, or one was applied twice"
	}
	slices.SortFunc(done, func(a, b call) int {
		return bits.OnesCount64(uint64(a.value)) - bits.OnesCount64(uint64(b.value))
	})
	for i, c := range done {
		for _, later := range done[i+1:] {
			switch {
			case c.value&^later.value != 0:
				return "two calls did not see each other"
			case later.end < c.begin && later.value != c.value:
				return "a call did not see one that had ended before it began"
			case c.bit != 0 && later.bit != 0 && c.value == later.value:
				return "two additions returned the same value"
			}
		}
		if c.value&^last != 0 {
			return "a value was lost"
		}
	}
	return ""
}
