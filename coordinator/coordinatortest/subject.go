package coordinatortest

import (
	"context"
	"errors"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

// subject is what a session can follow from state to state: the first entry of a line, or its record. The clauses
// for the two are the same where the cases are.
type subject struct {
	call string // "Head" or "Record"
	read func(ctx context.Context, s session, line driver.Line, known driver.Version) (state, error)
	// set gives it a value, through the session ahead in a duel.
	set func(ctx context.Context, d *duel, value string) error
}

type state struct {
	value   string
	version driver.Version
}

var headSubject = subject{
	call: "Head",
	read: func(ctx context.Context, s session, line driver.Line, known driver.Version) (state, error) {
		head, err := s.Head(ctx, line, known)
		return state{string(head.Value), head.Version}, err
	},
	set: func(ctx context.Context, d *duel, value string) error {
		return d.ahead.Write(ctx, d.line, d.first.Place, []byte(value))
	},
}

var recordSubject = subject{
	call: "Record",
	read: func(ctx context.Context, s session, line driver.Line, known driver.Version) (state, error) {
		record, err := s.Record(ctx, line, known)
		return state{string(record.Value), record.Version}, err
	},
	set: func(ctx context.Context, d *duel, value string) error { return overwrite(ctx, d.ahead, d.line, value) },
}

// change sets it, and goes on while the service is unavailable.
func (x subject) change(e *env, d *duel, value string) {
	e.ok(e.again(func(ctx context.Context) error { return x.set(ctx, d, value) }), "a change for "+x.call)
}

// now reads the state without waiting for another.
func (x subject) now(e *env, s session, line driver.Line) state {
	got, err := x.read(e.soon(), s, line, driver.Any)
	e.ok(err, x.call+" of any version")
	return got
}

// duel makes a duel in which the one behind knows a first value, and returns its version.
func (x subject) duel(e *env) (*duel, driver.Version) {
	d := e.duel()
	x.change(e, d, "old")
	var now state
	e.eventually(x.call+" shows what another session has written", func() bool {
		now = x.now(e, d.behind, d.line)
		return now.value == "old"
	})
	return d, now.version
}

// reach follows the subject from a known state until it has the value. It goes on while the service is
// unavailable, as clause W4 wants package coordinator to do.
func (x subject) reach(e *env, s session, line driver.Line, known driver.Version, value string) *outcome {
	return e.start(func() error {
		for {
			got, err := x.read(e.ctx, s, line, known)
			switch {
			case errors.Is(err, driver.ErrUnavailable):
				if !sleep(e.ctx, e.Settle/20) {
					return err
				}
			case err != nil:
				return fmt.Errorf("%s: %w", x.call, err)
			case got.version == known:
				return fmt.Errorf("%s returned the state that was known, version %d", x.call, known)
			case got.value == value:
				return nil
			default:
				known = got.version
			}
		}
	})
}

// reached waits for it to get there.
func (e *env) reached(o *outcome, what, after string) {
	if err := e.ends(o, e.Patience, what+" after "+after); err != nil {
		e.fail("nil", "%s after %s: %v", what, after, err)
	}
}
