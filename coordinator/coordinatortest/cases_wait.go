package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

var watchCases = []testCase{
	{name: "W2/others who come and go wake nobody", body: othersWakeNobody},
	{name: "W2/others who come and go are not even notified", needs: []Lever{Events}, body: othersNotNotified},
	{name: "W2/a broken connection is no leaving", needs: []Lever{Reset}, body: resetIsNoLeaving},
	{name: "W2/a restart is no leaving", needs: []Lever{Restart}, body: restartIsNoLeaving},
	{name: "W3/a watch ends with its context's error", body: watchCancelled},
	{name: "W3/a watch that was given up leaves at most one", needs: []Lever{Watches}, body: watchesGo},
	{name: "W4/a watch ends when its own session is lost", needs: []Lever{Expire}, body: watchOfLost},
	{name: "W4/a watch ends when its own session is closed", body: watchOfClosed},
}

// comeAndGo does in a queue all that is no leaving of the first two.
func (e *env) comeAndGo(d *duel, also session) {
	for range 3 {
		third := e.joinAs(d.ahead, d.queue, d.by.contender())
		fourth := e.joinAs(also, d.queue, d.by.contender())
		time.Sleep(e.Settle / 20) // time for a watch of the whole queue to take them in
		e.leave(d.ahead, d.queue, third.Place)
		e.ok(also.Forget(e.soon(), d.queue, fourth.Place.ID), "Forget")
		passing := e.open()
		e.joinAs(passing, d.queue, d.by.contender())
		e.ok(passing.Close(e.soon()), "Close")
		e.ok(d.ahead.Renew(e.soon()), "Renew")
	}
}

// othersWakeNobody counts what recipes rely on: one leaving wakes those who wait for it.
func othersWakeNobody(e *env) {
	d := e.duel()
	between := e.join(d.ahead, d.queue)
	own := e.join(d.behind, d.queue)
	w := e.watch(d.behind, d.queue, d.first.Place)
	e.comeAndGo(d, d.behind)
	e.quiet(w, "others came and went")
	// Ahead of the watcher, yet not among the places.
	e.leave(d.ahead, d.queue, between.Place)
	e.leave(d.behind, d.queue, d.second.Place)
	e.quiet(w, "others ahead left")
	e.leave(d.ahead, d.queue, d.first.Place)
	e.fires(w, "the one it waits for left")
	e.stands(d.behind, d.queue, own.Place.ID)
}

// othersNotNotified: a driver may hide needless wake-ups from its caller, but the service
// has sent them.
func othersNotNotified(e *env) {
	d := e.duel()
	w := e.watch(d.behind, d.queue, d.first.Place)
	before := d.client.Events()
	e.comeAndGo(d, e.open()) // the client itself keeps still: it may well watch its own entries
	e.settle()
	if n := d.client.Events() - before; n != 0 {
		e.fail("no notification", "%d notifications while others came and went", n)
	}
	e.leave(d.ahead, d.queue, d.first.Place)
	e.fires(w, "the one it waits for left")
}

// resetIsNoLeaving watches without repeating: the watch may go on or say ErrUnavailable,
// but it must not say that somebody has left.
func resetIsNoLeaving(e *env) {
	d := e.duel()
	o := e.watchOnce(d)
	d.client.Link.Reset()
	e.noLeaving(o, "a broken connection")
	e.leave(d.ahead, d.queue, d.first.Place) // the session has lived on
}

// restartIsNoLeaving: the same when the service is away and comes back with its data.
func restartIsNoLeaving(e *env) {
	d := e.duel()
	o := e.watchOnce(d)
	e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness")
	e.noLeaving(o, "a restart")
	leaves.leaveUntil(e, d.ahead, d.queue, d.first.Place)
}

func (e *env) watchOnce(d *duel) *outcome {
	o := e.start(func() error { return d.behind.Watch(e.ctx, d.queue, d.first.Place) })
	e.settle()
	return o
}

func (e *env) noLeaving(o *outcome, after string) {
	e.settle()
	select {
	case <-o.done:
		e.is(o.err, "Watch after "+after, driver.ErrUnavailable)
	default:
	}
}

// watchCancelled: recipes tell a leaving from their own timeout by this error.
func watchCancelled(e *env) {
	d := e.duel()
	ctx, cancel := context.WithCancel(e.ctx)
	o := e.start(func() error { return d.behind.Watch(ctx, d.queue, d.first.Place) })
	e.settle()
	cancel()
	e.is(e.ends(o, e.Patience, "Watch with a cancelled context"), "Watch with a cancelled context", context.Canceled)

	ctx = e.in(e.Settle)
	o = e.start(func() error { return d.behind.Watch(ctx, d.queue, d.first.Place) })
	e.is(e.ends(o, e.Settle+e.Patience, "Watch that timed out"), "Watch that timed out", context.DeadlineExceeded)

	// The queue is as it was, and can be waited for again.
	w := e.watch(d.behind, d.queue, d.first.Place)
	e.quiet(w, "earlier watches were given up")
	e.leave(d.ahead, d.queue, d.first.Place)
	e.fires(w, "the one ahead left")
}

// watchesGo: waiters that time out and come back must not add up at the service.
func watchesGo(e *env) {
	d := e.duel()
	before := e.watches()
	for i := range 10 {
		// Every second one is given up before the client can know that the service has it.
		slow := i%2 == 1 && e.has(Hold)
		if slow {
			d.client.Link.HoldReplies()
		}
		err := d.behind.Watch(e.in(e.Settle/10), d.queue, d.first.Place)
		e.is(err, "Watch that timed out", context.DeadlineExceeded)
		if slow {
			d.client.Link.Heal()
			time.Sleep(e.Settle / 10) // for what was held
		}
	}
	e.eventually(fmt.Sprintf("at most one watch more than the %d before", before), func() bool {
		return e.watches() <= before+1
	})
	e.leave(d.ahead, d.queue, d.first.Place)
	e.eventually(fmt.Sprintf("%d watches, as before, once the place has left", before), func() bool {
		return e.watches() <= before
	})
	// Some services can watch what is not there, for ever.
	third := e.join(d.ahead, d.queue)
	e.leave(d.ahead, d.queue, third.Place)
	e.fires(e.watch(d.behind, d.queue, third.Place), "the place had left")
	e.eventually(fmt.Sprintf("%d watches, as before, after the watch of a place that had left", before), func() bool {
		return e.watches() <= before
	})
}

// watchOfLost: the service says so at the latest in answer to the next renewal.
func watchOfLost(e *env) {
	d := e.duel()
	o := e.watch(d.behind, d.queue, d.first.Place)
	e.ok(e.svc.Expire(e.soon(), d.behind), "Expire of the harness")
	err := e.ends(o, e.TTL/3+e.Patience, "Watch on a session that ended")
	e.is(err, "Watch on a session that ended", driver.ErrSessionLost)
}

// watchOfClosed: the end of the own session must not read as the leaving of another.
func watchOfClosed(e *env) {
	d := e.duel()
	o := e.start(func() error { return d.behind.Watch(e.ctx, d.queue, d.first.Place) })
	e.settle()
	e.ok(d.behind.Close(e.soon()), "Close")
	select {
	case <-o.done:
	case <-time.After(e.Patience):
		e.fail("Watch ends with its session", "Watch was still waiting %v after Close", e.Patience)
	}
	if o.err == nil || errors.Is(o.err, driver.ErrGone) {
		e.fail("ErrSessionLost", "Watch on a session that was closed: %v", o.err)
	}
}

// waitCases check how a wait ends that saw no change.
func (x subject) waitCases(clause string) []testCase {
	return []testCase{
		{name: clause + "/a wait ends with its context's error", body: x.cancelled},
		{name: clause + "/a wait that was given up leaves at most one watch", needs: []Lever{Watches}, body: x.watchesGo},
		{name: clause + "/a wait for what is not there leaves at most one watch", needs: []Lever{Watches}, body: x.watchesOfNothingGo},
		{name: clause + "/a wait ends when its own session is lost", needs: []Lever{Expire}, body: x.sessionLost},
		{name: clause + "/a wait ends when its own session is closed", body: x.sessionClosed},
		{name: clause + "/a broken connection is no change", needs: []Lever{Reset}, body: x.resetIsNoChange},
	}
}

// cancelled: observers tell a change from their own timeout by this error.
func (x subject) cancelled(e *env) {
	d, known := x.duel(e)
	what := x.call + " with a cancelled context"
	ctx, cancel := context.WithCancel(e.ctx)
	o := e.start(func() error { _, err := x.read(ctx, d.behind, d.queue, known); return err })
	e.settle()
	cancel()
	e.is(e.ends(o, e.Patience, what), what, context.Canceled)

	what = x.call + " that timed out"
	ctx = e.in(e.Settle)
	o = e.start(func() error { _, err := x.read(ctx, d.behind, d.queue, known); return err })
	e.is(e.ends(o, e.Settle+e.Patience, what), what, context.DeadlineExceeded)

	// All is as it was, and can be waited for again.
	o = x.reach(e, d.behind, d.queue, known, "new")
	e.settle()
	e.waiting(o, x.call, "earlier waits were given up")
	x.change(e, d, "new")
	e.reached(o, x.call, "a change")
}

// giveUp waits and gives up, time and again, and checks what that leaves.
func (x subject) giveUp(e *env, c Client, s session, queue driver.Queue, known driver.Version) (before int) {
	before = e.watches()
	for i := range 10 {
		// Every second one is given up before the client can know that the service has it.
		slow := i%2 == 1 && e.has(Hold)
		if slow {
			c.Link.HoldReplies()
		}
		_, err := x.read(e.in(e.Settle/10), s, queue, known)
		e.is(err, x.call+" that timed out", context.DeadlineExceeded)
		if slow {
			c.Link.Heal()
			time.Sleep(e.Settle / 10) // for what was held
		}
	}
	e.eventually(fmt.Sprintf("at most one watch more than the %d before", before), func() bool {
		return e.watches() <= before+1
	})
	return before
}

// watchesGo: observers that time out and come back must not add up at the service.
func (x subject) watchesGo(e *env) {
	d, known := x.duel(e)
	before := x.giveUp(e, d.client, d.behind, d.queue, known)
	x.change(e, d, "new")
	e.eventually(fmt.Sprintf("%d watches, as before, after the change", before), func() bool {
		return e.watches() <= before
	})
}

// watchesOfNothingGo: the watch of what is not there goes when it comes.
func (x subject) watchesOfNothingGo(e *env) {
	d := e.duel()
	d.queue = e.queue() // of nobody
	before := x.giveUp(e, d.client, d.behind, d.queue, 0)
	d.first = e.join(d.ahead, d.queue)
	x.change(e, d, "new")
	e.leave(d.ahead, d.queue, d.first.Place) // and so do the watches of those who come and go
	e.eventually(fmt.Sprintf("%d watches, as before, after the queue has come and gone", before), func() bool {
		return e.watches() <= before
	})
}

// sessionLost: the service says so at the latest in answer to the next renewal.
func (x subject) sessionLost(e *env) {
	d, known := x.duel(e)
	o := x.reach(e, d.behind, d.queue, known, "new")
	e.settle()
	e.ok(e.svc.Expire(e.soon(), d.behind), "Expire of the harness")
	what := x.call + " on a session that ended"
	e.is(e.ends(o, e.TTL/3+e.Patience, what), what, driver.ErrSessionLost)
}

// sessionClosed: the end of the own session must not read as a change.
func (x subject) sessionClosed(e *env) {
	d, known := x.duel(e)
	o := e.start(func() error { _, err := x.read(e.ctx, d.behind, d.queue, known); return err })
	e.settle()
	e.ok(d.behind.Close(e.soon()), "Close")
	what := x.call + " on a session that was closed"
	if err := e.ends(o, e.Patience, what); err == nil || errors.Is(err, driver.ErrGone) {
		e.fail("ErrSessionLost", "%s: %v", what, err)
	}
}

// resetIsNoChange waits without repeating: the wait may go on or say
// ErrUnavailable, but it must not say that something has changed.
func (x subject) resetIsNoChange(e *env) {
	d, known := x.duel(e)
	o := e.start(func() error { _, err := x.read(e.ctx, d.behind, d.queue, known); return err })
	e.settle()
	d.client.Link.Reset()
	e.settle()
	select {
	case <-o.done:
		e.is(o.err, x.call+" after a broken connection", driver.ErrUnavailable)
	default:
	}
}

var queueCases = []testCase{
	{name: "Q1/a queue is shown with what the session has finished", body: queueFresh},
	{name: "Q1/each change is shown", body: queueChanges},
	{name: "Q1/a conversion is shown", body: queueConversion},
	{name: "Q1/changes while disconnected are shown", needs: []Lever{Hold, Reset}, body: queueDisconnected},
	{name: "Q1/the end of the session ends it", needs: []Lever{Expire}, body: queueSessionLost},
	{name: "Q1/one that was given up leaves at most one watch", needs: []Lever{Watches}, body: queueWatchesGo},
}

// queueWatcher is a WatchQueue under way.
type queueWatcher struct {
	*outcome
	mu     sync.Mutex
	latest []driver.Place // what was shown last
	late   bool           // show was called after it had returned false
}

// watchQueue starts to watch a queue, until a view has as many places as until.
// While the service is unavailable it begins again.
func (e *env) watchQueue(s session, queue driver.Queue, until int) *queueWatcher {
	w := &queueWatcher{}
	w.outcome = e.start(func() error {
		for {
			over := false
			err := s.WatchQueue(e.ctx, queue, func(places []driver.Place) bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.late = w.late || over
				w.latest = places
				over = len(places) == until
				return !over
			})
			if !errors.Is(err, driver.ErrUnavailable) || !sleep(e.ctx, e.Settle/20) {
				return err
			}
		}
	})
	return w
}

// shows reports whether exactly these places were shown last.
func (w *queueWatcher) shows(places ...driver.Place) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Equal(w.latest, places)
}

// showsQueue waits until the watcher was shown exactly these places.
func (e *env) showsQueue(w *queueWatcher, after string, want ...driver.Joined) {
	places := make([]driver.Place, len(want))
	for i, j := range want {
		places[i] = j.Place
	}
	e.eventually("WatchQueue shows "+sprint(ids(places))+" after "+after, func() bool { return w.shows(places...) })
}

// queueFresh: the first view has what the session did before, and lacks what it removed.
func queueFresh(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	for range 5 {
		first, own, gone := e.join(a, queue), e.join(b, queue), e.join(b, queue)
		e.leave(b, queue, gone.Place)
		var view []driver.Place
		err := b.WatchQueue(e.soon(), queue, func(places []driver.Place) bool { view = places; return false })
		e.ok(err, "WatchQueue whose first view ends it")
		e.same(ids(view), []string{first.Place.ID, own.Place.ID}, "the first view:")
		e.leave(a, queue, first.Place)
		e.leave(b, queue, own.Place)
	}
}

// queueChanges: of joins and leavings, of its own session and of another one, and when a session ends.
func queueChanges(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	w := e.watchQueue(b, queue, 4)
	first := e.join(a, queue)
	e.showsQueue(w, "a join", first)
	second := e.join(b, queue)
	e.showsQueue(w, "a join of its own session", first, second)
	third := e.join(a, queue)
	e.leave(a, queue, first.Place)
	e.showsQueue(w, "a join and a leaving", second, third)
	e.ok(a.Close(e.soon()), "Close")
	e.showsQueue(w, "the end of a session", second)
	e.leave(b, queue, second.Place)
	e.eventually("WatchQueue shows nobody after all have left", func() bool { return w.shows() })
	for range 4 {
		e.join(b, queue)
	}
	if err := e.ends(w.outcome, e.Patience, "WatchQueue whose show returns false"); err != nil {
		e.fail("nil", "WatchQueue whose show returns false: %v", err)
	}
	e.leave(b, queue, e.join(b, queue).Place)
	e.settle()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.late {
		e.fail("show is not called again", "WatchQueue calls show after it has returned false")
	}
}

// queueConversion: the entry that was converted stands where it stood.
func queueConversion(e *env) {
	q := e.trio()
	w := e.watchQueue(q.behind, q.queue, 0)
	e.showsQueue(w, "three joins", q.first, q.own, q.last)
	q.own = e.convert(q.s, q.queue, q.own, "r", "")
	e.showsQueue(w, "a conversion", q.first, q.own, q.last)
}

// queueDisconnected: the watch is set again, or fails, and nothing is missed.
func queueDisconnected(e *env) {
	d := e.duel()
	w := e.watchQueue(d.behind, d.queue, 0)
	e.showsQueue(w, "two joins", d.first, d.second)
	d.cut()
	d.client.Link.Reset()
	third := e.join(d.ahead, d.queue)
	e.leave(d.ahead, d.queue, d.first.Place)
	e.settle()
	d.client.Link.Reset()
	d.client.Link.Heal()
	e.showsQueue(w, "changes while its client was disconnected", d.second, third)
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	e.is(d.behind.WatchQueue(ctx, d.queue, func([]driver.Place) bool { return true }), "WatchQueue whose context has ended", context.Canceled)
}

// queueSessionLost: nothing is shown to a session that has ended.
func queueSessionLost(e *env) {
	d := e.duel()
	w := e.watchQueue(d.behind, d.queue, 0)
	e.showsQueue(w, "two joins", d.first, d.second)
	e.ok(e.svc.Expire(e.soon(), d.behind), "Expire of the harness")
	e.is(e.ends(w.outcome, e.TTL/3+e.Patience, "WatchQueue of a lost session"), "WatchQueue of a lost session", driver.ErrSessionLost)
}

// queueWatchesGo: contenders come and go, and each begins to watch.
func queueWatchesGo(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	first := e.join(a, queue)
	before := e.watches()
	for range 10 {
		ctx, cancel := context.WithCancel(e.ctx)
		shown := make(chan struct{}, 1)
		o := e.start(func() error {
			return b.WatchQueue(ctx, queue, func([]driver.Place) bool {
				select {
				case shown <- struct{}{}:
				default:
				}
				return true
			})
		})
		select {
		case <-shown:
		case <-time.After(e.Patience):
		}
		cancel()
		e.is(e.ends(o, e.Patience, "WatchQueue that is given up"), "WatchQueue that is given up", context.Canceled)
	}
	e.eventually("at most one watch more", func() bool { return e.watches() <= before+1 })
	e.leave(a, queue, first.Place)
	e.eventually("no watch more once the queue has changed", func() bool { return e.watches() <= before })
}
