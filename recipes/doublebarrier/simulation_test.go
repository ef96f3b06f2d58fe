package doublebarrier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
)

// story is what members did, by the moments of one clock.
type story struct {
	mu      sync.Mutex
	begun   map[coordinator.Token]int // Enter was called before
	leaving map[coordinator.Token]int // Leave was called
	rounds  map[int64]int             // Leaves without an error
	lost    int
	wrong   string
}

func (s *story) fail(format string, args ...any) {
	if s.wrong == "" {
		s.wrong = fmt.Sprintf(format, args...)
	}
}

// entered checks that all members of the round have called Enter: their entries
// are in the record.
func (s *story) entered(m *Member, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(m.round.Members) != n {
		s.fail("round %d has %d members", m.round.Round, len(m.round.Members))
	}
	seen := make(map[coordinator.Token]bool)
	for _, o := range m.round.Members {
		if seen[o.Token] {
			s.fail("token %d twice in round %d", o.Token, m.round.Round)
		}
		seen[o.Token] = true
	}
	if r, ok := s.begun[m.hold.Token()]; ok {
		s.fail("a member entered twice: %d", r)
	}
	s.begun[m.hold.Token()] = int(m.round.Round)
}

func (s *story) leaves(m *Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving[m.hold.Token()] = int(m.round.Round)
}

// left checks that all members had called Leave, if there is no error.
func (s *story) left(m *Member, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.lost++
		return
	}
	s.rounds[m.round.Round]++
	for _, o := range m.round.Members {
		if _, called := s.leaving[o.Token]; !called {
			s.fail("round %d: left, but member %d had not called Leave", m.round.Round, o.Token)
		}
	}
}

// TestRoundsUnderFaults: random clients enter and leave while networks,
// sessions and the service fail. No member leaves without an error before all
// have called Leave, nothing hangs, and after the faults a round succeeds.
// BATON_SEEDS sets the number of worlds, BATON_SIM_BASE the first.
func TestRoundsUnderFaults(t *testing.T) {
	seeds, base := number("BATON_SEEDS", 60), number("BATON_SIM_BASE", 0)
	var good, bad atomic.Int64
	for seed := base; seed < base+seeds && !t.Failed(); seed++ {
		inWorld(t, func(w world) {
			s := simulate(w, seed)
			if s.wrong != "" {
				w.Errorf("seed %d: %s", seed, s.wrong)
			}
			good.Add(int64(len(s.rounds)))
			bad.Add(int64(s.lost))
		}, memory.WithStaleViews(seed), memory.WithFewHints(seed))
	}
	t.Logf("%d worlds, %d rounds without a loss, %d Leaves with one", seeds, good.Load(), bad.Load())
	if good.Load() < int64(seeds) {
		t.Error("too few rounds")
	}
}

func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

func simulate(w world, seed uint64) *story {
	r := rand.New(rand.NewPCG(seed, 2))
	var mu sync.Mutex // of r
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	s := &story{begun: map[coordinator.Token]int{}, leaving: map[coordinator.Token]int{}, rounds: map[int64]int{}}
	n := 1 + roll(4)
	crew := w.crew(n)
	for range roll(3) {
		crew = append(crew, w.join(n))
	}
	rate := 5 + roll(100)
	w.svc.OnRequest(func(memory.Request) memory.Fate { return fate(roll, rate) })
	faults, heal := context.WithCancel(w.Context())
	var wg, faulty sync.WaitGroup
	faulty.Go(func() { disturb(faults, w, crew, roll) })
	for _, p := range crew {
		p.link.Delay(time.Duration(roll(3))*time.Millisecond, time.Duration(roll(3))*time.Millisecond)
		wg.Go(func() {
			for range 12 {
				p.round(s, roll, time.Duration(50<<roll(10))*time.Millisecond)
			}
		})
	}
	wg.Wait()
	heal()
	faulty.Wait()
	w.svc.OnRequest(nil)
	w.svc.Start()
	for _, p := range crew {
		p.link.Heal()
		p.link.Deliver()
	}
	time.Sleep(time.Minute) // whatever is under way arrives, and dead sessions end
	w.empty()
	for _, p := range crew[:n] {
		wg.Go(func() {
			if err := p.round(s, roll, time.Minute); err != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.fail("after the faults: %v", err)
			}
		})
	}
	wg.Wait()
	return s
}

// round enters and leaves once, within twice the patience.
func (p party) round(s *story, roll func(int) int, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	began := time.Now()
	m, err := p.Enter(ctx)
	s.bounded(began, patience)
	if err != nil {
		return err
	}
	s.entered(m, p.n)
	time.Sleep(time.Duration(roll(500)) * time.Millisecond)
	ctx, cancel = context.WithTimeout(p.Context(), patience)
	defer cancel()
	s.leaves(m)
	began = time.Now()
	err = m.Leave(ctx)
	s.bounded(began, patience)
	s.left(m, err)
	return err
}

func (s *story) bounded(began time.Time, patience time.Duration) {
	if took := time.Since(began); took > patience+2*time.Second {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fail("a call took %v, not %v", took, patience)
	}
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

// disturb causes faults of links, sessions, entries and the service.
func disturb(ctx context.Context, w world, crew []party, roll func(int) int) {
	for ctx.Err() == nil {
		link := crew[roll(len(crew))].link
		switch roll(9) {
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
		case 8:
			if all := w.svc.Snapshot(queue); len(all) > 0 {
				w.svc.Remove(queue, all[roll(len(all))].Key)
			}
		}
		time.Sleep(time.Duration(roll(1000)) * time.Millisecond)
		w.svc.Start()
		if roll(3) > 0 {
			link.Heal()
		}
	}
}
