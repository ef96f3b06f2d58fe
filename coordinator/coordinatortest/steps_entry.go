package coordinatortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

// convert converts, which must succeed, and returns own with its new place.
func (e *env) convert(s session, line driver.Line, own driver.Joined, mode, value string) driver.Joined {
	place, err := s.Convert(e.soon(), line, own, mode, []byte(value))
	e.ok(err, "Convert")
	return e.converted(own, place, mode)
}

// convertUntil converts as package coordinator does: again while the outcome is unknown.
func (e *env) convertUntil(s session, line driver.Line, own driver.Joined, mode, value string) driver.Joined {
	var place driver.Place
	e.ok(e.again(func(ctx context.Context) (err error) {
		place, err = s.Convert(ctx, line, own, mode, []byte(value))
		return err
	}), "Convert, repeated while the service is unavailable")
	return e.converted(own, place, mode)
}

// converted checks what Convert returned and gives it to own.
func (e *env) converted(own driver.Joined, place driver.Place, mode string) driver.Joined {
	if place.ID != own.Place.ID || place.Session != own.Place.Session || place.Mode != mode {
		e.fail(fmt.Sprintf("the ID and session of %+v, and mode %s", own.Place, mode), "Convert returned %+v", place)
	}
	if place.Key == own.Place.Key {
		e.fail("a key of its own for the new entry", "Convert returned the key of the old one, %q", place.Key)
	}
	own.Place, own.First = place, false
	return own
}

// write writes, which must succeed.
func (e *env) write(s session, line driver.Line, own driver.Place, value string) {
	e.ok(s.Write(e.soon(), line, own, []byte(value)), "Write")
}

// writeUntil writes as package coordinator does.
func (e *env) writeUntil(s session, line driver.Line, own driver.Place, value string) {
	e.ok(e.again(func(ctx context.Context) error { return s.Write(ctx, line, own, []byte(value)) }),
		"Write, repeated while the service is unavailable")
}

// shows waits until a list, read by any session, has this entry in the second place: behind that of another session.
func (e *env) shows(s session, line driver.Line, own driver.Joined, value string) {
	e.eventually(fmt.Sprintf("the second in line is %+v with token %d and value %.20q", own.Place, own.Token, value),
		func() bool {
			entries := e.list(s, line)
			return len(entries) > 1 && sameEntry(entries[1], own, value)
		})
}

// showsNow checks the same of a list that must be current: the session has done the latest change itself.
func (e *env) showsNow(s session, line driver.Line, at int, own driver.Joined, value string) {
	entries := e.list(s, line)
	if len(entries) <= at || !sameEntry(entries[at], own, value) {
		e.fail(fmt.Sprintf("number %d is %+v with token %d and value %.20q", at+1, own.Place, own.Token, value),
			"the session that has done it lists %s", sprintEntries(entries))
	}
}

func sameEntry(x driver.Entry, own driver.Joined, value string) bool {
	return x.Place == own.Place && x.Token == own.Token && bytes.Equal(x.Value, []byte(value))
}

func sprintEntries(entries []driver.Entry) string {
	var all []string
	for _, x := range entries {
		all = append(all, fmt.Sprintf("%+v with token %d and value %.20q", x.Place, x.Token, x.Value))
	}
	return fmt.Sprintf("%d entries: %s", len(entries), all)
}

// head returns the first entry at once.
func (e *env) head(s session, line driver.Line) driver.Head {
	head, err := s.Head(e.soon(), line, driver.Any)
	e.ok(err, "Head of any version")
	return head
}

// record returns the record at once.
func (e *env) record(s session, line driver.Line) driver.Record {
	record, err := s.Record(e.soon(), line, driver.Any)
	e.ok(err, "Record of any version")
	return record
}

func (e *env) setRecord(s session, line driver.Line, value string, known driver.Version) driver.Version {
	version, err := s.SetRecord(e.soon(), line, []byte(value), known)
	e.ok(err, "SetRecord")
	if version == 0 || version == driver.Any || version == known {
		e.fail("the version of a record that is there", "SetRecord over version %d returned version %d", known, version)
	}
	return version
}

// setRecordUntil gives the record a value, whatever it was before, also while the outcome is unknown.
func (e *env) setRecordUntil(s session, line driver.Line, value string) {
	e.ok(e.again(func(ctx context.Context) error { return overwrite(ctx, s, line, value) }),
		"Record and SetRecord, repeated while the service is unavailable")
}

// overwrite gives the record a value. Its own lost work is stale news, and found by the next look.
func overwrite(ctx context.Context, s session, line driver.Line, value string) error {
	for {
		record, err := s.Record(ctx, line, driver.Any)
		if err != nil || string(record.Value) == value {
			return err
		}
		if _, err = s.SetRecord(ctx, line, []byte(value), record.Version); !errors.Is(err, driver.ErrStale) {
			return err
		}
	}
}

// catchUp makes the views of s as new as all that was done before: by Watch it is told of a leaving
// that came later (V1). Nobody else may be waiting for anything in the line.
func (e *env) catchUp(s, other session, line driver.Line) {
	passing := e.join(other, line)
	e.leave(other, line, passing.Place)
	e.ok(e.again(func(ctx context.Context) error { return s.Watch(ctx, line, passing.Place) }),
		"Watch of a place that was left")
}
