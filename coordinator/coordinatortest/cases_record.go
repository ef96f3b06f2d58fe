package coordinatortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

var recordCases = []testCase{
	{"Version,Record/each state has its own", nil, recordVersions},
	{"D4/a queue with only a record is empty", nil, recordIsNoContender},
	{"D4/a record outlives contenders and sessions", nil, recordStays},
	{"SetRecord/writes any bytes of the right size", nil, recordValues},
	{"D3/another version writes nothing", nil, setStale},
	{"D3/exactly one of several concurrent writes succeeds", nil, setAtOnce},
	{"D3/a write may be repeated after a lost reply", []Lever{Network}, setLostReply},
	{"D3/a late write does not overwrite a later one", []Lever{Network}, setOvertaken},
}

func (e *env) record(s session, queue driver.Queue) driver.Record {
	record, err := s.Record(e.soon(), queue, driver.Any)
	e.ok(err, "Record of any version")
	return record
}

func (e *env) setRecord(
	s session, queue driver.Queue, value string, known driver.Version,
) driver.Version {
	version, err := s.SetRecord(e.soon(), queue, []byte(value), known)
	e.ok(err, "SetRecord")
	if version == 0 || version == driver.Any || version == known {
		e.fail("the version of a record that is there",
			"SetRecord over version %d returned version %d", known, version)
	}
	return version
}

// overwrite gives the record a value, whatever it was before, also while the
// outcome is unknown: its own lost write is found by the next read.
func (e *env) overwrite(s session, queue driver.Queue, value string) {
	e.ok(e.again(func(ctx context.Context) error {
		for {
			record, err := s.Record(ctx, queue, driver.Any)
			if err != nil || string(record.Value) == value {
				return err
			}
			_, err = s.SetRecord(ctx, queue, []byte(value), record.Version)
			if !errors.Is(err, driver.ErrStale) {
				return err
			}
		}
	}), "Record and SetRecord")
}

// isRecord checks the record that a session which is bound to know it shows.
func (e *env) isRecord(
	s session, queue driver.Queue, value string, version driver.Version, when string,
) {
	if r := e.record(s, queue); r.Version != version || !bytes.Equal(r.Value, []byte(value)) {
		e.fail(fmt.Sprintf("a record of %.20q, version %d", value, version),
			"%s it is %.20q, version %d", when, r.Value, r.Version)
	}
}

func (e *env) records(s session, queue driver.Queue, value string, version driver.Version) {
	e.eventually(fmt.Sprintf("a record of %.20q, version %d, in all sessions", value, version),
		func() bool {
			r := e.record(s, queue)
			return r.Version == version && string(r.Value) == value
		})
}

// recordVersions: the same value again is another state, else a late write
// could not be told from a timely one. A session sees what it has written.
func recordVersions(e *env) {
	s, queue := e.open(), e.queue()
	seen := []driver.Version{0}
	for i, value := range []string{"a", "b", "a", "a", "b", "c", "d", "e"} {
		version := e.setRecord(s, queue, value, seen[i])
		e.isRecord(s, queue, value, version, "after the session has written it")
		for _, known := range seen {
			if known == version {
				e.fail("a version of its own", "version %d comes back", version)
			}
			r, err := s.Record(e.soon(), queue, known)
			e.ok(err, "Record that knows a version that has passed")
			if r.Version != version {
				e.fail(fmt.Sprintf("version %d", version),
					"Record that knows version %d returned %d", known, r.Version)
			}
		}
		seen = append(seen, version)
	}
}

// recordIsNoContender: on some services a record lives where contenders do.
func recordIsNoContender(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	version := e.setRecord(a, queue, "record", 0)
	for range 2 {
		e.same(e.queued(a, queue), []string{}, "a queue with a record and nobody in it has")
		own := e.joinAs(b, queue, alone())
		e.same(e.ahead(b, queue, own.Place), []string{}, "ahead of the only contender:")
		e.last(b, queue, own, true, "alone in a queue with a record")
		version = e.setRecord(b, queue, "another", version)
		e.same(e.queued(b, queue), []string{own.Place.ID},
			"a queue with a record and one contender has")
		if e.has(HeadWatcher) {
			e.isHead(e.head(b, queue), own, "", "with a record and one contender")
		}
		e.leave(b, queue, own.Place)
		if e.has(HeadWatcher) {
			e.isNoHead(e.head(b, queue), "in a queue with a record and nobody in it")
		}
		e.awaitQueue(a, queue)
	}
}

// recordStays: whatever ties contenders to their sessions must not hold the
// record, and what is cleaned away when a queue is empty must not take it
// along.
func recordStays(e *env) {
	a, observer, queue := e.open(), e.open(), e.queue()
	e.seeNonEmpty(observer, queue)
	value, version := "record", e.setRecord(a, queue, "record", 0)
	e.leave(a, queue, e.join(a, queue).Place)
	e.isRecord(a, queue, value, version, "in an empty queue")
	e.join(a, queue)
	e.closes(a)
	e.awaitQueue(observer, queue)
	e.settle()
	e.records(observer, queue, value, version)
	if e.has(Expire) {
		b := e.open()
		value, version = "another", e.setRecord(b, queue, "another", version)
		e.join(b, queue)
		e.expire(b)
		e.awaitQueue(observer, queue)
	}
	if e.has(Restart) {
		e.restart()
		e.ok(e.again(observer.Renew), "Renew after a restart")
	}
	e.closes(observer)
	e.settle()
	late := e.open()
	e.records(late, queue, value, version)
	e.setRecord(late, queue, "next", version)
}

func recordValues(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	for _, value := range [][]byte{nil, {}, make([]byte, 64<<10+1)} {
		_, err := a.SetRecord(e.soon(), queue, value, 0)
		e.is(err, fmt.Sprintf("SetRecord of %d bytes", len(value)), driver.ErrInvalid)
	}
	e.isRecord(a, queue, "", 0, "after refused writes")
	var version driver.Version
	for _, value := range []string{"x", big(), "\x00\xff ü/%"} {
		version = e.setRecord(a, queue, value, version)
		e.isRecord(a, queue, value, version, "once written")
		e.records(b, queue, value, version)
	}
}

// big is the largest value allowed, with every byte there is.
func big() string {
	all := make([]byte, 64<<10)
	for i := range all {
		all[i] = byte(i)
	}
	return string(all)
}

func setStale(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	stale := func(s session, known driver.Version, what string) {
		_, err := s.SetRecord(e.soon(), queue, []byte("stale"), known)
		e.is(err, "SetRecord "+what, driver.ErrStale)
	}
	stale(a, e.setRecord(a, e.queue(), "elsewhere", 0), "with a version, without a record")
	e.isRecord(a, queue, "", 0, "after a refused write")
	one := e.setRecord(a, queue, "value", 0)
	stale(a, 0, "as the first, over a record")
	stale(b, 0, "as the first, over a record of another session")
	two := e.setRecord(b, queue, "other", one)
	three := e.setRecord(b, queue, "value", two)
	stale(a, one, "with a version that has passed, though the value is the same")
	stale(b, two, "with a version that has passed")
	stale(b, driver.Any, "with any version")
	e.isRecord(b, queue, "value", three, "after refused writes")
	e.records(a, queue, "value", three)
}

func setAtOnce(e *env) {
	sessions := append(e.three(), e.open())
	queue := e.queue()
	var known driver.Version
	for range 6 {
		versions := make([]driver.Version, len(sessions))
		e.concurrently(len(sessions), "SetRecord", func(i int) {
			version, err := sessions[i].SetRecord(e.soon(), queue, []byte(sessions[i].ID()), known)
			if !errors.Is(err, driver.ErrStale) {
				e.ok(err, "SetRecord")
				versions[i] = version
			}
		})
		var winners []int
		for i, version := range versions {
			if version != 0 {
				winners = append(winners, i)
			}
		}
		if len(winners) != 1 {
			e.fail("exactly one writes", "%d have written over version %d", len(winners), known)
		}
		s := sessions[winners[0]]
		known = versions[winners[0]]
		e.isRecord(s, queue, s.ID(), known, "for the one who has written")
	}
}

// setLostReply: whatever the second call says, the record has the value, and
// the version leads on.
func setLostReply(e *env) {
	c, observer := e.connect(), e.open()
	s, queue := e.openOn(c), e.queue()
	known := e.setRecord(s, queue, "before", 0)
	set := func(ctx context.Context) error {
		return errOf(s.SetRecord(ctx, queue, []byte("value"), known))
	}
	e.lostReply(c, set, func() bool { return string(e.record(observer, queue).Value) == "value" })
	if err := e.again(set); err != nil {
		e.is(err, "SetRecord, repeated after a lost reply", driver.ErrStale)
	}
	now := e.record(s, queue)
	e.isRecord(s, queue, "value", now.Version, "after a lost reply")
	e.setRecord(s, queue, "next", now.Version)
}

// setOvertaken: once for the first record of a queue and once over another,
// whose value even comes back in between.
func setOvertaken(e *env) {
	c, observer := e.connect(), e.open()
	s := e.openOn(c)
	for _, first := range []bool{true, false} {
		queue, known := e.queue(), driver.Version(0)
		if !first {
			known = e.setRecord(observer, queue, "one", 0)
		}
		e.strand(c, func(ctx context.Context) error {
			return errOf(s.SetRecord(ctx, queue, []byte("late"), known))
		})
		e.ok(e.again(s.Renew), "Renew on a new connection")
		two := e.setRecord(s, queue, "two", known)
		three := e.setRecord(observer, queue, "one", two)
		c.Link.Deliver()
		e.settle()
		e.isRecord(observer, queue, "one", three, "after a late write")
		e.records(s, queue, "one", three)
	}
}
