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
	mode             = "x" // of the writers in the queue
	maxPause         = 5 * time.Millisecond
	overtakenToQueue = 2
	queueTime        = time.Second
	patience         = time.Second
	mostRefusals     = 3 // over one version, which the service shows after each
	releaseTime      = 250 * time.Millisecond
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

	overtaken int            // since the last wait for the queue
	hold      *recipes.Hold  // of the queue; nil without
	stuck     driver.Version // the version over which the last write was refused
	refusals  int            // how often
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
	u := &update{Register: r, op: op, compute: compute, stuck: driver.Any}
	defer u.release(ctx)
	value, err = u.run(ctx)
	if u.doubt { // a later write under the same ID could be taken for this one
		r.writer, r.wrote = newWriter(), 0
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
		if u.doubt {
			switch u.sent.fate(now) {
			case applied:
				return u.finish(nil)
			case refused:
				u.doubt = false
			case unknown:
				if latest {
					return 0, errUnknown
				}
				latest = true
				continue
			}
		}
		if !u.doubt { // else send the same write again
			value, err := u.compute(now.Value, now.bad)
			if err != nil || now.bad == nil && value == now.Value {
				if latest {
					return value, err
				}
				latest = true // the answer must not rest on an old value
				continue
			}
			u.prepare(now, value)
		}
		latest = false
		if again, err := u.write(ctx); !again {
			return u.finish(err)
		}
	}
}

// prepare makes the write of a value over a state.
func (u *update) prepare(now State, value int64) {
	if u.hold != nil && now.Writers[u.writer] != now.Writes { // others write too
		u.queueUntil = time.Now().Add(queueTime)
	}
	// The state may be older than this Register's latest write, whose number
	// the write would then have too.
	if now.Writers[u.writer] != u.wrote {
		u.writer, u.wrote = newWriter(), 0
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

// errUnknown is the error of a write whose fate is unknown.
var errUnknown = driver.Wrap(coordinator.ErrUnavailable, errors.New("the service did not reply "+
	"to a write, and the record no longer shows whether it was applied"))

// write sends the write. again: read the record again, since another write was
// first, or the outcome is unknown.
func (u *update) write(ctx context.Context) (again bool, err error) {
	err = u.queue.SetRecord(ctx, u.sent.bytes, u.sent.over)
	switch {
	case coordinator.MayHaveApplied(err):
		u.doubt = true
		return ctx.Err() == nil, err
	case errors.Is(err, coordinator.ErrStale):
		err = u.wasOvertaken(ctx)
		return err == nil, err
	}
	return false, err
}

// wasOvertaken waits before the next attempt.
func (u *update) wasOvertaken(ctx context.Context) error {
	if u.stuck != u.sent.over {
		u.stuck, u.refusals = u.sent.over, 0
	}
	if u.refusals++; u.refusals > mostRefusals { // as of ZooKeeper after 2^31 writes
		return fmt.Errorf("%w: every write over version %d of the record, which is the latest, "+
			"is refused; the service may have no more versions: use another name",
			coordinator.ErrRefused, u.sent.over)
	}
	if u.overtaken++; u.hold != nil { // by a writer that has not met contention yet
		return nil
	}
	if u.overtaken >= overtakenToQueue {
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
func (u *update) enqueue(ctx context.Context) error {
	bound, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	u.overtaken = 0
	h, err := u.queue.Acquire(bound, recipes.Request{Op: u.op, Mode: mode})
	switch {
	case err == nil:
		u.hold = h
	case ctx.Err() != nil:
		if step, ok := err.(*coordinator.Error); ok { //nolint:errorlint // not the cause of ctx
			return step.Err // that of the join may say that it may have been applied
		}
		return err
	default:
		u.queueUntil = time.Time{}
	}
	return nil
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
