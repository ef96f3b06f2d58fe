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
	{"V6/a view shows the record of its moment, or none", nil, recordInView},
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
		e.fail("the version of an existing record",
			"SetRecord over version %d returned version %d", known, version)
	}
	return version
}

// overwrite sets the value of a record, of any version. After an unknown
// outcome the next read finds its own write.
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

// isRecord checks the record at once, on a session that must know it.
func (e *env) isRecord(
	s session, queue driver.Queue, value string, version driver.Version, when string,
) {
	if r := e.record(s, queue); r.Version != version || !bytes.Equal(r.Value, []byte(value)) {
		e.fail(fmt.Sprintf("a record of %.20q, version %d", value, version),
			"%s it is %.20q, version %d", when, r.Value, r.Version)
	}
}

// recordInView: a view without a contender that left after the record was
// written does not show the version before.
func recordInView(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	version := e.setRecord(a, queue, "first", 0)
	for range 5 {
		holder, c := e.join(a, queue), contender()
		c.Record = version
		own, before := e.joinAs(b, queue, c), version
		view, err := b.Ahead(e.soon(), queue, own.Place)
		e.ok(err, "Ahead")
		if view.Record != 0 && view.Record != version {
			e.fail(fmt.Sprintf("no record, or version %d", version),
				"the view shows version %d", view.Record)
		}
		version = e.setRecord(a, queue, "next", version)
		e.leave(a, queue, holder.Place)
		if view, err = b.Ahead(e.soon(), queue, own.Place); len(view.Ahead) == 0 && view.Record == before {
			e.fail("no version that was replaced before",
				"a view after the last departure shows version %d", before)
		}
		e.ok(err, "Ahead")
		e.leave(b, queue, own.Place)
	}
}

func (e *env) records(s session, queue driver.Queue, value string, version driver.Version) {
	e.eventually(fmt.Sprintf("a record of %.20q, version %d, in all sessions", value, version),
		func() bool {
			r := e.record(s, queue)
			return r.Version == version && string(r.Value) == value
		})
}

// recordVersions: the same value again has another version, so that a late
// write fails. A session sees its own writes.
func recordVersions(e *env) {
	s, queue := e.open(), e.queue()
	seen := []driver.Version{0}
	for i, value := range []string{"a", "b", "a", "a", "b", "c", "d", "e"} {
		version := e.setRecord(s, queue, value, seen[i])
		e.isRecord(s, queue, value, version, "after the session's own write")
		for _, known := range seen {
			if known == version {
				e.fail("a new version", "version %d is used again", version)
			}
			r, err := s.Record(e.soon(), queue, known)
			e.ok(err, "Record that knows an earlier version")
			if r.Version != version {
				e.fail(fmt.Sprintf("version %d", version),
					"Record that knows version %d returned %d", known, r.Version)
			}
		}
		seen = append(seen, version)
	}
}

// recordIsNoContender: some services keep records beside contenders.
func recordIsNoContender(e *env) {
	a, b, queue := e.open(), e.open(), e.queue()
	version := e.setRecord(a, queue, "record", 0)
	for range 2 {
		e.same(e.queued(a, queue), []string{}, "a queue with only a record has")
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
			e.isNoHead(e.head(b, queue), "in a queue with only a record")
		}
		e.awaitQueue(a, queue)
	}
}

// recordStays: a record must end neither with a session, nor with the clean-up
// of an empty queue.
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

// big is a value of maximum size, with every byte.
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
	stale(a, one, "with an earlier version, though the value is the same")
	stale(b, two, "with an earlier version")
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
			e.fail("exactly one write", "%d writes over version %d", len(winners), known)
		}
		s := sessions[winners[0]]
		known = versions[winners[0]]
		e.isRecord(s, queue, s.ID(), known, "for the writer")
	}
}

// setLostReply: the second call may return nil or ErrStale. The record has the
// value, and can be written again.
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

// setOvertaken makes the first record late, and then a write over a record
// whose value is even restored meanwhile.
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
