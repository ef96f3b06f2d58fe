package mutex_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
)

const queue = driver.Queue("mutex/jobs")

// party is a client with its mutex on the service.
type party struct {
	*testing.T
	svc    *memory.Service
	link   *memory.Driver
	client *coordinator.Client
	m      *mutex.Mutex
}

// parties runs a test in virtual time with n clients of a service.
func parties(t *testing.T, n int, f func(all ...party)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		var all []party
		for range n {
			all = append(all, join(t, svc))
		}
		f(all...)
		for _, p := range all {
			if err := p.client.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
}

func join(t *testing.T, svc *memory.Service, opts ...coordinator.Option) party {
	t.Helper()
	p := party{T: t, svc: svc, link: svc.Driver()}
	var err error
	opts = append([]coordinator.Option{coordinator.WithLogger(
		slog.New(slog.NewTextHandler(io.Discard, nil)))}, opts...)
	p.client, err = coordinator.New(p.link, opts...)
	check(t, err)
	endWithTest(t, svc, p.link, p.client)
	p.m, err = mutex.New(p.client, "jobs")
	check(t, err)
	return p
}

// endWithTest closes a client whose test has failed: after t.Fatal no other
// line does, and what the client runs would be left in the bubble.
func endWithTest(t *testing.T, svc *memory.Service, link *memory.Driver, client *coordinator.Client) {
	t.Cleanup(func() {
		if t.Failed() {
			svc.OnRequest(nil)
			svc.Start()
			link.Heal()
			_ = client.Close(context.Background())
			time.Sleep(10 * time.Minute) // for goroutines of the test that end by then
		}
	})
}

// check ends the test unless err is nil.
func check(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

func (p party) lock() *mutex.Lock {
	p.Helper()
	l, err := p.m.Lock(p.Context())
	check(p, err)
	return l
}

func (p party) unlock(l *mutex.Lock) {
	p.Helper()
	if err := l.Unlock(p.Context()); err != nil {
		p.Error(err)
	}
}

// TestGoroutinesOfOneClientExcludeEachOther: FIELD 26.
func TestGoroutinesOfOneClientExcludeEachOther(t *testing.T) {
	parties(t, 2, func(all ...party) {
		a, b := all[0], all[1]
		a.link.Delay(3*time.Millisecond, 2*time.Millisecond)
		var wg sync.WaitGroup
		holders, grants := 0, 0 // guarded by the mutex under test, as the race detector checks
		var last coordinator.Token
		for i := range 40 {
			p := a
			if i%4 == 0 {
				p = b
			}
			wg.Go(func() {
				for range 5 {
					l := p.lock()
					holders++
					if grants++; holders != 1 || l.Token() <= last {
						p.Errorf("%d holders, token %d after %d", holders, l.Token(), last)
					}
					last = l.Token()
					time.Sleep(time.Millisecond)
					holders--
					p.unlock(l)
				}
			})
		}
		wg.Wait()
		if grants != 200 {
			a.Errorf("%d grants", grants)
		}
	})
}

func (p party) session() *engine.Session {
	p.Helper()
	s, err := engine.Of(p.client).Session(p.Context())
	check(p, err)
	return s
}

func TestContendersAreListedInOrder(t *testing.T) {
	parties(t, 2, func(all ...party) {
		a, b := all[0], all[1]
		if list, err := a.m.Contenders(a.Context()); err != nil || len(list) != 0 {
			a.Errorf("no contenders: %v, %v", list, err)
		}
		m, err := mutex.New(a.client, "jobs", mutex.WithIdentity("alice"),
			mutex.WithPayload([]byte("batch 7")))
		if err != nil {
			a.Fatal(err)
		}
		l, err := m.Lock(a.Context())
		check(a, err)
		time.Sleep(time.Minute)
		var wg sync.WaitGroup
		wg.Go(func() { b.unlock(b.lock()) })
		synctest.Wait()
		list, err := b.m.Contenders(b.Context())
		if err != nil || len(list) != 2 {
			a.Fatalf("%v, %v", list, err)
		}
		h, w := list[0], list[1]
		if h.Identity != "alice" || !bytes.Equal(h.Payload, []byte("batch 7")) || !h.Holding ||
			h.Token != l.Token() ||
			h.Session != a.session().ID() || time.Since(h.Since) != time.Minute {
			a.Errorf("holder is listed as %+v", h)
		}
		if w.Identity != b.client.Identity() || w.Holding || w.Token <= h.Token ||
			time.Since(w.Since) != 0 {
			a.Errorf("waiter is listed as %+v", w)
		}
		a.unlock(l)
		wg.Wait()
	})
}
