package coordinatortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

var recordToldCases = append(recordSubject.toldCases("D1"), recordSubject.waitCases("D2")...)

var recordCases = []testCase{
	{name: "Record/any returns at once what is there", body: recordAny},
	{name: "Record/a version that has passed ends the wait at once", body: recordPassed},
	{name: "Record/what contenders do wakes nobody", body: recordOthers},
	{name: "Record/the first record of a queue ends the wait for one", body: recordFirst},
	{name: "Queue/records of similar names do not see each other", body: similarRecords},
	{name: "Version/each state of a record has its own", body: recordVersions},
	{name: "D1/a record is as the session has left it", body: recordFresh},
	{name: "D4/a queue with a record and nobody in it is empty", body: recordIsNobody},
	{name: "D4/a record stays when all are gone", body: recordStays},
}

// isRecord checks a record that Record returned.
func (e *env) isRecord(r driver.Record, value string, version driver.Version, when string) {
	if r.Version != version || !bytes.Equal(r.Value, []byte(value)) {
		e.fail(fmt.Sprintf("a record of %.20q, version %d", value, version), "%s it is %.20q, version %d", when, r.Value, r.Version)
	}
}

// records waits until another session shows a record.
func (e *env) records(s session, queue driver.Queue, value string, version driver.Version) {
	var r driver.Record
	e.eventually(fmt.Sprintf("a record of %.20q, version %d, in all sessions", value, version), func() bool {
		e.ok(e.again(func(ctx context.Context) (err error) {
			r, err = s.Record(ctx, queue, driver.Any)
			return err
		}), "Record of any version")
		return r.Version == version && string(r.Value) == value
	})
}

func recordAny(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	e.isRecord(e.record(a, queue), "", 0, "in a queue that has none")
	own := e.join(a, queue)
	e.isRecord(e.record(a, queue), "", 0, "in a queue with a contender that has none")
	version := e.setRecord(b, queue, "limit 3", 0)
	e.isRecord(e.record(b, queue), "limit 3", version, "once written")
	e.records(a, queue, "limit 3", version)
	e.leave(a, queue, own.Place)
	e.isRecord(e.record(a, queue), "limit 3", version, "in an empty queue")
}

func recordPassed(e *env) {
	s := e.open()
	queue := e.queue()
	older := e.setRecord(s, queue, "one", 0)
	version := e.setRecord(s, queue, "two", older)
	for _, known := range []driver.Version{0, older} {
		r, err := s.Record(e.soon(), queue, known)
		e.ok(err, "Record that knows a version that has passed")
		e.isRecord(r, "two", version, "for one who knows the past")
	}
}

// recordOthers: a semaphore's waiters all wait for its record, and contenders
// come and go all the time.
func recordOthers(e *env) {
	d, known := recordSubject.duel(e)
	o := recordSubject.reach(e, d.behind, d.queue, known, "new")
	e.settle()
	third := e.join(d.ahead, d.queue)
	e.comeAndGo(d, d.behind)
	e.write(d.ahead, d.queue, third.Place, "written")
	e.convert(d.ahead, d.queue, third, "r", "converted")
	e.setRecord(d.ahead, e.queue(), "elsewhere", 0)
	e.ok(d.ahead.Close(e.soon()), "Close")
	e.leave(d.behind, d.queue, d.second.Place)
	e.settle()
	e.waiting(o, "Record", "contenders came, went and wrote")
	d.ahead = e.open()
	e.setRecordUntil(d.ahead, d.queue, "new")
	e.reached(o, "Record", "a change")
}

// recordFirst: there is nothing yet that could be watched.
func recordFirst(e *env) {
	s, other := e.open(), e.open()
	queue := e.queue()
	o := recordSubject.reach(e, s, queue, 0, "new")
	e.settle()
	e.leave(other, queue, e.join(other, queue).Place) // the queue itself comes and goes
	e.settle()
	e.waiting(o, "Record", "nothing but a contender")
	e.setRecord(other, queue, "new", 0)
	e.reached(o, "Record", "the first record")
}

// similarRecords: names contain, extend, escape or spell each other.
func similarRecords(e *env) {
	s, id := e.open(), newID()
	versions := map[driver.Queue]driver.Version{}
	for _, name := range []string{"m/%sa", "m/%sa%%2Fb", "m/%saa", "m/%sA", "m/%sa.b", "m/%sa-", "m/%%61%s", "s/%sa"} {
		queue := driver.Queue(fmt.Sprintf(name, id))
		e.isRecord(e.record(s, queue), "", 0, fmt.Sprintf("with records in %d queues of similar names, that of %s:", len(versions), queue))
		versions[queue] = e.setRecord(s, queue, string(queue), 0)
	}
	for queue, version := range versions {
		e.isRecord(e.record(s, queue), string(queue), version, "with records in queues of similar names")
		e.same(e.standing(s, queue), []string{}, "a queue with a record has")
	}
}

// recordVersions: the same value again is another state, else a late write
// could not be told from a timely one.
func recordVersions(e *env) {
	s := e.open()
	queue := e.queue()
	seen := map[driver.Version]bool{}
	var version driver.Version
	for _, value := range []string{"a", "b", "a", "a", "b"} {
		version = e.setRecord(s, queue, value, version)
		if seen[version] {
			e.fail("a version of its own", "version %d comes back", version)
		}
		seen[version] = true
	}
}

func recordFresh(e *env) {
	s := e.open()
	queue := e.queue()
	var version driver.Version
	for i := range 20 {
		value := fmt.Sprint(i)
		version = e.setRecord(s, queue, value, version)
		e.isRecord(e.record(s, queue), value, version, "after the session has written it")
	}
}

// recordIsNobody: on some services a record lives where contenders do.
func recordIsNobody(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	version := e.setRecord(a, queue, "record", 0)
	for range 2 {
		e.same(e.standing(a, queue), []string{}, "a queue with a record and nobody in it has")
		e.isNobody(e.head(a, queue), "in a queue with a record and nobody in it")
		c := contender()
		c.Alone = true
		own := e.joinAs(b, queue, c)
		view := e.view(b, queue, own.Place)
		e.same(ids(view.Ahead), []string{}, "ahead of the only contender:")
		e.last(b, queue, own, true, "alone in a queue with a record")
		e.isHead(e.head(b, queue), own, "", "with a record and one contender")
		version = e.setRecord(b, queue, "another", version)
		e.same(e.standing(b, queue), []string{own.Place.ID}, "a queue with a record and one contender has")
		e.leave(b, queue, own.Place)
		e.stands(a, queue)
	}
}

// recordStays: whatever ties contenders to their sessions must not hold the
// record, and what is cleaned away when a queue is empty must not take it along.
func recordStays(e *env) {
	a, seer := e.open(), e.open()
	queue := e.queue()
	e.leave(seer, queue, e.join(seer, queue).Place)
	value, version := "record", e.setRecord(a, queue, "record", 0)
	own := e.join(a, queue)
	e.join(a, queue)
	e.leave(a, queue, own.Place)
	e.ok(a.Close(e.soon()), "Close")
	e.stands(seer, queue)
	e.settle()
	e.records(seer, queue, value, version)
	if e.has(Expire) {
		b := e.open()
		value, version = "another", e.setRecord(b, queue, "another", version)
		e.join(b, queue)
		e.ok(e.svc.Expire(e.soon(), b), "Expire of the harness")
		e.stands(seer, queue)
	}
	if e.has(Restart) {
		e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness")
		e.ok(e.again(seer.Renew), "Renew after a restart")
	}
	e.ok(seer.Close(e.soon()), "Close")
	e.settle()
	late := e.open()
	e.records(late, queue, value, version)
	e.setRecord(late, queue, "next", version)
}

var setRecordCases = []testCase{
	{name: "SetRecord/writes any bytes", body: recordValues},
	{name: "SetRecord/a value of a wrong size is refused", body: recordSizes},
	{name: "D3/another version writes nothing", body: setStale},
	{name: "D3/of several at once exactly one writes", body: setAtOnce},
	{name: "D3/a write may be repeated after a lost reply", needs: []Lever{Hold, Reset}, body: setLostReply},
	{name: "D3/a late write does not overwrite a later one", needs: []Lever{Hold, Strand}, body: setOvertaken},
}

func recordValues(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	big := make([]byte, 64<<10)
	for i := range big {
		big[i] = byte(i)
	}
	var version driver.Version
	for _, value := range []string{"x", string(big), "\x00\xff ü/%"} {
		version = e.setRecord(a, queue, value, version)
		e.isRecord(e.record(a, queue), value, version, "once written")
		e.records(b, queue, value, version)
	}
}

func recordSizes(e *env) {
	s := e.open()
	queue := e.queue()
	for _, value := range [][]byte{nil, {}, make([]byte, 64<<10+1)} {
		_, err := s.SetRecord(e.soon(), queue, value, 0)
		e.is(err, fmt.Sprintf("SetRecord of %d bytes", len(value)), driver.ErrInvalid)
	}
	e.isRecord(e.record(s, queue), "", 0, "after refused writes")
}

// setStale: with no record, one of another version, and one of the same value.
func setStale(e *env) {
	a, b := e.open(), e.open()
	queue := e.queue()
	stale := func(s session, known driver.Version, what string) {
		_, err := s.SetRecord(e.soon(), queue, []byte("stale"), known)
		e.is(err, "SetRecord "+what, driver.ErrStale)
	}
	stale(a, e.setRecord(a, e.queue(), "elsewhere", 0), "with a version, without a record")
	e.isRecord(e.record(a, queue), "", 0, "after a refused write")
	one := e.setRecord(a, queue, "value", 0)
	stale(a, 0, "as the first, over a record")
	stale(b, 0, "as the first, over a record of another session")
	two := e.setRecord(b, queue, "other", one)
	three := e.setRecord(b, queue, "value", two)
	stale(a, one, "with a version that has passed, though the value is the same")
	stale(b, two, "with a version that has passed")
	stale(b, 0, "as the first, over a record")
	e.isRecord(e.record(b, queue), "value", three, "after refused writes")
	e.records(a, queue, "value", three)
}

// setAtOnce: as the first, and over a version that all know.
func setAtOnce(e *env) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open(), e.open()}
	queue := e.queue()
	var known driver.Version
	for range 6 {
		versions := make([]driver.Version, len(sessions))
		var running []*outcome
		for i, s := range sessions {
			running = append(running, e.start(func() (err error) {
				versions[i], err = s.SetRecord(e.soon(), queue, []byte(s.ID()), known)
				return err
			}))
		}
		winner := -1
		for i, o := range running {
			switch err := e.ends(o, e.Patience, "SetRecord"); {
			case err == nil && winner >= 0:
				e.fail("exactly one of them writes", "two of %d have written over version %d", len(running), known)
			case err == nil:
				winner = i
			case !errors.Is(err, driver.ErrStale):
				e.fail("ErrStale", "SetRecord at the same time as others: %v", err)
			}
		}
		if winner < 0 {
			e.fail("exactly one of them writes", "none of %d has written over version %d", len(running), known)
		}
		known = versions[winner]
		e.isRecord(e.record(sessions[winner], queue), sessions[winner].ID(), known, "for the one who has written")
	}
}

// setLostReply: whatever the second call says, the record has the value, and the version leads on.
func setLostReply(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	queue := e.queue()
	known := e.setRecord(s, queue, "before", 0)
	set := func(ctx context.Context) error { _, err := s.SetRecord(ctx, queue, []byte("value"), known); return err }
	e.lostReply(c, set, func() bool { return string(e.record(seer, queue).Value) == "value" })
	if err := e.again(set); err != nil {
		e.is(err, "SetRecord, repeated after a lost reply", driver.ErrStale)
	}
	now := e.record(s, queue)
	if string(now.Value) != "value" {
		e.fail("the value that was written", "Record shows %q", now.Value)
	}
	e.setRecord(s, queue, "next", now.Version)
}

// setOvertaken: once for the first record of a queue and once over another,
// whose value even comes back in between.
func setOvertaken(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	for _, first := range []bool{true, false} {
		queue, known := e.queue(), driver.Version(0)
		if !first {
			known = e.setRecord(seer, queue, "one", 0)
		}
		e.strand(c, func(ctx context.Context) error {
			_, err := s.SetRecord(ctx, queue, []byte("late"), known)
			return err
		})
		e.ok(e.again(s.Renew), "Renew on a new connection")
		two := e.setRecord(s, queue, "two", known)
		three := e.setRecord(seer, queue, "one", two)
		c.Link.Deliver()
		e.settle()
		e.isRecord(e.record(seer, queue), "one", three, "after a late write")
		e.records(s, queue, "one", three)
	}
}
