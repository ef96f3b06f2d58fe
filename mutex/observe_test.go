package mutex_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
)

// record keeps the events of a client.
type record struct {
	mu     sync.Mutex
	events []event.Event
}

func (r *record) Observe(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// take returns the events since the last take, renewals left out, by kind.
func (r *record) take() (kinds []event.Kind, events map[event.Kind]event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events = map[event.Kind]event.Event{}
	for _, e := range r.events {
		if e.Kind != event.SessionRenewed {
			kinds = append(kinds, e.Kind)
			events[e.Kind] = e
		}
	}
	r.events = nil
	return kinds, events
}

func TestObserverIsToldOfTheLifeOfALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &record{}
		svc := memory.NewService()
		a, b := join(t, svc, coordinator.WithObserver(r)), join(t, svc)
		l := a.lock()
		inner, err := a.m.Lock(l.Context())
		if err != nil {
			t.Fatal(err)
		}
		a.unlock(inner)
		time.Sleep(time.Minute)
		a.unlock(l)
		synctest.Wait() // for what might be told late
		kinds, e := r.take()
		want := []event.Kind{event.SessionOpened, event.Joined, event.Granted,
			event.Reentered, event.Released}
		if !slices.Equal(kinds, want) {
			t.Errorf("told of %v, want %v", kinds, want)
		}
		if rel := e[event.Released]; rel.Duration != time.Minute || rel.Token != l.Token() || rel.Queue != queue || rel.Err != nil {
			t.Errorf("release was told as %+v", rel)
		}

		other := b.lock()
		time.AfterFunc(time.Second, func() { b.unlock(other) })
		l = a.lock()
		if _, e = r.take(); e[event.Granted].Duration != time.Second {
			t.Errorf("a wait of a second was told as %v", e[event.Granted].Duration)
		}
		a.unlock(l)
		a.lock()
		svc.Expire(a.session().ID())
		synctest.Wait()
		_, e = r.take()
		if lost := e[event.Lost]; !errors.Is(lost.Err, coordinator.ErrSessionLost) || lost.Token == 0 {
			t.Errorf("loss was told as %+v", lost)
		}
		if ended := e[event.SessionEnded]; !errors.Is(ended.Err, coordinator.ErrSessionLost) {
			t.Errorf("end of the session was told as %+v", ended)
		}
		_, _ = a.client.Close(t.Context()), b.client.Close(t.Context())
	})
}

func TestLostHoldIsNeverSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		svc := memory.NewService()
		p := join(t, svc, coordinator.WithLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))))
		l := p.lock()
		p.unlock(l)
		synctest.Wait() // for what might be logged late
		if out.Len() != 0 {
			t.Errorf("an ordinary lock was logged at Warn: %s", out.String())
		}
		p.lock()
		svc.Expire(p.session().ID())
		synctest.Wait()
		if s := out.String(); !strings.Contains(s, "hold lost") || !strings.Contains(s, string(queue)) {
			t.Errorf("log: %s", s)
		}
		_ = p.client.Close(t.Context())
	})
}
