package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// Contention. A writer that was overtaken pauses; after the second time it goes
// through the queue of the name, and so do its next writes, until no other
// client has written for queueTime. The queue only orders the writers: the
// comparison of versions alone makes a write safe. So a writer may wait for the
// queue with patience, since a dead writer stays in it for its TTL, and does
// not check whether it still holds it.
const (
	maxPause    = 5 * time.Millisecond
	queueTime   = time.Second
	patience    = time.Second
	releaseTime = 250 * time.Millisecond
)

// Compute returns the value to write over a value. bad, if not nil, says that
// the record is not a number. If Compute returns an error or the same value,
// nothing is written.
type Compute func(value int64, bad error) (int64, error)

// update is one change of the value.
//
//	read -> compute -> write over the version that was read -> done
//	  ^                   |
//	  +--- another was first, or no reply: the next read shows which
type update struct {
	*Register
	op      string
	compute Compute
	sent    write
	doubt   bool // sent may have been applied, or may be later
	refused bool // the last request, since the record had another version

	overtaken int           // since the last wait for the queue
	hold      *recipes.Hold // of the queue; nil without
}

// Update writes the value that compute returns for the latest value, and
// returns it. op is the user's operation. doubt: the write may have been
// applied, or may be later, in spite of err.
func (r *Register) Update(
	ctx context.Context, op string, compute Compute,
) (value int64, doubt bool, err error) {
	select {
	case r.busy <- struct{}{}:
	case <-ctx.Done():
		return 0, false, context.Cause(ctx)
	}
	defer func() { <-r.busy }()
	u := &update{Register: r, op: op, compute: compute}
	defer u.release(ctx)
	value, err = u.run(ctx)
	if u.doubt { // a later write under the same ID could be taken for this one
		r.wrote = none
	}
	return value, u.doubt, err
}

// run ends when the value is written, compute has refused the latest value, or
// ctx has ended.
func (u *update) run(ctx context.Context) (int64, error) {
	if time.Now().Before(u.queueUntil) {
		if err := u.enqueue(ctx); err != nil {
			return 0, err
		}
	}
	for latest := false; ; {
		now, err := u.read(ctx, latest)
		if err != nil {
			return 0, err
		}
		if u.doubt && u.sent.fate(now) == applied {
			return u.finish(nil)
		}
		send, value, err := u.judge(now)
		switch {
		case send:
			latest = false
			if again, err := u.write(ctx); !again {
				return u.finish(err)
			}
		case latest:
			return value, err
		default:
			latest = true // the answer must not rest on an old value
		}
	}
}

// judge reports whether to send a write at a state, the same again or another.
// If not, value and err are the answer.
func (u *update) judge(now State) (send bool, value int64, err error) {
	if u.refused && now.version == u.sent.over {
		return false, 0, errNoVersions
	}
	if u.doubt {
		switch u.sent.fate(now) {
		case pending:
			return true, 0, nil
		case unknown:
			return false, 0, errUnknown
		}
		u.doubt = false // it was refused
	}
	value, err = u.compute(now.Value, now.bad)
	if send = err == nil && (now.bad != nil || value != now.Value); send {
		u.prepare(now, value)
	}
	return send, value, err
}

// prepare makes the write of a value over a state.
func (u *update) prepare(now State, value int64) {
	if u.hold != nil && now.Writers[u.writer] != now.Writes { // others write too
		u.queueUntil = time.Now().Add(queueTime)
	}
	// The state may be older than this Register's latest write, whose number
	// the write would then have too.
	if now.Writers[u.writer] != u.wrote {
		u.writer, u.wrote = fmt.Sprintf("%016x", rand.Uint64()), 0
	}
	u.sent = now.next(u.writer, value)
}

func (u *update) finish(err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	u.doubt, u.wrote = false, u.sent.Writes
	return u.sent.Value, nil
}

// The errors of a write whose fate is unknown, and of one that is refused over
// the latest version, as on ZooKeeper after 2^31 writes.
var (
	errUnknown = driver.Wrap(coordinator.ErrUnavailable, errors.New("the service did not reply "+
		"to a write, and the record no longer shows whether it was applied"))
	errNoVersions = driver.Wrap(coordinator.ErrRefused, errors.New("a write over the latest "+
		"version of the record; the service may have no more versions: use another name"))
)

// write sends the write. again: read the record again, since another write was
// first, or the outcome is unknown.
func (u *update) write(ctx context.Context) (again bool, err error) {
	err = u.queue.SetRecord(ctx, u.sent.bytes, u.sent.over)
	u.refused = errors.Is(err, coordinator.ErrStale)
	switch {
	case coordinator.MayHaveApplied(err):
		u.doubt = true
		return ctx.Err() == nil, err
	case u.refused:
		err = u.wasOvertaken(ctx)
		return err == nil, err
	}
	return false, err
}

// wasOvertaken waits before the next attempt.
func (u *update) wasOvertaken(ctx context.Context) error {
	if u.overtaken++; u.hold != nil { // by a writer that has not met contention yet
		return nil
	}
	if u.overtaken >= 2 {
		u.queueUntil = time.Now().Add(queueTime)
		return u.enqueue(ctx)
	}
	select {
	case <-time.After(rand.N(maxPause)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enqueue joins the queue. If it cannot, the writer goes on without.
func (u *update) enqueue(ctx context.Context) (err error) {
	bound, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	u.overtaken = 0
	if u.hold, err = u.queue.Acquire(bound, recipes.Request{Op: u.op, Mode: "x"}); err == nil {
		return nil
	}
	u.queueUntil = time.Time{}
	if step, ok := err.(*coordinator.Error); ok { //nolint:errorlint // not the cause of ctx
		err = step.Err // that of the join may say that it may have been applied
	}
	if ctx.Err() == nil {
		return nil
	}
	return err
}

// release leaves the queue, in the background if that takes long: the caller
// has its answer.
func (u *update) release(ctx context.Context) {
	if u.hold != nil {
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer cancel()
		_ = u.hold.Release(brief)
	}
}
