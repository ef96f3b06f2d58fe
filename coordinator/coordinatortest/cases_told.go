package coordinatortest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// told waits for another state while something happens, and changes it.
func (x subject) told(happen func(e *env, d *duel, change func(value string))) func(e *env) {
	return func(e *env) {
		d, known := x.duel(e)
		o := x.reach(e, d.behind, d.line, known, "new")
		e.settle()
		e.waiting(o, x.call, "nothing")
		happen(e, d, func(value string) { x.change(e, d, value) })
		e.reached(o, x.call, "a change")
	}
}

// toldCases check that no change is missed, whatever happens to the one who waits.
func (x subject) toldCases(clause string) []testCase {
	change := func(_ *env, _ *duel, change func(string)) { change("new") }
	return []testCase{
		{name: clause + "/a change is told", body: x.told(change)},
		{name: clause + "/a change at the time of the call is told", body: x.toldAtOnce},
		{name: clause + "/one who gives up takes nobody along", body: x.oneGivesUp},
		{name: clause + "/a change while cut off is told after healing", needs: []Lever{Hold},
			body: x.told(func(e *env, d *duel, change func(string)) {
				d.cut()
				change("new")
				e.settle()
				d.client.Link.Heal()
			})},
		{name: clause + "/a change before the request arrives is told", needs: []Lever{Hold}, body: x.toldBeforeArrival},
		{name: clause + "/a change while disconnected is told", needs: []Lever{Hold, Reset},
			body: x.told(func(e *env, d *duel, change func(string)) {
				d.cut()
				d.client.Link.Reset() // what the service sends is lost for good
				change("new")
				e.settle()
				d.client.Link.Reset()
				d.client.Link.Heal()
			})},
		{name: clause + "/a change after a reconnect is told", needs: []Lever{Reset},
			body: x.told(func(e *env, d *duel, change func(string)) {
				d.client.Link.Reset()
				e.settle()
				change("new")
			})},
		{name: clause + "/a change after a restart is told", needs: []Lever{Restart},
			body: x.told(func(e *env, d *duel, change func(string)) {
				e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness")
				change("new")
			})},
		{name: clause + "/a change that was compacted away is told", needs: []Lever{Hold, Reset, Compact},
			body: x.told(func(e *env, d *duel, change func(string)) {
				d.cut()
				for i := range 5 { // history to forget
					change(fmt.Sprint(i))
				}
				change("new")
				e.ok(e.svc.Compact(e.soon()), "Compact of the harness")
				d.client.Link.Reset() // to resume, the wait must ask for what is forgotten
				d.client.Link.Heal()
			})},
		{name: clause + "/the last of many changes is never missed", body: func(e *env) { x.followMany(e, false) }},
		{name: clause + "/the last of many changes is never missed over reconnects", needs: []Lever{Reset},
			body: func(e *env) { x.followMany(e, true) }},
		{name: clause + "/what is shown never goes back", body: x.neverBack},
	}
}

// toldAtOnce meets the moment between looking and watching, over and over.
func (x subject) toldAtOnce(e *env) {
	d, known := x.duel(e)
	for i := range 30 {
		value := fmt.Sprint(i)
		o := x.reach(e, d.behind, d.line, known, value)
		time.Sleep(time.Duration(rand.Int64N(int64(e.Settle / 50))))
		x.change(e, d, value)
		e.reached(o, x.call, "a change at the same time")
		known = x.now(e, d.behind, d.line).version // as new as what it was told before
	}
}

// oneGivesUp: waits of one session for the same may share what they have at the service.
func (x subject) oneGivesUp(e *env) {
	d, known := x.duel(e)
	ctx, cancel := context.WithCancel(e.ctx)
	wait := func() error { _, err := x.read(ctx, d.behind, d.line, known); return err }
	first := e.start(wait)
	time.Sleep(e.Settle / 20)
	others := []*outcome{x.reach(e, d.behind, d.line, known, "new"), x.reach(e, d.behind, d.line, known, "new")}
	e.settle()
	cancel()
	e.is(e.ends(first, e.Patience, "one who gives up"), "one who gives up", context.Canceled)
	e.settle()
	for _, o := range others {
		e.waiting(o, x.call, "another gave up")
	}
	x.change(e, d, "new")
	for _, o := range others {
		e.reached(o, x.call, "a change")
	}
}

// toldBeforeArrival: for the client the state was the one it knows when it called; the service never saw it.
func (x subject) toldBeforeArrival(e *env) {
	d, known := x.duel(e)
	d.client.Link.HoldRequests()
	o := x.reach(e, d.behind, d.line, known, "new")
	e.settle()
	x.change(e, d, "new")
	d.client.Link.Heal()
	e.reached(o, x.call, "a change before the service heard of the wait")
}

// followMany: several follow, on one client and on others, while changes come faster than they look.
func (x subject) followMany(e *env, reconnects bool) {
	d, _ := x.duel(e)
	var readers []*outcome
	for _, s := range []session{d.behind, e.openOn(d.client), d.ahead, e.open()} {
		readers = append(readers, x.reach(e, s, d.line, driver.Any, "last"))
	}
	for i := range 30 {
		x.change(e, d, fmt.Sprint(i))
		sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/50))))
		if reconnects && i%10 == 5 {
			d.client.Link.Reset()
		}
	}
	x.change(e, d, "last")
	for _, o := range readers {
		e.reached(o, x.call, "the last of many changes")
	}
}

// neverBack: replicas that answer in turn must not lead a reader back and forth.
func (x subject) neverBack(e *env) {
	d, _ := x.duel(e)
	const n = 20
	writer := e.start(func() error {
		for i := range n {
			if err := x.set(e.soon(), d, fmt.Sprintf("%04d", i)); err != nil {
				return err
			}
			sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/50))))
		}
		return nil
	})
	latest, end := "", fmt.Sprintf("%04d", n-1)
	for limit := time.Now().Add(e.Patience); latest != end; sleep(e.ctx, time.Duration(rand.Int64N(int64(e.Settle/100)))) {
		got := x.now(e, d.behind, d.line).value
		if got == "old" && latest == "" {
			continue
		}
		if got == "old" || got < latest {
			e.fail("at least as new as before", "%s shows %q after %q", x.call, got, latest)
		}
		if latest = got; time.Now().After(limit) {
			e.fail("the last value", "after %v %s shows %q", e.Patience, x.call, got)
		}
	}
	e.ok(e.ends(writer, e.Patience, "one who writes"), "one who writes")
}
