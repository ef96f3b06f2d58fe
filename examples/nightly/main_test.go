package main

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/examples/internal/demo"
)

// links are the links of the clients of one service, by their identities.
type links struct {
	svc *memory.Service
	mu  sync.Mutex
	all []*memory.Driver
}

func (l *links) open(identity string) (*coordinator.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	link := l.svc.Driver()
	l.all = append(l.all, link)
	return coordinator.New(link, coordinator.WithIdentity(identity), coordinator.WithTTL(coordinator.MinTTL),
		coordinator.WithLogger(slog.New(slog.DiscardHandler)))
}

func (l *links) each(f func(*memory.Driver)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, link := range l.all {
		f(link)
	}
}

// TestEachNightIsBookedOnce, although a replica is cut off between the two
// writes of the first night, and continues when another has closed it.
func TestEachNightIsBookedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop, warehouse := &links{svc: memory.NewService()}, &links{svc: memory.NewService()}
		var out bytes.Buffer // written by the logger, one write at a time
		c := &company{nights: 4, day: 100 * time.Millisecond, out: log.New(&out, "", 0)}
		var paused atomic.Bool
		var first int // items sold before the fault
		c.pause = func(context.Context) {
			if paused.Swap(true) {
				return
			}
			first = c.shop.now.total
			// All are cut off: the test does not know whose links they are.
			shop.each((*memory.Driver).Cut)
			warehouse.each((*memory.Driver).Cut)
			time.Sleep(3 * coordinator.MinTTL) // a paused process checks no context
			shop.each((*memory.Driver).Heal)
			warehouse.each((*memory.Driver).Heal)
			time.Sleep(3 * coordinator.MinTTL)
		}
		if err := c.run(t.Context(), shop.open, warehouse.open, 3); err != nil {
			t.Error(err)
		}
		text := out.String()
		if strings.Count(text, "items booked (tokens") != 4 || !strings.Contains(text, errLate.Error()) {
			t.Errorf("want four nights, and a late holder that is refused:\n%s", text)
		}
		s, w := c.shop.now, c.warehouse.now
		if s.night != 4 || s.booked != w.booked || s.booked > s.total {
			t.Errorf("in the ledgers: %+v, %+v", s, w)
		}
		if s.total != c.sold || w.total != c.delivered || s.booked <= first || w.total == 0 {
			t.Errorf("%d sold, %d delivered; in the ledgers: %+v, %+v", c.sold, c.delivered, s, w)
		}
	})
}

// TestServiceOfOneSystemWaitsForTheJob, and not for the other system.
func TestServiceOfOneSystemWaitsForTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop, warehouse := &links{svc: memory.NewService()}, &links{svc: memory.NewService()}
		first, err := shop.open("a")
		if err != nil {
			t.Fatal(err)
		}
		second, err := warehouse.open("a")
		if err != nil {
			t.Fatal(err)
		}
		c := &company{out: log.New(new(bytes.Buffer), "", 0)}
		counts := make(chan int, 2)
		c.pause = func(context.Context) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var wg sync.WaitGroup
			wg.Go(func() { n, _ := c.shop.count(ctx, first); counts <- n })
			wg.Go(func() { n, _ := c.warehouse.count(ctx, second); counts <- n })
			wg.Wait()
		}
		j, err := newJob(c, first, second)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.run(t.Context(), 1); err != nil {
			t.Error(err)
		}
		if a, b := <-counts, <-counts; a != 0 || b != 0 {
			t.Errorf("%d and %d items were counted while the job ran", a, b)
		}
		if err := demo.Live(t.Context(), first, func(context.Context, *coordinator.Client) error { return nil }); err != nil {
			t.Error(err)
		}
		if err := second.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
