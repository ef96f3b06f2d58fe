package coordinatortest

import (
	"context"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

var removeCases = []testCase{
	{name: "X1/a removed entry is gone and no other", body: removeOne},
	{name: "X1/remove finds an entry that was converted", body: removeConverted},
	{name: "X1/whoever waits for a removed entry is told", body: removeWatched},
	{name: "X1/to be removed is no pass", body: removeFollowed},
	{name: "X1/the contender of a removed entry is told", body: removeTold},
	{name: "X1/a line goes on behind a removed entry", body: removeGoesOn},
	{name: "X2/a repeated remove deletes nothing", body: removeRepeated},
	{name: "X2/remove goes by the token too", body: removeTokens},
	{name: "X2/remove does not reach another line", body: removeLines},
	{name: "X2/remove spares the same id joined later", body: removeLater},
	{name: "X2/remove of an odd key deletes nothing", body: removeOdd},
	{name: "X3/remove may be repeated after a lost reply", needs: []Lever{Hold, Reset}, body: removeLostReply},
}

// remove removes, which must succeed.
func (e *env) remove(s session, line driver.Line, own driver.Joined) {
	e.ok(s.Remove(e.soon(), line, own.Place.Key, own.Token), "Remove")
}

// spares checks that a Remove finds nothing, and that the line of a duel keeps both.
func (e *env) spares(d *duel, line driver.Line, own driver.Joined, what string) {
	for _, s := range []session{d.ahead, d.behind} {
		e.is(s.Remove(e.soon(), line, own.Place.Key, own.Token), "Remove of "+what, driver.ErrGone)
	}
	e.stands(d.behind, d.line, d.first.Place.ID, d.second.Place.ID)
}

// removeOne: the first, the last and one in between, each by a session that has nothing to do with it.
func removeOne(e *env) {
	d, third := e.duel(), e.open()
	last := e.join(d.ahead, d.line)
	e.remove(third, d.line, d.second)
	e.same(e.standing(third, d.line), []string{d.first.Place.ID, last.Place.ID}, "without the second")
	e.checks(d.behind, d.line, d.second, false, "an entry that was removed")
	e.remove(d.behind, d.line, last)
	e.same(e.standing(d.behind, d.line), []string{d.first.Place.ID}, "without the last")
	e.remove(d.ahead, d.line, d.first) // its own
	e.same(e.standing(d.ahead, d.line), []string{}, "without anybody")
	again := e.join(d.behind, d.line)
	e.keeps(third, d.line, again.Place.ID)
}

func removeConverted(e *env) {
	d := e.duel()
	moved := e.convert(d.ahead, d.line, d.first, "r", "")
	e.spares(d, d.line, d.first, "the place before a conversion")
	e.remove(d.behind, d.line, moved)
	e.stands(d.ahead, d.line, d.second.Place.ID)
}

func removeWatched(e *env) {
	d, third := e.duel(), e.open()
	w := e.watch(d.behind, d.line, d.first.Place)
	e.quiet(w, "nothing")
	e.remove(third, d.line, d.first)
	e.fires(w, "the place was removed")
	e.same(e.ahead(d.behind, d.line, d.second.Place), []string{}, "ahead of the next one:")
}

// removeFollowed: nobody may take for an admission what need not be one, whatever the driver leaves for those who follow.
func removeFollowed(e *env) {
	d, third := e.duelBy(passes), e.open()
	last := e.joinBehind(d.ahead, d.line)
	f := e.followed(d.ahead, d.line, last.Place, d.second.Place)
	e.quiet(f.outcome, "nothing")
	e.remove(third, d.line, d.second)
	e.told(f, "the one ahead was removed", false)
	e.same(e.ahead(d.ahead, d.line, last.Place), []string{d.first.Place.ID}, "ahead of the one behind it:")
	f = e.followed(d.ahead, d.line, last.Place, d.first.Place)
	e.remove(third, d.line, d.first)
	e.told(f, "the first was removed", false)
}

func removeTold(e *env) {
	d, third := e.duelBy(passes), e.open()
	w := e.watch(d.behind, d.line, d.second.Place)
	e.remove(third, d.line, d.second)
	e.fires(w, "its own entry was removed")
	_, err := d.behind.Ahead(e.soon(), d.line, d.second.Place)
	e.is(err, "Ahead of one that was removed", driver.ErrGone)
	e.remove(third, d.line, d.first)
	e.eventually("Ahead of one that was removed says so", func() bool { // a member may be behind
		_, err = d.ahead.Ahead(e.soon(), d.line, d.first.Place)
		return err != nil
	})
	e.is(err, "Ahead of one that was removed", driver.ErrGone)
	e.is(d.ahead.Write(e.soon(), d.line, d.first.Place, []byte("v")), "Write of one that was removed", driver.ErrGone)
	e.is(d.ahead.Pass(e.soon(), d.line, d.first.Place), "Pass of one that was removed", driver.ErrGone)
	for _, s := range []session{d.ahead, d.behind} {
		e.ok(s.Renew(e.soon()), "Renew of a session whose entry was removed")
	}
}

// removeGoesOn: whoever joins after that is told of nobody who is not there, and the line hands on from each to the next.
func removeGoesOn(e *env) {
	d, third := e.duelBy(passes), e.open()
	e.remove(third, d.line, d.second)
	next := e.joinBehind(third, d.line)
	if next.First {
		e.fail("First is false", "it is true behind %+v", d.first)
	}
	e.near(next, "behind a removed entry:", d.first.Place, d.second.Place)
	f := e.followed(third, d.line, next.Place, d.first.Place)
	d.out(e)
	e.told(f, "the one ahead passed", true)
	e.remove(d.ahead, d.line, next)
	alone := contender()
	alone.Alone = true
	e.joinAs(d.behind, d.line, alone)
	e.keeps(third, d.line, alone.ID)
}

func removeRepeated(e *env) {
	d := e.duel()
	third := e.join(d.ahead, d.line)
	e.remove(d.ahead, d.line, third)
	for range 2 {
		e.spares(d, d.line, third, "an entry that was removed")
	}
}

func removeTokens(e *env) {
	d := e.duel()
	for _, token := range []driver.Token{0, -1, 1, d.first.Token - 1, d.first.Token + 1, d.second.Token} {
		if forged := d.first; token != forged.Token {
			forged.Token = token
			e.spares(d, d.line, forged, fmt.Sprintf("an entry with token %d instead of %d", token, d.first.Token))
		}
	}
}

func removeLines(e *env) {
	d := e.duel()
	other := driver.Line(string(d.line) + "-")
	e.spares(d, e.line(), d.first, "an entry of another line")
	e.spares(d, other, d.first, "an entry of a line with a shorter name")
	own := e.join(d.ahead, other)
	e.spares(d, d.line, own, "an entry of a line with a longer name")
	e.keeps(d.behind, other, own.Place.ID)
}

func removeLater(e *env) {
	d, c := e.duel(), contender() // the two keep the line from being cleaned away, and counting anew
	old := e.joinAs(d.ahead, d.line, c)
	e.leave(d.ahead, d.line, old.Place)
	now := e.joinAs(d.ahead, d.line, c)
	mixed := old
	mixed.Token = now.Token
	for _, stale := range []driver.Joined{old, mixed} {
		err := d.behind.Remove(e.soon(), d.line, stale.Place.Key, stale.Token)
		e.is(err, "Remove of an earlier entry of the same ID", driver.ErrGone)
	}
	e.keeps(d.behind, d.line, d.first.Place.ID, d.second.Place.ID, c.ID)
}

// removeOdd: see checkOdd.
func removeOdd(e *env) {
	d := e.duel()
	key := d.first.Place.Key
	for _, odd := range oddKeys(d.line, key) {
		e.is(d.behind.Remove(e.soon(), d.line, odd, d.first.Token), fmt.Sprintf("Remove of the key %.40q instead of %q", odd, key), driver.ErrGone)
	}
	e.keeps(d.behind, d.line, d.first.Place.ID, d.second.Place.ID)
}

// removeLostReply: before the call is repeated somebody else has joined. A driver that looks before it removes may not have come as far as
// that when the connection breaks.
func removeLostReply(e *env) {
	c := e.connect()
	s, holder := e.openOn(c), e.open()
	line := e.line()
	own := e.join(holder, line)
	e.stands(s, line, own.Place.ID)
	remove := func(ctx context.Context) error { return s.Remove(ctx, line, own.Place.Key, own.Token) }
	c.Link.HoldReplies()
	o := e.start(func() error { return remove(e.soon()) })
	e.settle()
	e.waits(o, "HoldReplies")
	c.Link.Reset()
	c.Link.Heal()
	_ = e.ends(o, e.Patience, "a Remove whose connection broke")
	next := e.join(holder, line)
	if err := e.again(remove); err != nil {
		e.is(err, "Remove, repeated while the service is unavailable", driver.ErrGone)
	}
	e.keeps(holder, line, next.Place.ID)
}
