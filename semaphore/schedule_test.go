package semaphore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/semaphore"
)

// visit is one contender of a generated schedule, with a client of its own, and what became of it.
type visit struct {
	n, part    int           // it asks for n, and gives part of them back
	join, wait time.Duration // wait is its patience
	first      time.Duration // how long it holds until it gives the part back,
	rest       time.Duration // and then the rest
	dies       time.Duration // when its session ends; 0: never

	granted bool
	at      time.Duration // when it was granted or went
	parted  time.Duration // when it gave the part back, and
	left    time.Duration // when the rest, or died
	token   coordinator.Token
}

// move is a change of the limit.
type move struct {
	at    time.Duration
	limit int
}

type schedule struct {
	visits []visit
	moves  []move // the first at 0
}

// generate makes a schedule in the order of joining. Times are random nanoseconds, so that no two events share a
// moment and the order is one.
func generate(r *rand.Rand, lowering bool) schedule {
	within := func(d time.Duration) time.Duration { return time.Duration(1 + r.Int64N(int64(d))) }
	limit := 2 + r.IntN(4)
	s := schedule{moves: []move{{0, limit}}}
	var at time.Duration
	for range 2 + r.IntN(30) {
		at += within(time.Second)
		v := visit{n: 1 + r.IntN(min(limit, 3)), join: at, first: within(3 * time.Second), rest: within(3 * time.Second), wait: time.Hour}
		v.part = r.IntN(v.n)
		switch r.IntN(8) {
		case 0, 1:
			v.wait = within(8 * time.Second)
		case 2:
			v.dies = at + within(8*time.Second)
		}
		s.visits = append(s.visits, v)
		if r.IntN(8) == 0 {
			if limit++; lowering && r.IntN(2) == 0 {
				limit = 1 + r.IntN(5)
			}
			s.moves = append(s.moves, move{at + within(time.Second), limit})
		}
	}
	slices.SortFunc(s.moves, func(a, b move) int { return int(a.at - b.at) })
	return s
}

// run plays a schedule for real, over links with a delay.
func (s schedule) run(t *testing.T, delay time.Duration, opts ...memory.Option) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService(opts...)
		boss := join(t, svc, semaphore.Stored)
		boss.setLimit(s.moves[0].limit)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range s.visits {
			p := join(t, svc, semaphore.Stored)
			p.link.Delay(delay, delay)
			p.session()
			wg.Go(func() { p.play(start, &s.visits[i]) })
		}
		for _, m := range s.moves[1:] {
			wg.Go(func() {
				time.Sleep(time.Until(start.Add(m.at)))
				boss.setLimit(m.limit)
			})
		}
		wg.Wait()
		boss.empty()
	})
}

func (p party) play(start time.Time, v *visit) {
	now := func() time.Duration { return time.Since(start) }
	if v.dies > 0 {
		id := p.session()
		time.AfterFunc(v.dies-now(), func() { p.svc.Expire(id) })
	}
	time.Sleep(v.join - now())
	ctx, cancel := context.WithTimeout(context.Background(), v.wait)
	defer cancel()
	permit, err := p.s.Acquire(ctx, v.n)
	v.at, v.granted = now(), err == nil
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, coordinator.ErrSessionLost) && !errors.Is(err, coordinator.ErrInvalid) {
			p.Errorf("gave up with %v", err)
		}
		return
	}
	v.token = permit.Token()
	time.Sleep(v.first)
	if v.part > 0 && permit.Err() == nil {
		v.parted = now()
		if err := permit.ReleasePart(context.Background(), v.part); err != nil {
			p.Error(err)
		}
	}
	time.Sleep(v.at + v.first + v.rest - now())
	if v.left = v.dies; permit.Err() == nil {
		v.left = now()
	}
	if err := permit.Release(context.Background()); err != nil && v.dies == 0 {
		p.Error(err)
	}
}
