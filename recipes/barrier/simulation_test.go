package barrier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// TestCallsAgreeWithTheHistoryOfTheRecord under random faults of the network,
// the sessions and the service, with servers that are behind: the barrier was
// closed at a moment of each Set that succeeds, and open at one of each Remove
// and Wait. After the faults a Remove lets all waiters pass. BATON_SEEDS sets
// the number of worlds, BATON_SIM_BASE the first.
func TestCallsAgreeWithTheHistoryOfTheRecord(t *testing.T) {
	seeds, base := number("BATON_SEEDS", 60), number("BATON_SIM_BASE", 0)
	var done atomic.Int64
	for seed := base; seed < base+seeds && !t.Failed(); seed++ {
		inWorld(t, func(w world) {
			n, wrong := simulate(w, seed)
			if done.Add(n); wrong != "" {
				w.Errorf("seed %d: %s", seed, wrong)
			}
		})
	}
	t.Logf("%d worlds, %d calls that succeeded", seeds, done.Load())
	if done.Load() < 10*int64(seeds) {
		t.Error("too few calls")
	}
}

func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// simulate returns how many calls succeeded, and which was wrong.
func simulate(w world, seed uint64) (done int64, wrong string) {
	r := rand.New(rand.NewPCG(seed, 3))
	var mu sync.Mutex // of r and the results
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	h := w.remember(roll)
	var all []party
	for range 2 + roll(4) {
		p := w.joinBehind(h)
		p.link.Delay(time.Duration(roll(3))*time.Millisecond, time.Duration(roll(3))*time.Millisecond)
		all = append(all, p)
	}
	rate := 5 + roll(100)
	w.svc.OnRequest(func(memory.Request) memory.Fate { return fate(roll, rate) })
	faults, heal := context.WithCancel(w.Context())
	var wg, faulty sync.WaitGroup
	faulty.Go(func() { disturb(faults, w, all, roll) })
	for _, p := range all {
		wg.Go(func() {
			for range 12 {
				bad, err := p.call(h, roll(3), time.Duration(50<<roll(9))*time.Millisecond)
				mu.Lock()
				if err == nil {
					done++
				}
				if bad != "" {
					wrong = bad
				}
				mu.Unlock()
				time.Sleep(time.Duration(roll(400)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	heal()
	faulty.Wait()
	w.svc.OnRequest(nil)
	w.svc.Start()
	for _, p := range all {
		p.link.Heal()
		p.link.Deliver()
	}
	time.Sleep(time.Minute) // whatever is under way arrives
	all[0].set()
	var waits []<-chan error
	for _, p := range all {
		waits = append(waits, p.waits(w.Context()))
	}
	time.Sleep(time.Second)
	w.blocked(waits...)
	all[0].remove()
	time.Sleep(time.Second)
	w.open(waits...)
	return done, wrong
}

// call calls Set, Remove or Wait, and compares it with the states of the record
// meanwhile.
func (p party) call(h *history, which int, patience time.Duration) (wrong string, err error) {
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	before, began := h.since(0), time.Now()
	err = []func(context.Context) error{p.Set, p.Remove, p.Wait}[which](ctx)
	if took := time.Since(began); took > patience+2*time.Second {
		return fmt.Sprintf("call %d took %v, not %v", which, took, patience), err
	}
	if err != nil {
		return "", err
	}
	for _, r := range h.since(before[len(before)-1].Version) {
		var s struct{ Set bool }
		if r.Version > 0 && json.Unmarshal(r.Value, &s) != nil {
			return fmt.Sprintf("a record %q", r.Value), nil
		}
		if s.Set == (which == 0) {
			return "", nil
		}
	}
	return fmt.Sprintf("call %d succeeded without the state that it wants", which), nil
}

func fate(roll func(int) int, rate int) memory.Fate {
	if roll(rate) > 0 {
		return memory.Fate{}
	}
	late := time.Duration(1<<roll(14)) * time.Millisecond
	return []memory.Fate{
		{DropReply: true}, {DropRequest: true}, {DelayReply: late}, {DelayRequest: late},
		{Err: errors.New("refused")}, {Err: driver.ErrUnavailable}, {DropReply: true, DelayRequest: late},
	}[roll(7)]
}

// disturb causes faults of links, sessions and the service until ctx ends.
func disturb(ctx context.Context, w world, all []party, roll func(int) int) {
	for ctx.Err() == nil {
		link := all[roll(len(all))].link
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
