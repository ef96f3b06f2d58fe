package integration_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/mutex"
)

// chaosTime is how long each service is shaken: BATON_CHAOS seconds, or a few.
func chaosTime(t *testing.T) time.Duration {
	s := os.Getenv("BATON_CHAOS")
	if s == "" {
		return 6 * time.Second
	}
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 {
		t.Fatalf("BATON_CHAOS=%q is not a positive number of seconds", s)
	}
	return time.Duration(n) * time.Second
}

// book is what the holders of a lock write down. The service's clock and ours are one here, since nobody is
// paused: a hold that is alive by its own word must be alone.
type book struct {
	mu      sync.Mutex
	holder  *mutex.Lock
	last    coordinator.Token
	entries int
}

func (b *book) enter(t *testing.T, l *mutex.Lock) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holder != nil && b.holder.Err() == nil && l.Err() == nil {
		t.Errorf("token %d is granted while %d holds", l.Token(), b.holder.Token())
	}
	if l.Token() <= b.last {
		t.Errorf("token %d after %d", l.Token(), b.last)
	}
	b.holder, b.last = l, l.Token()
	b.entries++
}

func (b *book) exit(l *mutex.Lock) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holder == l {
		b.holder = nil
	}
}

// TestLockUnderABrokenNetwork resets, cuts and heals the connections of contenders at random, loses replies and requests,
// and lets contenders give up. Nobody may hold beside another, tokens rise, all get on, and in the end
// nothing is left in the line.
func TestLockUnderABrokenNetwork(t *testing.T) {
	each(t, func(t *testing.T, s site) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		name, ctx := servers.Name(t), within(t, chaosTime(t))
		var b book
		var wg sync.WaitGroup
		var links []link
		for i := range 4 {
			c := s.link(t, 4*time.Second)
			links = append(links, c)
			m := newMutex(t, c.Client, name)
			for j := range 2 {
				r := rand.New(rand.NewPCG(seed, uint64(10*i+j)))
				wg.Go(func() { contend(ctx, t, r, m, &b) })
			}
		}
		r := rand.New(rand.NewPCG(seed, 99))
		for ctx.Err() == nil {
			shake(r, links[r.IntN(len(links))])
			pause(ctx, time.Duration(r.IntN(100))*time.Millisecond)
		}
		for _, c := range links {
			c.proxy.Heal()
			_ = c.proxy.Admit()
		}
		wg.Wait()
		t.Logf("%d grants", b.entries)
		if b.entries < 5 {
			t.Errorf("only %d grants", b.entries)
		}
		probe := newMutex(t, s.client(t, 4*time.Second), name)
		eventually(t, 6*time.Second, "nothing left in the line, at the latest with the sessions", func() bool { return inLine(t, probe) == 0 })
		unlock(t, lock(t, probe))
	})
}

// contend takes the lock again and again, for short times, sometimes giving up.
func contend(ctx context.Context, t *testing.T, r *rand.Rand, m *mutex.Mutex, b *book) {
	for ctx.Err() == nil {
		patience, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(3000))*time.Millisecond)
		l, err := m.Lock(patience)
		cancel()
		if err != nil {
			continue
		}
		b.enter(t, l)
		pause(l.Context(), time.Duration(r.IntN(5))*time.Millisecond)
		b.exit(l)
		patience, cancel = context.WithTimeout(context.Background(), time.Second)
		_ = l.Unlock(patience) // goes on in the background if it must
		cancel()
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// shake does one thing to a link.
func shake(r *rand.Rand, c link) {
	switch r.IntN(8) {
	case 0, 1:
		c.proxy.Reset()
	case 2:
		c.proxy.Cut()
	case 3:
		c.proxy.LoseReply(c.join)
	case 4:
		c.proxy.LoseReply(c.leave)
	case 5:
		c.proxy.LoseRequest(c.leave)
	case 6:
		c.proxy.DropHeld()
	default:
		c.proxy.Heal()
	}
}
