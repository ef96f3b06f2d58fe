package memory_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// harness makes a service for each case; prepare sets up each client.
func harness(prepare func(*memory.Driver), opts ...memory.Option) coordinatortest.Harness {
	opts = append([]memory.Option{memory.WithTTLRange(time.Second, time.Hour)}, opts...)
	return coordinatortest.Harness{
		TTL: 10 * time.Second, OddTTL: 2 * time.Hour, GrantedTTL: time.Hour,
		Bubble: synctest.Test,
		Start: func(*testing.T) coordinatortest.Service {
			svc := memory.NewService(opts...)
			levers := levers(svc)
			levers.Connect = func() (coordinatortest.Client, error) {
				d := svc.Driver()
				if prepare != nil {
					prepare(d)
				}
				wakeups := func() int { return d.Stats().Wakeups }
				return coordinatortest.Client{Driver: d, Link: d, Events: wakeups}, nil
			}
			return levers
		},
		Lacks: map[coordinatortest.Lever]string{
			coordinatortest.Compact:  "the service keeps no history",
			coordinatortest.Stall:    "the service is one server",
			coordinatortest.External: "the driver has no external sessions",
		},
	}
}

func levers(svc *memory.Service) coordinatortest.Service {
	return coordinatortest.Service{
		Expire: func(_ context.Context, s driver.Session) error {
			return found(svc.Expire(s.ID()))
		},
		Remove: func(_ context.Context, queue driver.Queue, p driver.Place) error {
			return found(svc.Remove(queue, p.Key))
		},
		Restart: func(context.Context) error {
			svc.Stop()
			time.Sleep(time.Second)
			svc.Start()
			return nil
		},
		Watches:  func(context.Context) (int, error) { return svc.Stats().Watches, nil },
		Sessions: func(context.Context) (int, error) { return svc.Stats().Sessions, nil },
	}
}

func found(ok bool) error {
	if !ok {
		return errors.New("not found")
	}
	return nil
}

func TestConformance(t *testing.T) {
	t.Run("plain", func(t *testing.T) { coordinatortest.Run(t, harness(nil)) })
	t.Run("stale views", func(t *testing.T) {
		for seed := range uint64(5) {
			coordinatortest.Run(t, harness(nil, memory.WithStaleViews(seed)))
		}
	})
	t.Run("few hints", func(t *testing.T) {
		for seed := range uint64(5) {
			coordinatortest.Run(t, harness(nil, memory.WithFewHints(seed)))
		}
	})
	t.Run("slack", func(t *testing.T) {
		coordinatortest.Run(t, harness(nil, memory.WithSlack(time.Second)))
	})
	t.Run("slow links", func(t *testing.T) {
		coordinatortest.Run(t, harness(func(d *memory.Driver) { d.Delay(2*time.Millisecond, 3*time.Millisecond) }))
	})
	t.Run("uneven links", func(t *testing.T) {
		coordinatortest.Run(t, harness(uneven(1), memory.WithStaleViews(1)))
	})
}

// uneven delays each request and reply by another random time, so that they
// overtake each other.
func uneven(seed uint64) func(*memory.Driver) {
	return func(d *memory.Driver) {
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(seed, 0))
		delay := func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(random.Int64N(int64(5 * time.Millisecond)))
		}
		d.Service().OnRequest(func(memory.Request) memory.Fate {
			return memory.Fate{DelayRequest: delay(), DelayReply: delay()}
		})
	}
}
