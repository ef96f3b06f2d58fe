package coordinatortest

import (
	"context"
	"errors"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

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
	line := e.line()
	big := make([]byte, 64<<10)
	for i := range big {
		big[i] = byte(i)
	}
	var version driver.Version
	for _, value := range []string{"x", string(big), "\x00\xff ü/%"} {
		version = e.setRecord(a, line, value, version)
		e.isRecord(e.record(a, line), value, version, "once written")
		e.records(b, line, value, version)
	}
}

func recordSizes(e *env) {
	s := e.open()
	line := e.line()
	for _, value := range [][]byte{nil, {}, make([]byte, 64<<10+1)} {
		_, err := s.SetRecord(e.soon(), line, value, 0)
		e.is(err, fmt.Sprintf("SetRecord of %d bytes", len(value)), driver.ErrInvalid)
	}
	e.isRecord(e.record(s, line), "", 0, "after refused writes")
}

// setStale: with no record, one of another version, and one of the same value.
func setStale(e *env) {
	a, b := e.open(), e.open()
	line := e.line()
	stale := func(s session, known driver.Version, what string) {
		_, err := s.SetRecord(e.soon(), line, []byte("stale"), known)
		e.is(err, "SetRecord "+what, driver.ErrStale)
	}
	stale(a, e.setRecord(a, e.line(), "elsewhere", 0), "with a version, without a record")
	e.isRecord(e.record(a, line), "", 0, "after a refused write")
	one := e.setRecord(a, line, "value", 0)
	stale(a, 0, "as the first, over a record")
	stale(b, 0, "as the first, over a record of another session")
	two := e.setRecord(b, line, "other", one)
	three := e.setRecord(b, line, "value", two)
	stale(a, one, "with a version that has passed, though the value is the same")
	stale(b, two, "with a version that has passed")
	stale(b, 0, "as the first, over a record")
	e.isRecord(e.record(b, line), "value", three, "after refused writes")
	e.records(a, line, "value", three)
}

// setAtOnce: as the first, and over a version that all know.
func setAtOnce(e *env) {
	shared := e.connect()
	sessions := []session{e.openOn(shared), e.openOn(shared), e.open(), e.open()}
	line := e.line()
	var known driver.Version
	for range 6 {
		versions := make([]driver.Version, len(sessions))
		var running []*outcome
		for i, s := range sessions {
			running = append(running, e.start(func() (err error) {
				versions[i], err = s.SetRecord(e.soon(), line, []byte(s.ID()), known)
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
		e.isRecord(e.record(sessions[winner], line), sessions[winner].ID(), known, "for the one who has written")
	}
}

// setLostReply: whatever the second call says, the record has the value, and the version leads on.
func setLostReply(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	line := e.line()
	known := e.setRecord(s, line, "before", 0)
	set := func(ctx context.Context) error { _, err := s.SetRecord(ctx, line, []byte("value"), known); return err }
	e.lostReply(c, set, func() bool { return string(e.record(seer, line).Value) == "value" })
	if err := e.again(set); err != nil {
		e.is(err, "SetRecord, repeated after a lost reply", driver.ErrStale)
	}
	now := e.record(s, line)
	if string(now.Value) != "value" {
		e.fail("the value that was written", "Record shows %q", now.Value)
	}
	e.setRecord(s, line, "next", now.Version)
}

// setOvertaken: once for the first record of a line and once over another, whose value even comes back in between.
func setOvertaken(e *env) {
	c := e.connect()
	s, seer := e.openOn(c), e.open()
	for _, first := range []bool{true, false} {
		line, known := e.line(), driver.Version(0)
		if !first {
			known = e.setRecord(seer, line, "one", 0)
		}
		e.strand(c, func(ctx context.Context) error {
			_, err := s.SetRecord(ctx, line, []byte("late"), known)
			return err
		})
		e.ok(e.again(s.Renew), "Renew on a new connection")
		two := e.setRecord(s, line, "two", known)
		three := e.setRecord(seer, line, "one", two)
		c.Link.Deliver()
		e.settle()
		e.isRecord(e.record(seer, line), "one", three, "after a late write")
		e.records(s, line, "one", three)
	}
}
