package recipes_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// visit is one contender of a generated schedule, and what became of it.
type visit struct {
	mode             byte
	join, hold, wait time.Duration // wait is its patience
	stay             time.Duration // for how long a writer goes on as a reader
	client           int

	granted bool
	at      time.Duration // when it was granted or gave up
	token   coordinator.Token
}

// TestQueueFollowsTheReferenceModel runs generated schedules of joins, holds, conversions and lost
// patience on several clients, in virtual time and on a service without delay, and compares
// every grant, its moment and its token's order with a model of a few lines. Half of the services show queues as they were
// a while ago.
func TestQueueFollowsTheReferenceModel(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			for seed := range uint64(150) {
				synctest.Test(t, func(t *testing.T) {
					got := generate(rand.New(rand.NewPCG(seed, 1)), k.modes)
					want := append([]visit(nil), got...)
					model(want, k.conflict)
					var opts []memory.Option
					if seed%2 == 1 {
						opts = append(opts, memory.WithStaleViews(seed))
					}
					run(t, memory.NewService(opts...), got, k.rule)
					compare(t, seed, got, want)
				})
			}
		})
	}
}

// generate makes a schedule in the order of joining. Times are random nanoseconds, so that no
// two events share a moment and the order is one.
func generate(r *rand.Rand, modes string) []visit {
	v := make([]visit, 2+r.IntN(24))
	var at time.Duration
	for i := range v {
		at += time.Duration(1 + r.Int64N(int64(2*time.Second)))
		v[i] = visit{
			mode: modes[r.IntN(len(modes))], join: at, client: r.IntN(4),
			hold: time.Duration(1 + r.Int64N(int64(5*time.Second))),
			wait: time.Hour,
		}
		if r.IntN(4) == 0 {
			v[i].wait = time.Duration(1 + r.Int64N(int64(10*time.Second)))
		}
		if v[i].mode == 'w' && r.IntN(3) == 0 {
			v[i].stay = time.Duration(1 + r.Int64N(int64(5*time.Second)))
		}
	}
	return v
}

// model is the reference: first come first served means that a contender is granted
// when the last conflicting one before it has left, or has been converted to what does not conflict, unless its patience
// ends first.
func model(visits []visit, conflict func(a, b byte) bool) {
	left, lowered := make([]time.Duration, len(visits)), make([]time.Duration, len(visits))
	for i := range visits {
		v := &visits[i]
		v.at = v.join
		for j := range i {
			switch {
			case conflict(visits[j].mode, v.mode) && (visits[j].stay == 0 || conflict('r', v.mode)):
				v.at = max(v.at, left[j])
			case conflict(visits[j].mode, v.mode):
				v.at = max(v.at, lowered[j])
			}
		}
		v.granted = v.at < v.join+v.wait
		if v.granted {
			lowered[i] = v.at + v.hold
			left[i] = lowered[i] + v.stay
		} else {
			v.at = v.join + v.wait
			left[i], lowered[i] = v.at, v.at
		}
	}
}

// run plays a schedule for real.
func run(t *testing.T, svc *memory.Service, visits []visit, rule func(byte) recipes.Rule) {
	var clients []*coordinator.Client
	for range 4 {
		c, err := coordinator.New(svc.Driver(), coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	start := time.Now()
	var wg sync.WaitGroup
	for i := range visits {
		wg.Go(func() { play(t, start, clients[visits[i].client], &visits[i], rule) })
	}
	wg.Wait()
	for _, c := range clients {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func play(t *testing.T, start time.Time, c *coordinator.Client, v *visit, rule func(byte) recipes.Rule) {
	l, err := recipes.NewQueue(c, "test", "queue")
	if err != nil {
		t.Error(err)
		return
	}
	time.Sleep(time.Until(start.Add(v.join)))
	ctx, cancel := context.WithTimeout(context.Background(), v.wait)
	defer cancel()
	r := recipes.Request{Op: "test", Mode: string(v.mode), Rule: rule(v.mode)}
	if v.stay > 0 {
		r.Lesser = "r"
	}
	h, err := l.Acquire(ctx, r)
	v.at, v.granted = time.Since(start), err == nil
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, coordinator.ErrUnavailable) {
			t.Errorf("gave up with %v", err)
		}
		return
	}
	v.token = h.Token()
	time.Sleep(v.hold)
	if v.stay > 0 {
		upper := h
		if h, err = l.Acquire(upper.Context(), recipes.Request{Op: "test", Mode: "r", Rule: rule('r')}); err != nil {
			t.Error(err)
		}
		if err := upper.Release(context.Background()); err != nil {
			t.Error(err)
		}
		time.Sleep(v.stay)
	}
	if err := h.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

func compare(t *testing.T, seed uint64, got, want []visit) {
	t.Helper()
	var last coordinator.Token
	for i := range got {
		g, w := got[i], want[i]
		if g.granted != w.granted || g.at != w.at {
			t.Fatalf("seed %d, contender %d (%c, joined %v): granted %v at %v, the model says %v at %v",
				seed, i, g.mode, g.join, g.granted, g.at, w.granted, w.at)
		}
		if g.granted {
			if g.token <= last {
				t.Fatalf("seed %d, contender %d: token %d after %d", seed, i, g.token, last)
			}
			last = g.token
		}
	}
}
