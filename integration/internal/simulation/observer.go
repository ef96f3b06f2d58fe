package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// leaderAt is the first in the queue from a time on. Token 0 means that the
// queue is empty.
type leaderAt struct {
	at    time.Duration
	token coordinator.Token
	value string
}

// watcher is the state of an observer.
type watcher struct {
	queue   *queue
	listens bool          // it is inside Observe, and not in the body of its loop
	since   time.Duration // when it began to listen
	shown   bool          // Observe has yielded at least once
	stale   bool          // and said last that the state may be over
	token   coordinator.Token
	value   string
}

// head records the first in the queue, if that has changed.
func (l *queue) head(now time.Duration) {
	next := leaderAt{at: now}
	if len(l.entries) > 0 {
		next.token, next.value = l.entries[0].Token, payloadOf(l.entries[0])
	}
	if last := l.heads[len(l.heads)-1]; last.token != next.token || last.value != next.value {
		l.heads = append(l.heads, next)
	}
}

// payloadOf returns the payload of an entry, which is all that a queue shared
// with other clients shows.
func payloadOf(e driver.Entry) string {
	var shown struct{ Payload []byte }
	if json.Unmarshal(e.Value, &shown) != nil {
		return string(e.Value)
	}
	return string(shown.Payload)
}

// led reports whether a contender was first in the queue, with this value,
// since a time.
func (l *queue) led(token coordinator.Token, value string, since time.Duration) bool {
	for i, x := range l.heads {
		if x.token == token && x.value == value &&
			(i == len(l.heads)-1 || l.heads[i+1].at >= since) {
			return true
		}
	}
	return false
}

// auditWatchers: after the faults, observers of an election know the first in
// the queue.
func (w *world) auditWatchers() {
	prompt := w.prompt
	if w.core { // without a HeadWatcher the head is polled
		prompt += engine.HeadInterval
	}
	for label, o := range w.watchers {
		if !o.listens {
			continue
		}
		first := o.queue.heads[len(o.queue.heads)-1]
		if w.now()-max(o.since, first.at, w.recoveredAt) <= prompt {
			continue
		}
		if !o.shown || o.stale || o.token != first.token || o.value != first.value {
			w.violation("%s: observes since %v, and was last shown %d %q (anything: %v, stale: %v); "+
				"first in the queue since %v is %d %q",
				label, o.since, o.token, o.value, o.shown, o.stale, first.at, first.token, first.value)
		}
	}
}

// listens records that an observer starts or stops to listen.
func (a *actor) listens(does bool, show func(*watcher)) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	o := a.w.watchers[a.label]
	if o == nil {
		o = &watcher{queue: a.w.queues[a.name.queue]}
		a.w.watchers[a.label] = o
	}
	o.listens, o.since = does, a.w.now()
	if show != nil {
		show(o)
	}
}

// follow observes an election until ctx ends.
func (a *actor) follow(ctx context.Context) {
	seen := coordinator.Token(0)
	a.since = a.w.now()
	o, _ := a.object()
	a.listens(true, func(o *watcher) { o.shown, o.stale, o.token, o.value = false, false, 0, ""; a.slot.watches++ })
	defer a.listens(false, func(*watcher) { a.slot.watches-- })
	for leader, err := range o.(*election.Election).Observe(ctx) {
		if err != nil {
			a.judgeError(calling{ctx: ctx, what: "observe", began: a.since, err: err})
			return
		}
		a.listens(false, func(o *watcher) {
			if leader.Stale && (o.stale || !o.shown || o.token != leader.Token || o.value != string(leader.Payload)) {
				a.w.violation("%s: is told that %d %q may be over, after %d %q (anything: %v, stale: %v)",
					a.label, leader.Token, leader.Payload, o.token, o.value, o.shown, o.stale)
			}
			a.w.reachIf(o.stale && !leader.Stale, observerConfirmed)
			o.shown, o.stale, o.token, o.value = true, leader.Stale, leader.Token, string(leader.Payload)
			a.w.reachIf(leader.Token == 0, observerShownNobody)
		})
		a.w.say("%s: sees %d %q, stale: %v", a.label, leader.Token, leader.Payload, leader.Stale)
		if leader.Token != 0 && leader.Token < seen {
			a.w.blame("%s: saw %d after %d", a.label, leader.Token, seen)
		}
		seen = max(seen, leader.Token)
		if a.does("slow observer", 4) {
			a.pause(a.w.ttl / 4)
		}
		a.listens(true, nil)
	}
	if ctx.Err() == nil {
		a.w.blame("%s: Observe has ended by itself", a.label)
	}
}

// observe follows an election until the other actors have ended.
func (a *actor) observe() {
	for !a.w.isEnding() {
		if a.does("leader", 4) {
			ctx, cancel := a.bounds()
			a.sees(ctx)
			cancel()
		}
		if a.does("ask for a transfer", 4) {
			ctx, cancel := a.bounds()
			o, _ := a.object()
			a.transfer(ctx, o.(*election.Election).Transfer)
			cancel()
		}
		ctx, cancel := a.bounds()
		bound, stop := context.WithCancel(ctx)
		unhook := context.AfterFunc(ctx, stop)
		go func() {
			select {
			case <-a.w.ending:
				stop()
			case <-bound.Done():
			}
		}()
		a.follow(bound)
		unhook()
		stop()
		cancel()
		a.pause(a.w.ttl)
	}
	ctx, cancel := context.WithTimeout(a.ctx, a.w.bound())
	defer cancel()
	a.sees(ctx)
}

// sees calls Leader and judges the result: it was true at some time since the
// call, or little before on a service whose members may lag.
func (a *actor) sees(ctx context.Context) {
	a.since = a.w.now()
	o, _ := a.object()
	var leader recipes.Contender
	err := a.call(ctx, "leader", 0, func(ctx context.Context) (err error) {
		leader, err = o.(*election.Election).Leader(ctx)
		return err
	}, election.ErrNoLeader)
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if err != nil && !errors.Is(err, election.ErrNoLeader) {
		return
	}
	since := a.since - a.w.traits.Lag
	if l := a.w.queues[a.name.queue]; !l.led(leader.Token, string(leader.Payload), since) {
		a.w.violation("%s: Leader is %d %q, which was not so since %v; %v", a.label, leader.Token,
			leader.Payload, since, l.heads[len(l.heads)-1])
	}
}
