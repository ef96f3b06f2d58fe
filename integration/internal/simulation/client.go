package simulation

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
)

// slot is a place for a client: after a close or crash another takes its place,
// like a restarted process.
type slot struct {
	w     *world
	index int
	slow  time.Duration // the longest delay of a message without a fault
	alone atomic.Bool   // an actor is replacing the client

	// Guarded by w.mu.
	client  *coordinator.Client
	link    Link
	started int
	objects map[*name]any
	watches int           // observers that follow
	refused time.Duration // when a request last, or the opening of a session, was refused
	// When any request was refused last, also one of a known actor.
	anyRefused time.Duration
	// The latest attempt to open a session was refused.
	refusing bool
}

func newSlot(w *world, index int, slow time.Duration) *slot {
	return &slot{w: w, index: index, slow: slow}
}

// open starts a client in a slot.
func (w *world) open(s *slot) {
	w.mu.Lock()
	process := s.started
	w.mu.Unlock()
	l, err := w.svc.Connect(fmt.Sprintf("c%d.%d", s.index, process))
	if err != nil {
		panic(err)
	}
	c, err := coordinator.New(newJittery(w, s, l.Driver()),
		coordinator.WithTTL(w.ttl), coordinator.WithIdentity(fmt.Sprint("c", s.index)),
		coordinator.WithLogger(slog.New(slog.DiscardHandler)),
		func(c *engine.Config) { c.Jitter, c.Source = 0, w.source(s) },
		coordinator.WithObserver(w.book), coordinator.WithObserver(
			event.ObserverFunc(func(e event.Event) { w.observe(s, l, e) })))
	if err != nil {
		panic(err)
	}
	objects := map[*name]any{}
	for _, n := range w.names {
		objects[n] = s.object(n, c)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.client, s.link, s.objects = c, l, objects
	s.started++
	w.links, w.owner[l] = append(w.links, l), s
}

// source makes the generators of pauses of a slot's client. Calls of several
// goroutines at one instant draw the same, whatever their order.
func (w *world) source(s *slot) func(context.Context) rand.Source {
	return func(ctx context.Context) rand.Source {
		h := fnv.New64a()
		_, _ = fmt.Fprint(h, "pause ", s.index, " ", labelOf(ctx), w.now())
		return rand.NewPCG(w.seed, h.Sum64())
	}
}

// observe receives the events of the clients.
func (w *world) observe(s *slot, l Link, e event.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Kind {
	case event.SessionOpened:
		w.log("c%d opened session %s", s.index, e.Session)
	case event.SessionEnded:
		w.log("c%d session %s ended", s.index, e.Session)
		w.ended[e.Session], w.lostAt[s.index] = w.now(), w.now()
		w.reachIf(s.watches > 0, observerShownAfterLoss)
		if errors.Is(e.Err, coordinator.ErrClosed) {
			w.closedBy[l] = e.Session
		}
		delete(w.away, e.Session)
	case event.SessionSuspended, event.SessionResumed:
		w.suspends(e.Session, e.Kind == event.SessionSuspended)
	case event.Joined:
		w.queues[e.Queue].known[e.Token] = w.now()
	case event.Granted:
		w.queues[e.Queue].won[e.Token] = true
	case event.Lost:
		w.reach(lost)
		w.reachIf(w.queues[e.Queue].has(e.Token), lostBeforeService)
		w.log("c%d lost token %d of %s", s.index, e.Token, e.Queue)
	}
}
