package coordinatortest

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

// exit is a way to leave a line by oneself: Leave or Pass, for which the same clauses hold.
type exit struct {
	verb   string
	passes bool // and whoever waits follows
	call   func(s session, ctx context.Context, line driver.Line, own driver.Place) error
}

var (
	leaves = exit{verb: "leave", call: session.Leave}
	passes = exit{verb: "pass", call: session.Pass, passes: true}
)

var leaveCases = join(leaves.cases(), passes.cases())

func (x exit) cases() []testCase {
	return []testCase{
		{name: "L1/after " + x.verb + " the entry is gone", body: x.removes},
		{name: "L2/a repeated " + x.verb + " deletes nothing", body: x.repeated},
		{name: "L2/a stale " + x.verb + " spares the same id joined later", body: x.stale},
		{name: "L2/a foreign " + x.verb + " deletes nothing", body: x.foreign},
		{name: "L2/" + x.verb + " of a removed entry says so", needs: []Lever{Remove}, body: x.removed},
		{name: "L3/" + x.verb + " may be repeated after a lost reply", needs: []Lever{Hold, Reset}, body: x.lostReply},
	}
}

// leave leaves in this way, which must succeed.
func (x exit) leave(e *env, s session, line driver.Line, own driver.Place) {
	e.ok(x.call(s, e.soon(), line, own), x.verb)
}

// leaveUntil leaves as package coordinator does: again while the outcome is unknown.
func (x exit) leaveUntil(e *env, s session, line driver.Line, own driver.Place) {
	err := e.again(func(ctx context.Context) error { return x.call(s, ctx, line, own) })
	if err != nil {
		e.is(err, x.verb+", repeated while the service is unavailable", driver.ErrGone)
	}
}

// gone checks that the exit finds no entry and that the line keeps the given ones.
func (x exit) gone(e *env, s session, line driver.Line, p driver.Place, what string, keep ...string) {
	e.is(x.call(s, e.soon(), line, p), x.verb+what, driver.ErrGone)
	e.keeps(s, line, keep...)
}

func (x exit) contender() driver.Contender {
	c := contender()
	c.Follows = x.passes
	return c
}

// removes looks from both sides: the one who left, and the one who is next.
func (x exit) removes(e *env) {
	d := e.duelBy(x)
	x.leave(e, d.ahead, d.line, d.first.Place)
	e.same(e.standing(d.ahead, d.line), []string{d.second.Place.ID}, "its own session lists")
	e.fires(e.watch(d.behind, d.line, d.first.Place), x.verb+" returned nil")
	e.same(e.ahead(d.behind, d.line, d.second.Place), []string{}, "ahead of the next one:")
	e.stands(d.behind, d.line, d.second.Place.ID)
}

// repeated: the next one must not be removed in the place of the one that has left.
func (x exit) repeated(e *env) {
	d := e.duelBy(x)
	third := e.joinAs(d.ahead, d.line, x.contender())
	x.leave(e, d.ahead, d.line, d.first.Place)
	for range 2 {
		x.gone(e, d.ahead, d.line, d.first.Place, " repeated", d.second.Place.ID, third.Place.ID)
	}
}

// stale: the entry of another time has the same ID, session and line.
func (x exit) stale(e *env) {
	s, other := e.open(), e.open()
	line, c := e.line(), x.contender()
	keeper := e.joinAs(other, line, x.contender()) // an empty line might be cleaned away, and count anew
	old := e.joinAs(s, line, c)
	e.leave(s, line, old.Place)
	behind := e.joinAs(other, line, x.contender())
	e.joinAs(s, line, c)
	x.gone(e, s, line, old.Place, " of an earlier entry of the same ID", keeper.Place.ID, behind.Place.ID, c.ID)
	e.fires(e.watch(other, line, old.Place), "the earlier entry of the same ID had left")
}

// foreign: a place belongs to the session in it, whoever has got hold of it.
func (x exit) foreign(e *env) {
	d := e.duelBy(x)
	all := []string{d.first.Place.ID, d.second.Place.ID}
	x.gone(e, d.behind, d.line, d.first.Place, " of a place of another session", all...)
	mixed := d.first.Place
	mixed.ID, mixed.Session = d.second.Place.ID, d.second.Place.Session
	x.gone(e, d.behind, d.line, mixed, " with another's key and the own ID and session", all...)
	elsewhere := e.line()
	x.gone(e, d.ahead, elsewhere, d.first.Place, " of a place of another line")
	e.keeps(d.behind, d.line, all...)
}

// removed: an operator was faster. The holder must hear that it held nothing any more.
func (x exit) removed(e *env) {
	d := e.duelBy(x)
	e.ok(e.svc.Remove(e.soon(), d.line, d.first.Place), "Remove of the harness")
	x.gone(e, d.ahead, d.line, d.first.Place, " of a removed entry", d.second.Place.ID)
}

// lostReply: before the call is repeated somebody else has joined the line.
func (x exit) lostReply(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	line := e.line()
	own := e.joinAs(s, line, x.contender())
	e.stands(seer, line, own.Place.ID)
	e.lostReply(c,
		func(ctx context.Context) error { return x.call(s, ctx, line, own.Place) },
		func() bool { return len(e.list(seer, line)) == 0 })
	next := e.joinAs(seer, line, x.contender())
	x.leaveUntil(e, s, line, own.Place)
	e.keeps(seer, line, next.Place.ID)
}
