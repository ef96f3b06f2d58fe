//go:build !race

// Without the race detector: on a connection that was made again, go-zookeeper
// reads its last zxid, to set watches, while it handles the first reply, which
// may itself be of a watch.
package zookeeper

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
)

// Three clients lock, share, try and give up, several contenders each, while
// connections break, fall silent and are slow. No two exclude each other and
// hold at once, tokens rise, and after the faults all is served and nothing is
// left.
func TestLocksExcludeEachOtherWhileConnectionsFail(t *testing.T) {
	for _, layout := range []string{"native", "curator", "kazoo"} {
		for seed := range uint64(10) {
			synctest.Test(t, func(t *testing.T) {
				d := &disturbed{t: t, what: fmt.Sprintf("%s %d", layout, seed), fake: newPipes(t),
					rng:  rand.New(rand.NewPCG(seed, 0)),
					held: map[string][]hold{}, tokens: map[string]coordinator.Token{}}
				d.run(layout)
			})
		}
	}
}

// hold is a lock, shared or not.
type hold struct {
	shared bool
	lock   interface {
		Err() error
		Token() coordinator.Token
		Unlock(ctx context.Context) error
	}
}

type disturbed struct {
	t      *testing.T
	what   string
	fake   *fake
	faults atomic.Bool

	mu     sync.Mutex
	rng    *rand.Rand
	held   map[string][]hold
	tokens map[string]coordinator.Token // of the latest exclusive grants
	grants int
}

func (d *disturbed) run(layout string) {
	tr := plant(d.fake)
	tr.on(d.fate)
	ctx, stop := context.WithCancel(d.t.Context())
	var all sync.WaitGroup
	for range 3 {
		c := d.client(layout)
		defer func() { ok(d.t, c.Close(context.Background())) }()
		for range 1 + d.below(3) {
			all.Go(func() { d.contend(ctx, c) })
		}
	}
	d.faults.Store(true)
	time.Sleep(time.Minute)
	d.faults.Store(false)
	time.Sleep(testTTL)
	before := d.granted()
	time.Sleep(testTTL)
	if after := d.granted(); after == before {
		d.t.Errorf("%s: %d grants with faults, and none after them", d.what, before)
	}
	stop()
	all.Wait()
	time.Sleep(2 * time.Second)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for node, n := range tr.nodes {
		if n.owner != 0 {
			d.t.Errorf("%s: left: %s", d.what, node)
		}
	}
}

func (d *disturbed) client(layout string) *coordinator.Client {
	d.t.Helper()
	s, err := OpenWith(parse(d.t, d.fake.url()+"/app?layout="+layout), Dialer(d.fake.dial))
	ok(d.t, err)
	c, err := coordinator.New(s, coordinator.WithTTL(testTTL),
		coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	ok(d.t, err)
	return c
}

// below is a random number below n.
func (d *disturbed) below(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

func (d *disturbed) upTo(most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.rng.Int64N(int64(most)))
}

// fate disturbs one of some twenty requests.
func (d *disturbed) fate(int32, string) treeFate {
	time.Sleep(d.upTo(3 * time.Millisecond))
	if !d.faults.Load() {
		return treeFate{}
	}
	switch d.below(100) {
	case 0:
		return treeFate{cut: true}
	case 1:
		return treeFate{cut: true, lost: true}
	case 2:
		return treeFate{silent: true}
	case 3:
		return treeFate{deaf: true}
	case 4:
		time.Sleep(d.upTo(testTTL / 5))
	}
	return treeFate{}
}

func (d *disturbed) contend(ctx context.Context, c *coordinator.Client) {
	for ctx.Err() == nil {
		name := []string{"a", "b"}[d.below(2)]
		within, cancel := context.WithTimeout(ctx, d.upTo(testTTL))
		h, err := d.acquire(within, c, name)
		cancel()
		if err != nil {
			time.Sleep(d.upTo(100 * time.Millisecond))
			continue
		}
		d.admit(name, h)
		time.Sleep(d.upTo(600 * time.Millisecond))
		within, cancel = context.WithTimeout(d.t.Context(), d.upTo(3*time.Second))
		_ = h.lock.Unlock(within) // goes on in the background
		cancel()
	}
}

// acquire locks the mutex a or the read-write lock b.
func (d *disturbed) acquire(ctx context.Context, c *coordinator.Client, name string) (h hold, err error) {
	tries := d.below(3) == 0
	if name == "a" {
		m, err := mutex.New(c, name)
		ok(d.t, err)
		if tries {
			h.lock, err = m.TryLock(ctx)
		} else {
			h.lock, err = m.Lock(ctx)
		}
		return h, err
	}
	rw, err := rwlock.New(c, name)
	ok(d.t, err)
	if h.shared = !tries; h.shared {
		h.lock, err = rw.RLock(ctx)
	} else {
		h.lock, err = rw.Lock(ctx)
	}
	return h, err
}

// admit checks a grant against those before.
func (d *disturbed) admit(name string, h hold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.grants++
	var live []hold
	for _, other := range d.held[name] {
		if other.lock.Err() != nil || h.lock.Err() != nil {
			continue
		}
		live = append(live, other)
		if !other.shared || !h.shared {
			d.t.Errorf("%s: %s: token %d holds beside token %d",
				d.what, name, h.lock.Token(), other.lock.Token())
		}
	}
	d.held[name] = append(live, h)
	if h.shared || h.lock.Err() != nil {
		return
	}
	if token := h.lock.Token(); token <= d.tokens[name] {
		d.t.Errorf("%s: %s: token %d after %d", d.what, name, token, d.tokens[name])
	}
	d.tokens[name] = max(h.lock.Token(), d.tokens[name])
}

func (d *disturbed) granted() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.grants
}
