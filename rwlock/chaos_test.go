package rwlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/rwlock"
)

// book is who holds, as the holders know it.
type book struct {
	*testing.T
	mu     sync.Mutex
	held   map[*rwlock.Lock]bool
	tokens struct{ any, writer coordinator.Token } // the greatest that was granted
	grants int
}

// enter notes a grant, and fails the test if another hold that it excludes, or is excluded by, is alive by its clock.
func (b *book) enter(l *rwlock.Lock) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for other := range b.held {
		if (l.Writer() || other.Writer()) && other.Token() != l.Token() && l.Err() == nil && other.Err() == nil {
			b.Errorf("token %d (writes: %v) is held beside token %d (writes: %v)", l.Token(), l.Writer(), other.Token(), other.Writer())
		}
	}
	if b.held[l] = true; l.Writer() && l.Token() < b.tokens.any || l.Token() < b.tokens.writer {
		b.Errorf("token %d (writes: %v) after %+v", l.Token(), l.Writer(), b.tokens)
	}
	b.tokens.any = max(b.tokens.any, l.Token())
	if l.Writer() {
		b.tokens.writer = max(b.tokens.writer, l.Token())
	}
	b.grants++
}

// exit notes that a hold is given back, and does so.
func (b *book) exit(ctx context.Context, l *rwlock.Lock) {
	b.mu.Lock()
	delete(b.held, l)
	b.mu.Unlock()
	err := l.Unlock(ctx)
	switch {
	case err == nil, errors.Is(err, coordinator.ErrSessionLost), errors.Is(err, coordinator.ErrUnavailable):
	default:
		b.Errorf("unlock: %v", err)
	}
}

// TestLocksOnABrokenNetwork: six clients on links that are slow, are cut and break, at a service that stops, lags, and loses
// requests and replies. Whatever happens, holds that exclude each other are never alive at once, tokens rise, and when
// all is well again everybody is served and nothing is left.
func TestLocksOnABrokenNetwork(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			svc := memory.NewService(memory.WithStaleViews(seed))
			b := &book{T: t, held: map[*rwlock.Lock]bool{}}
			over, stop := context.WithTimeout(t.Context(), 5*time.Minute)
			defer stop()
			parties := make([]party, 6)
			var wg sync.WaitGroup
			for i := range parties {
				p := join(t, svc)
				parties[i] = p
				for j := range 2 {
					mine := rand.New(rand.NewPCG(seed, uint64(10*i+j)))
					wg.Go(func() { p.contend(over, mine, b) })
				}
			}
			wg.Go(func() { shake(over, r, parties) })
			wg.Wait()
			for _, p := range parties {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				p.unlock(p.take(p.l.Lock, ctx))
				cancel()
			}
			if n := len(svc.Snapshot(queue)); n != 0 || b.grants < 200 {
				t.Errorf("seed %d: %d left in the queue, %d grants", seed, n, b.grants)
			}
			for _, p := range parties {
				if err := p.client.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// contend locks in all ways until the time is over.
func (p party) contend(over context.Context, r *rand.Rand, b *book) {
	pause := func(limit time.Duration) { time.Sleep(time.Duration(1 + r.Int64N(int64(limit)))) }
	for over.Err() == nil {
		pause(500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+r.Int64N(int64(30*time.Second))))
		l, err := p.kind(r.IntN(3) == 0, r.IntN(4) == 0)(ctx)
		if err != nil {
			cancel()
			continue
		}
		b.enter(l)
		pause(time.Second)
		if r.IntN(2) == 0 { // enters once more; a writer goes on as a reader, most of the time
			if again, err := p.l.RLock(l.Context()); err == nil {
				b.enter(again)
				if r.IntN(4) == 0 {
					l, again = again, l
				}
				b.exit(ctx, l)
				pause(time.Second)
				l = again
			}
		}
		b.exit(ctx, l) // ctx may be dead by now
		cancel()
	}
}

// shake breaks things until the time is over, and mends them.
func shake(over context.Context, r *rand.Rand, parties []party) {
	svc := parties[0].svc
	for over.Err() == nil {
		link := parties[r.IntN(len(parties))].link
		switch r.IntN(7) {
		case 0:
			link.Cut()
		case 1:
			link.HoldReplies()
		case 2:
			link.Strand()
			link.Deliver()
		case 3:
			link.Reset()
		case 4:
			link.Delay(time.Duration(r.Int64N(int64(300*time.Millisecond))), time.Duration(r.Int64N(int64(300*time.Millisecond))))
		case 5:
			svc.Stop()
			time.AfterFunc(time.Duration(r.Int64N(int64(4*time.Second))), svc.Start)
		case 6:
			one := rand.New(rand.NewPCG(r.Uint64(), 1))
			var mu sync.Mutex
			svc.OnRequest(func(memory.Request) memory.Fate {
				mu.Lock()
				defer mu.Unlock()
				return memory.Fate{DropRequest: one.IntN(20) == 0, DropReply: one.IntN(20) == 0, DelayRequest: time.Duration(one.Int64N(int64(100 * time.Millisecond)))}
			})
		}
		time.Sleep(time.Duration(r.Int64N(int64(6 * time.Second))))
		if r.IntN(2) == 0 {
			link.Heal()
		}
	}
	svc.OnRequest(nil)
	time.Sleep(5 * time.Second) // the service is started again by then
	for _, p := range parties {
		p.link.Reset()
		p.link.Heal()
		p.link.Delay(0, 0)
	}
}
