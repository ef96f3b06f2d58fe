package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/multilock/quorum"
)

// TestQuorumUnderFaults: random callers lock while links, requests and services
// fail. A judge reads the queues of the services: each live hold has the first
// entry at need of them, by its tokens, and no two holds live. Calls end in
// time. A resource that compares the tokens admits each live hold, and none
// after a later one. After the faults all callers get the lock, and nothing
// stays. BATON_SEEDS sets the number of worlds, BATON_SIM_BASE the first.
func TestQuorumUnderFaults(t *testing.T) {
	seeds, base := number("BATON_SEEDS", 25), number("BATON_SIM_BASE", 0)
	var total judge
	for seed := base; seed < base+seeds && !t.Failed(); seed++ {
		within(t, 3+2*int(seed%2), func(w *world) {
			j := &judge{world: w, live: make(map[*quorum.Lock]party)}
			j.simulate(rand.New(rand.NewPCG(seed, 3)))
			if j.wrong != "" {
				t.Errorf("seed %d: %s", seed, j.wrong)
			}
			total.granted.Add(j.granted.Load())
			total.lost.Add(j.lost.Load())
			total.partial.Add(j.partial.Load())
		})
	}
	t.Logf("%d worlds, %d grants, of which %d without all members, %d holds lost",
		seeds, total.granted.Load(), total.partial.Load(), total.lost.Load())
	if n := int64(seeds); seeds >= 50 && (total.granted.Load() < 5*n || total.lost.Load() < n/10 || total.partial.Load() < n) {
		t.Error("too few of them")
	}
}

func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// party is a caller, and how many members it needs.
type party struct {
	*caller
	need int
}

// judge checks live holds against the services.
type judge struct {
	*world
	mu    sync.Mutex
	live  map[*quorum.Lock]party
	wrong string

	gate  *fence.QuorumGate // of a resource
	shown [][]fence.Sequencer

	granted, lost, partial atomic.Int64
}

func (j *judge) fail(what string, took time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wrong == "" {
		j.wrong = what + " " + took.String()
	}
}

// check reads the services first: a hold that lives afterwards lived then.
func (j *judge) check() {
	first := make([]int64, len(j.services))
	for i, svc := range j.services {
		if entries := svc.Snapshot(nightly); len(entries) > 0 {
			first[i] = int64(entries[0].Token)
		}
	}
	j.mu.Lock()
	holds := maps.Clone(j.live)
	j.mu.Unlock()
	living := 0
	for l, p := range holds {
		by := l.Deadline()
		if l.Err() != nil || l.Context().Err() != nil {
			continue
		}
		living++
		has := 0
		for i, token := range j.tokens(l) {
			if token > 0 && int64(token) == first[i] {
				has++
			}
		}
		switch {
		case has < p.need:
			j.fail("a hold lives with too few members", time.Duration(has))
		case !time.Now().Before(by):
			j.fail("a hold lives after its deadline, by", time.Since(by))
		}
	}
	if living > 1 {
		j.fail("several holds live", time.Duration(living))
	}
}

// access shows the tokens of a hold to the resource. It admits them if the hold
// lives, and then refuses those of earlier holds.
func (j *judge) access(l *quorum.Lock) {
	own := l.Sequencers()
	if err := j.gate.Check(j.Context(), own); err != nil {
		if l.Err() == nil {
			j.fail("the resource refuses a hold that lives: "+err.Error(), 0)
		}
		return
	}
	j.mu.Lock()
	earlier := j.shown
	j.shown = append(earlier, own)
	j.mu.Unlock()
	for _, s := range earlier[max(0, len(earlier)-3):] {
		if err := j.gate.Check(j.Context(), s); !errors.Is(err, fence.ErrStale) {
			j.fail(fmt.Sprintf("the resource admits %v after %v: %v", s, own, err), 0)
		}
	}
}

func (j *judge) simulate(r *rand.Rand) {
	var mu sync.Mutex // of r
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	n := len(j.services)
	j.gate, _ = fence.NewQuorumGate(fence.Scope{}, n)
	need := n/2 + 1 + roll(2)
	rate := 5 + roll(100)
	var crew []party
	for range 2 + roll(4) {
		j.ttl = time.Duration(1+roll(4)) * time.Second
		p := party{j.caller(need), need}
		p.reorder(need, rand.New(rand.NewPCG(uint64(roll(1<<30)), 0)).Perm(n))
		for _, link := range p.links {
			link.Delay(time.Duration(roll(4))*time.Millisecond, time.Duration(roll(4))*time.Millisecond)
		}
		crew = append(crew, p)
	}
	for _, svc := range j.services {
		svc.OnRequest(func(memory.Request) memory.Fate { return fate(roll, rate) })
	}
	faults, heal := context.WithCancel(j.Context())
	var calls, others sync.WaitGroup
	others.Go(func() { j.disturb(faults, crew, roll) })
	others.Go(func() {
		for faults.Err() == nil {
			time.Sleep(time.Duration(1+roll(50)) * time.Millisecond)
			j.check()
		}
	})
	for _, p := range crew {
		calls.Go(func() {
			for range 10 {
				j.use(p, roll)
			}
		})
	}
	calls.Wait()
	heal()
	others.Wait()
	for _, svc := range j.services {
		svc.OnRequest(nil)
		svc.Start()
	}
	for _, p := range crew {
		p.heal()
		for _, link := range p.links {
			link.Deliver()
		}
	}
	time.Sleep(time.Minute) // whatever is under way arrives, and dead sessions end
	j.empty()
	for _, p := range crew {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(j.Context(), time.Minute)
			defer cancel()
			if err := p.Do(ctx, func(context.Context, *quorum.Lock) error { j.check(); return nil }); err != nil {
				j.fail("after the faults: "+err.Error(), 0)
			}
		})
	}
	calls.Wait()
	j.empty()
}

// use locks once, with a short deadline, and works for a while.
func (j *judge) use(p party, roll func(int) int) {
	deadline := time.Duration(20<<roll(10)) * time.Millisecond
	ctx, cancel := context.WithTimeout(p.Context(), deadline)
	defer cancel()
	began, lock := time.Now(), p.Lock
	if roll(4) == 0 {
		lock = p.TryLock
	}
	l, err := lock(ctx)
	if took := time.Since(began); took > deadline+2*time.Second {
		j.fail("a call took "+took.String()+", not", deadline)
	}
	if err != nil {
		return
	}
	j.granted.Add(1)
	j.mu.Lock()
	j.live[l] = p
	j.mu.Unlock()
	for _, token := range j.tokens(l) {
		if token == 0 {
			j.partial.Add(1)
			break
		}
	}
	j.check()
	j.access(l)
	select {
	case <-l.Context().Done():
	case <-time.After(time.Duration(1<<roll(15)) * time.Millisecond):
	}
	j.check()
	if l.Err() != nil {
		j.lost.Add(1)
	}
	if roll(5) == 0 {
		time.Sleep(time.Duration(1<<roll(15)) * time.Millisecond) // with what is left
	}
	began = time.Now()
	_ = l.Unlock(p.Context())
	if took := time.Since(began); took > 2*time.Second {
		j.fail("an Unlock took", took)
	}
	j.mu.Lock()
	delete(j.live, l)
	j.mu.Unlock()
}

func fate(roll func(int) int, rate int) memory.Fate {
	if roll(rate) > 0 {
		return memory.Fate{}
	}
	late := time.Duration(1<<roll(14)) * time.Millisecond
	return []memory.Fate{
		{DropReply: true}, {DropRequest: true}, {DelayReply: late}, {DelayRequest: late},
		{Err: errors.New("refused")}, {DropReply: true, DelayRequest: late},
	}[roll(6)]
}

// disturb causes faults of links and services. Nobody removes entries, ends
// sessions or data: then the holder is notified afterwards.
func (j *judge) disturb(ctx context.Context, crew []party, roll func(int) int) {
	for ctx.Err() == nil {
		p := crew[roll(len(crew))]
		away := 1 + roll(len(p.links))
		for _, i := range rand.New(rand.NewPCG(uint64(roll(1<<30)), 0)).Perm(len(p.links))[:away] {
			switch link := p.links[i]; roll(7) {
			case 0, 1:
				link.Cut()
			case 2:
				link.HoldReplies()
			case 3:
				link.HoldRequests()
			case 4:
				link.Strand()
			case 5:
				link.Reset()
			case 6:
				j.services[i].Stop()
			}
		}
		time.Sleep(time.Duration(1<<roll(14)) * time.Millisecond)
		for i, link := range p.links {
			if roll(3) > 0 {
				link.Deliver()
				link.Heal()
				j.services[i].Start()
			}
		}
	}
}
