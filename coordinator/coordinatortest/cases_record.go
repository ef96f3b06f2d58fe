package coordinatortest

import (
	"bytes"
	"context"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

var recordToldCases = append(recordSubject.toldCases("D1"), recordSubject.waitCases("D2")...)

var recordCases = []testCase{
	{name: "Record/any returns at once what is there", body: recordAny},
	{name: "Record/a version that has passed ends the wait at once", body: recordPassed},
	{name: "Record/what contenders do wakes nobody", body: recordOthers},
	{name: "Record/the first record of a line ends the wait for one", body: recordFirst},
	{name: "Line/records of similar names do not see each other", body: similarRecords},
	{name: "Version/each state of a record has its own", body: recordVersions},
	{name: "D1/a record is as the session has left it", body: recordFresh},
	{name: "D4/a line with a record and nobody in it is empty", body: recordIsNobody},
	{name: "D4/a record stays when all are gone", body: recordStays},
}

// isRecord checks a record that Record returned.
func (e *env) isRecord(r driver.Record, value string, version driver.Version, when string) {
	if r.Version != version || !bytes.Equal(r.Value, []byte(value)) {
		e.fail(fmt.Sprintf("a record of %.20q, version %d", value, version), "%s it is %.20q, version %d", when, r.Value, r.Version)
	}
}

// records waits until another session shows a record.
func (e *env) records(s session, line driver.Line, value string, version driver.Version) {
	var r driver.Record
	e.eventually(fmt.Sprintf("a record of %.20q, version %d, in all sessions", value, version), func() bool {
		e.ok(e.again(func(ctx context.Context) (err error) {
			r, err = s.Record(ctx, line, driver.Any)
			return err
		}), "Record of any version")
		return r.Version == version && string(r.Value) == value
	})
}

func recordAny(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	e.isRecord(e.record(a, line), "", 0, "in a line that has none")
	own := e.join(a, line)
	e.isRecord(e.record(a, line), "", 0, "in a line with a contender that has none")
	version := e.setRecord(b, line, "limit 3", 0)
	e.isRecord(e.record(b, line), "limit 3", version, "once written")
	e.records(a, line, "limit 3", version)
	e.leave(a, line, own.Place)
	e.isRecord(e.record(a, line), "limit 3", version, "in an empty line")
}

func recordPassed(e *env) {
	s := e.open()
	line := e.line()
	older := e.setRecord(s, line, "one", 0)
	version := e.setRecord(s, line, "two", older)
	for _, known := range []driver.Version{0, older} {
		r, err := s.Record(e.soon(), line, known)
		e.ok(err, "Record that knows a version that has passed")
		e.isRecord(r, "two", version, "for one who knows the past")
	}
}

// recordOthers: a semaphore's waiters all wait for its record, and contenders come and go all the time.
func recordOthers(e *env) {
	d, known := recordSubject.duel(e)
	o := recordSubject.reach(e, d.behind, d.line, known, "new")
	e.settle()
	third := e.join(d.ahead, d.line)
	e.comeAndGo(d, d.behind)
	e.write(d.ahead, d.line, third.Place, "written")
	e.convert(d.ahead, d.line, third, "r", "converted")
	e.setRecord(d.ahead, e.line(), "elsewhere", 0)
	e.ok(d.ahead.Close(e.soon()), "Close")
	e.leave(d.behind, d.line, d.second.Place)
	e.settle()
	e.waiting(o, "Record", "contenders came, went and wrote")
	d.ahead = e.open()
	e.setRecordUntil(d.ahead, d.line, "new")
	e.reached(o, "Record", "a change")
}

// recordFirst: there is nothing yet that could be watched.
func recordFirst(e *env) {
	s, other := e.open(), e.open()
	line := e.line()
	o := recordSubject.reach(e, s, line, 0, "new")
	e.settle()
	e.leave(other, line, e.join(other, line).Place) // the line itself comes and goes
	e.settle()
	e.waiting(o, "Record", "nothing but a contender")
	e.setRecord(other, line, "new", 0)
	e.reached(o, "Record", "the first record")
}

// similarRecords: names contain, extend, escape or spell each other.
func similarRecords(e *env) {
	s, id := e.open(), newID()
	versions := map[driver.Line]driver.Version{}
	for _, name := range []string{"m/%sa", "m/%sa%%2Fb", "m/%saa", "m/%sA", "m/%sa.b", "m/%sa-", "m/%%61%s", "s/%sa"} {
		line := driver.Line(fmt.Sprintf(name, id))
		e.isRecord(e.record(s, line), "", 0, fmt.Sprintf("with records in %d lines of similar names, that of %s:", len(versions), line))
		versions[line] = e.setRecord(s, line, string(line), 0)
	}
	for line, version := range versions {
		e.isRecord(e.record(s, line), string(line), version, "with records in lines of similar names")
		e.same(e.standing(s, line), []string{}, "a line with a record has")
	}
}

// recordVersions: the same value again is another state, else a late write could not be told from a timely one.
func recordVersions(e *env) {
	s := e.open()
	line := e.line()
	seen := map[driver.Version]bool{}
	var version driver.Version
	for _, value := range []string{"a", "b", "a", "a", "b"} {
		version = e.setRecord(s, line, value, version)
		if seen[version] {
			e.fail("a version of its own", "version %d comes back", version)
		}
		seen[version] = true
	}
}

func recordFresh(e *env) {
	s := e.open()
	line := e.line()
	var version driver.Version
	for i := range 20 {
		value := fmt.Sprint(i)
		version = e.setRecord(s, line, value, version)
		e.isRecord(e.record(s, line), value, version, "after the session has written it")
	}
}

// recordIsNobody: on some services a record lives where contenders do.
func recordIsNobody(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	version := e.setRecord(a, line, "record", 0)
	for range 2 {
		e.same(e.standing(a, line), []string{}, "a line with a record and nobody in it has")
		e.isNobody(e.head(a, line), "in a line with a record and nobody in it")
		c := contender()
		c.Alone = true
		own := e.joinAs(b, line, c)
		view := e.view(b, line, own.Place)
		e.same(ids(view.Ahead), []string{}, "ahead of the only contender:")
		e.last(b, line, own, true, "alone in a line with a record")
		e.isHead(e.head(b, line), own, "", "with a record and one contender")
		version = e.setRecord(b, line, "another", version)
		e.same(e.standing(b, line), []string{own.Place.ID}, "a line with a record and one contender has")
		e.leave(b, line, own.Place)
		e.stands(a, line)
	}
}

// recordStays: whatever ties contenders to their sessions must not hold the record, and what is cleaned away when a line is
// empty must not take it along.
func recordStays(e *env) {
	a, seer := e.open(), e.open()
	line := e.line()
	e.leave(seer, line, e.join(seer, line).Place)
	value, version := "record", e.setRecord(a, line, "record", 0)
	own := e.join(a, line)
	e.join(a, line)
	e.leave(a, line, own.Place)
	e.ok(a.Close(e.soon()), "Close")
	e.stands(seer, line)
	e.settle()
	e.records(seer, line, value, version)
	if e.has(Expire) {
		b := e.open()
		value, version = "another", e.setRecord(b, line, "another", version)
		e.join(b, line)
		e.ok(e.svc.Expire(e.soon(), b), "Expire of the harness")
		e.stands(seer, line)
	}
	if e.has(Restart) {
		e.ok(e.svc.Restart(e.in(6*e.Patience)), "Restart of the harness")
		e.ok(e.again(seer.Renew), "Renew after a restart")
	}
	e.ok(seer.Close(e.soon()), "Close")
	e.settle()
	late := e.open()
	e.records(late, line, value, version)
	e.setRecord(late, line, "next", version)
}
