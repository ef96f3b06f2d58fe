package semaphore_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/semaphore"
)

// fleet is what many clients saw together.
type fleet struct {
	sync.Mutex
	held, most int
	tokens     []coordinator.Token // in the order of the grants
}

func (f *fleet) add(n int) {
	f.Lock()
	defer f.Unlock()
	f.held += n
	f.most = max(f.most, f.held)
}

func (f *fleet) granted(token coordinator.Token) {
	f.Lock()
	defer f.Unlock()
	f.tokens = append(f.tokens, token)
}

// overtaken is how many grants to those who asked later came before a grant, at most.
func (f *fleet) overtaken() (most int) {
	for i, token := range f.tokens {
		n := 0
		for _, before := range f.tokens[:i] {
			if before > token {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestFleetOf64SharesTenPermits: 2,000 grants of one to three permits, held for random times, over links of different
// speed. Never are more than ten held, all are served, and nobody is overtaken but by those who have their permits
// beside its own: nine at most, and only because it hears of its grant later than they do of theirs.
func TestFleetOf64SharesTenPermits(t *testing.T) {
	const clients, grants, limit = 64, 2000, 10
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService(memory.WithStaleViews(4))
		var f fleet
		var wg sync.WaitGroup
		var last party
		for i := range clients {
			p := join(t, svc, limit)
			r := rand.New(rand.NewPCG(4, uint64(i)))
			p.link.Delay(time.Duration(1+i%3)*time.Millisecond, time.Duration(1+i%2)*time.Millisecond)
			wg.Go(func() {
				for turn := i; turn < grants; turn += clients {
					p.share(&f, r)
				}
			})
			last = p
		}
		wg.Wait()
		if len(f.tokens) != grants || f.most > limit || f.held != 0 {
			t.Errorf("%d grants, %d held at most", len(f.tokens), f.most)
		}
		if f.most < limit {
			t.Errorf("never were all %d held, but %d: nothing was shown", limit, f.most)
		}
		if n := f.overtaken(); n >= limit {
			t.Errorf("somebody was overtaken by %d", n)
		} else {
			t.Logf("overtaken by %d at most; %+v", n, svc.Stats().Requests)
		}
		last.empty()
	})
}

// share is one turn of a client.
func (p party) share(f *fleet, r *rand.Rand) {
	n := 1 + r.IntN(3)
	permit := p.acquire(n)
	f.granted(permit.Token())
	f.add(n)
	time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
	if n > 1 && r.IntN(4) == 0 {
		f.add(-1)
		p.releasePart(permit, 1)
		n--
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	}
	f.add(-n)
	p.release(permit)
	time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
}

// TestFleetThatDiesOneByOneLeavesTheRestServed: sessions end while they hold or wait, and no permit is lost with them.
func TestFleetThatDiesOneByOneLeavesTheRestServed(t *testing.T) {
	const clients, limit = 20, 5
	for seed := range seeds(5) {
		synctest.Test(t, func(t *testing.T) {
			svc := memory.NewService(memory.WithStaleViews(seed))
			var wg sync.WaitGroup
			var last party
			for i := range clients {
				p := join(t, svc, limit)
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				p.link.Delay(time.Duration(i%3)*time.Millisecond, 0)
				wg.Go(func() {
					for range 10 {
						p.shareAndDie(r)
					}
				})
				last = p
			}
			wg.Wait()
			last.release(last.begin(limit).eventually())
			last.empty()
		})
	}
}

func (p party) shareAndDie(r *rand.Rand) {
	id := p.session()
	if r.IntN(3) == 0 {
		time.AfterFunc(time.Duration(r.IntN(500))*time.Millisecond, func() { p.svc.Expire(id) })
	}
	var permit *semaphore.Permit
	permit, err := p.s.Acquire(p.Context(), 1+r.IntN(3))
	if err != nil {
		wantErr(p.T, err, coordinator.ErrSessionLost)
		return
	}
	time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
	if err := permit.Release(p.Context()); err != nil {
		wantErr(p.T, err, coordinator.ErrSessionLost)
	}
}
