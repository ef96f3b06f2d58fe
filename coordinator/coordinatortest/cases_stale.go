package coordinatortest

import (
	"context"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

// staleCases check J7, and what it must leave alone.
var staleCases = []testCase{
	{name: "J7/a join with the record's version joins", body: versionJoins},
	{name: "J7/a join with another version is refused and leaves no entry", body: versionRefused},
	{name: "J7/a refused join wakes nobody", body: staleWakesNobody},
	{name: "J7/a refused join leaves no watch", needs: []Lever{Watches}, body: staleNoWatch},
	{name: "J7/a join under way meets the record as it is when it arrives", needs: []Lever{Hold, Strand}, body: joinMeetsNewer},
	{name: "J2/joining again finds the entry though the record has changed", body: joinAgainStale},
}

// versionJoins: in a line where nobody is and in one where somebody is, alone and not, and without a version.
func versionJoins(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	version := e.setRecord(a, line, "one", 0)
	for i, value := range []string{"two", "three"} {
		c := contender()
		c.Record, c.Alone = version, true
		first := e.joinAs(b, line, c)
		c = contender()
		c.Record = version
		second := e.joinAs(a, line, c)
		if r := e.record(b, line); r.Version != version { // who was let in by a version has seen it
			e.fail(fmt.Sprintf("the record of version %d", version), "a session that has joined with that version reads version %d", r.Version)
		}
		third := e.join(b, line) // who knows no version joins in any
		e.same(e.ahead(b, line, third.Place), []string{first.Place.ID, second.Place.ID}, fmt.Sprintf("ahead in round %d:", i+1))
		version = e.setRecord(a, line, value, version)
		e.leave(b, line, first.Place)
		e.leave(a, line, second.Place)
		e.leave(b, line, third.Place)
		e.stands(b, line)
		e.stands(a, line)
	}
}

// refuseStale tries to join with a version that the record does not have.
func (e *env) refuseStale(s session, line driver.Line, version driver.Version, alone bool) {
	c := contender()
	c.Record, c.Alone = version, alone
	_, err := s.Join(e.soon(), line, c)
	e.is(err, fmt.Sprintf("Join (Alone: %t) with a version that is not the record's", alone), driver.ErrStale)
}

// versionRefused: an entry that was let in under an old limit would hold what is not there any more.
func versionRefused(e *env) {
	a, b := e.open(), e.open()
	line, other := e.line(), e.line()
	elsewhere := e.setRecord(a, other, "other", 0)
	e.refuseStale(a, line, elsewhere, false) // no record, and a line that nobody has joined
	e.refuseStale(a, line, elsewhere, true)
	older := e.setRecord(a, line, "one", 0)
	version := e.setRecord(a, line, "two", older)
	e.refuseStale(b, line, older, false)
	e.refuseStale(b, line, older, true)
	e.keeps(b, line)
	c := contender()
	c.Record, c.Alone = version, true
	own := e.joinAs(a, line, c)
	e.refuseStale(a, line, older, false)
	e.refuseStale(b, line, older, false)
	e.keeps(b, line, own.Place.ID)
	again := contender() // an earlier Join that was never applied
	again.Record, again.Again = older, true
	_, err := b.Join(e.soon(), line, again)
	e.is(err, "Join again of one who does not stand in the line", driver.ErrStale)
	e.leave(a, line, own.Place)
	e.keeps(b, line)
}

// staleWakesNobody: to join, look and leave would do for the outcome.
func staleWakesNobody(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	older := e.setRecord(a, line, "one", 0)
	version := e.setRecord(a, line, "two", older)
	first := e.join(a, line)
	e.join(b, line)
	w := e.watch(b, line, first.Place)
	h := e.start(func() error { _, err := b.Record(e.ctx, line, version); return err })
	for range 5 {
		e.refuseStale(a, line, older, false)
		e.refuseStale(e.open(), line, older, false)
	}
	e.quiet(w, "refused Joins")
	e.waiting(h, "Record", "refused Joins")
	e.leave(a, line, first.Place)
	e.fires(w, "the leaving")
}

// staleNoWatch: a watch that nobody waits for would wake this client later.
func staleNoWatch(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	older := e.setRecord(a, line, "one", 0)
	e.setRecord(a, line, "two", older)
	e.join(a, line)
	before := e.watches()
	for range 5 {
		e.refuseStale(b, line, older, false)
	}
	e.settle()
	if now := e.watches(); now > before {
		e.fail(fmt.Sprintf("%d watches as before", before), "%d watches after refused Joins", now)
	}
}

// joinMeetsNewer: the record had the version when the request was sent, and has another when it arrives.
func joinMeetsNewer(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	line, x := e.line(), contender()
	stays := e.join(seer, line)
	x.Record = e.setRecord(seer, line, "one", 0)
	e.acquaint(s, line)
	e.strand(c, func(ctx context.Context) error { _, err := s.Join(ctx, line, x); return err })
	e.setRecord(seer, line, "two", x.Record)
	c.Link.Deliver()
	e.keeps(seer, line, stays.Place.ID)
	x.Again = true
	err := e.again(func(ctx context.Context) error { _, err := s.Join(ctx, line, x); return err })
	e.is(err, "Join with a version that is not the record's any more", driver.ErrStale)
	e.keeps(seer, line, stays.Place.ID)
}

// joinAgainStale: the contender was let in when its version was the record's. That its reply was lost does not
// change it.
func joinAgainStale(e *env) {
	s, other := e.open(), e.open()
	line, c := e.line(), contender()
	stays := e.join(other, line)
	c.Record = e.setRecord(other, line, "one", 0)
	own := e.joinAs(s, line, c)
	e.setRecord(other, line, "two", c.Record)
	c.Again = true
	e.same2(e.joinAs(s, line, c), own)
	e.keeps(s, line, stays.Place.ID, c.ID)
}
