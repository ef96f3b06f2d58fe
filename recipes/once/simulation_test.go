package once_test

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

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/once"
)

// TestWorkRunsOncePerKeyUnderFaults of the network, the sessions, the processes
// and the service, with servers that are behind, replicas that are early and
// late, and work that fails. In each second world runs are repeated.
// BATON_SEEDS sets the number of worlds, BATON_SIM_BASE the first.
func TestWorkRunsOncePerKeyUnderFaults(t *testing.T) {
	seeds, base := number("BATON_SEEDS", 60), number("BATON_SIM_BASE", 0)
	var done totals
	for seed := base; seed < base+seeds && !t.Failed(); seed++ {
		inWorld(t, func(w world) {
			s := &simulation{world: w, repeat: seed%2 == 1, totals: &done, returned: make(map[string]time.Time)}
			if wrong := s.run(seed); wrong != "" {
				w.Errorf("seed %d: %s", seed, wrong)
			}
		})
	}
	t.Logf("%d worlds: %d calls of the work, %d repeated, %d of Do that returned nil, %d incomplete",
		seeds, done.calls.Load(), done.repeated.Load(), done.nils.Load(), done.incomplete.Load())
	if n := int64(seeds); !t.Failed() && seeds >= 60 &&
		(done.calls.Load() < 6*n || done.repeated.Load() < n/2 || done.nils.Load() < 6*n || done.incomplete.Load() < n/2) {
		t.Error("too few of some")
	}
}

func number(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

type totals struct{ calls, repeated, nils, incomplete atomic.Int64 }

// simulation is one world. mu guards what is wrong and the calls.
type simulation struct {
	world
	*totals
	repeat   bool
	roll     func(n int) int
	returned map[string]time.Time // when a Do of a key first returned nil
	wrong    string
}

const periods = 10

func keyOf(period int) string { return once.At(time.Unix(int64(period)*5, 0)) }

func (s *simulation) run(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 5))
	var mu sync.Mutex // of r
	s.roll = func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	h := s.remember(s.roll)
	opts := []once.Option{once.WithKeep(periods)}
	if s.repeat {
		opts = append(opts, once.WithRepeat())
	}
	var all []*party
	for range 2 + s.roll(4) {
		p := s.joinBy(func(link *memory.Driver) driver.Driver { return lag{link, h} }, opts...)
		p.link.Delay(s.ms(3), s.ms(3))
		all = append(all, p)
	}
	rate := 5 + s.roll(100)
	s.svc.OnRequest(func(memory.Request) memory.Fate { return fate(s.roll, rate) })
	faults, heal := context.WithCancel(s.Context())
	var wg, faulty sync.WaitGroup
	faulty.Go(func() { disturb(faults, s.world, all, s.roll) })
	for _, p := range all {
		skew := s.ms(4000)
		for period := range periods {
			wg.Go(func() {
				time.Sleep(time.Duration(period)*5*time.Second + skew + s.ms(100))
				s.call(p, keyOf(period), s.ms(50<<s.roll(10)))
			})
		}
	}
	wg.Wait()
	heal()
	faulty.Wait()
	s.svc.OnRequest(nil)
	s.svc.Start()
	for _, p := range all {
		p.link.Heal()
		p.link.Deliver()
	}
	time.Sleep(time.Minute) // whatever is under way arrives
	for period := range periods {
		key := keyOf(period)
		err := s.call(all[s.roll(len(all))], key, time.Hour)
		incomplete := isIncomplete(err)
		if err != nil && (s.repeat || !incomplete && !errors.Is(err, errWork)) {
			return fmt.Sprintf("%s after all faults: %v", key, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrong
}

func (s *simulation) ms(n int) time.Duration { return time.Duration(s.roll(n)) * time.Millisecond }

func isIncomplete(err error) bool {
	_, ok := errors.AsType[*once.IncompleteError](err)
	return ok
}

// call calls Do and judges its result by the calls of the work.
func (s *simulation) call(p *party, key string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	do := p.Do
	if s.roll(4) == 0 && patience < time.Hour {
		do = p.TryDo
	}
	began := time.Now()
	err := do(ctx, key, func(ctx context.Context, h *once.Hold) error {
		c := &call{key: key, by: p, token: h.Token(), ctx: ctx, since: began}
		s.begins(c)
		fails := error(nil)
		if s.roll(4) == 0 && patience < time.Hour {
			fails = errWork
		}
		select {
		case <-time.After(s.ms(1 << s.roll(14))):
		case <-ctx.Done():
			if fails == nil && s.roll(2) == 0 {
				fails = context.Cause(ctx)
			} else { // it does not notice its loss
				time.Sleep(s.ms(20_000))
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		c.over, c.err = true, fails
		return fails
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if took := time.Since(began); took > patience+30*time.Second {
		s.wrong = fmt.Sprintf("a call took %v, not %v", took, patience)
	}
	switch {
	case err == nil:
		s.nils.Add(1)
		if _, ok := s.returned[key]; !ok {
			s.returned[key] = time.Now()
		}
		complete := false
		for _, c := range *s.world.calls {
			complete = complete || c.key == key && c.over && c.err == nil
		}
		if !complete {
			s.wrong = "Do returned nil, and no run of " + key + " is complete"
		}
	case isIncomplete(err):
		s.totals.incomplete.Add(1)
		if s.repeat {
			s.wrong = "an IncompleteError for a job that is repeated"
		}
	case errors.Is(err, once.ErrForgotten):
		s.wrong = "a time was forgotten"
	}
	return err
}

// condemned reports whether a session of the client was expired by hand during
// the call of Do, so that another client may hold before this one notices it.
func (c *call) condemned() bool { return c.by.expired.Load() >= c.since.UnixNano() }

// begins judges a call of the work by those before.
func (s *simulation) begins(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.totals.calls.Add(1)
	again := false
	for _, other := range *s.world.calls {
		if other.key == c.key {
			again = true
		}
		switch {
		case other.key == c.key && !s.repeat:
			s.wrong = fmt.Sprintf("the work of %s was called twice", c.key)
		case c.condemned() || other.condemned():
		case other.token >= c.token:
			s.wrong = fmt.Sprintf("token %d after %d", c.token, other.token)
		case !other.over && other.ctx.Err() == nil:
			s.wrong = fmt.Sprintf("the run of %s began during one of %s", c.key, other.key)
		}
	}
	if again {
		s.repeated.Add(1)
	}
	if at, ok := s.returned[c.key]; ok {
		s.wrong = fmt.Sprintf("the work of %s was called although a run was complete at %v", c.key, at)
	}
	*s.world.calls = append(*s.world.calls, c)
}

// fate is that of one request.
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
func disturb(ctx context.Context, w world, all []*party, roll func(int) int) {
	for ctx.Err() == nil {
		p := all[roll(len(all))]
		link := p.link
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
			p.expired.Store(time.Now().UnixNano())
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
