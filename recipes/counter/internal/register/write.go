package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// Contention. A writer that was overtaken pauses; after the second time it goes
// through the queue of the name, and so do its next writes, until no other
// client has written for queueTime. The queue only orders the writers: the
// comparison of versions alone makes a write safe. So a writer may wait for the
// queue with patience, since a dead writer stays in it for its TTL, and does
// not check whether it still holds it.
const (
	queueTime   = time.Second
	patience    = time.Second
	releaseTime = 250 * time.Millisecond
)

// Compute returns the value to write over a value. bad, if not nil, says that
// the record is not a number. If Compute returns an error or the same value,
// nothing is written.
type Compute func(value int64, bad error) (int64, error)

// update is one change of the value, by the calls of a batch.
//
//	read -> compute -> write over the version that was read -> done
//	  ^                   |
//	  +--- another was first, or no reply: the next read shows which
type update struct {
	*Register
	op      string
	sent    write
	refused bool // the last request, since the record had another version

	overtaken int           // since the last wait for the queue
	failures  int           // writes without a reply, one after the other
	hold      *recipes.Hold // of the queue; nil without
}

// run ends when the call that leads has a result, or ctx has ended. An error
// says why nothing more can be done; then the calls have no results.
func (u *update) run(ctx context.Context, leads *call) error {
	if u.hold == nil && time.Now().Before(u.queueUntil) {
		if err := u.enqueue(ctx); err != nil {
			return err
		}
	}
	for latest := false; !leads.ended(); {
		before := u.arrived() // calls that came later may need a later read
		now, err := u.read(ctx, latest)
		if err != nil {
			return err
		}
		if u.learn(now); leads.ended() {
			break // what is left to do is not its business
		}
		again := u.doubt
		if !again && !u.compute(now, before, latest) {
			latest = true // the answers must not rest on an old value
			continue
		}
		latest = false
		if err := u.write(ctx, again); err != nil {
			return err
		}
	}
	return nil
}

// learn ends the doubt about the latest write, unless that is to be sent again,
// over the same version.
func (u *update) learn(now State) {
	if u.refused && now.version == u.sent.over {
		u.giveUp(errNoVersions)
	}
	u.refused = false
	if !u.doubt {
		return
	}
	switch u.sent.fate(now) {
	case applied:
		u.applied()
	case unknown:
		u.giveUp(errUnknown)
	case refused:
		u.setDoubt(false)
	case pending:
	}
}

// compute computes the changes of all calls at a state, one after the other. If
// one of them changes the value, it makes the write, and reports that. Else the
// first calls have their results if the state is the latest: calls that came
// after its read began may have to see a later one.
func (u *update) compute(now State, before int64, latest bool) (send bool) {
	u.mu.Lock()
	value, bad := now.Value, now.bad
	for _, c := range u.calls {
		next, err := c.compute(value, bad)
		c.value, c.err = next, err
		c.changes = err == nil && (bad != nil || next != value)
		if c.changes {
			value, bad, send = next, nil, true
		}
	}
	for _, c := range u.calls {
		c.sent = send
	}
	u.doubt = send // from now on, for a call that gives up
	u.mu.Unlock()
	if send {
		u.prepare(now, value)
	} else if latest {
		u.finish(func(c *call) bool { return c.number <= before })
	}
	return send
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

// The errors of a write whose fate is unknown, and of one that is refused over
// the latest version, as on ZooKeeper after 2^31 writes.
var (
	errUnknown = driver.Wrap(coordinator.ErrUnavailable, errors.New("the service did not reply "+
		"to a write, and the record no longer shows whether it was applied"))
	errNoVersions = driver.Wrap(coordinator.ErrRefused, errors.New("a write over the latest "+
		"version of the record; the service may have no more versions: use another name"))
)

// applied gives the calls of the latest write their results.
func (u *update) applied() {
	u.setDoubt(false)
	u.failures, u.wrote = 0, u.sent.Writes
	u.finish(sentCall)
}

// giveUp ends the calls of the latest write with an error. If the fate of the
// write is unknown, the next write has another ID: it could be taken for this
// one.
func (u *update) giveUp(err error) {
	u.fail(err, sentCall)
	if u.doubt {
		u.wrote = none
	}
	u.setDoubt(false)
}

// write sends the write, again if it was sent before. If it returns nil, the
// calls of the write have their results, or the record has to be read again:
// another write was first, or the outcome is unknown.
func (u *update) write(ctx context.Context, again bool) error {
	err := u.queue.SetRecord(ctx, u.sent.bytes, u.sent.over)
	u.refused = errors.Is(err, coordinator.ErrStale) && !coordinator.MayHaveApplied(err)
	switch {
	case err == nil:
		u.applied()
		return nil
	case coordinator.MayHaveApplied(err):
		if ctx.Err() != nil {
			return bare(ctx, err)
		}
		u.failures++
		return recipes.PauseAgain(ctx, u.queue, u.failures)
	}
	u.setDoubt(again) // this request was not applied; the one before may be
	switch {
	case u.refused:
		return u.wasOvertaken(ctx)
	case ctx.Err() != nil: // another call goes on
		return err
	}
	u.giveUp(err)
	return nil
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
	return recipes.PauseAgain(ctx, u.queue, 1)
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
	if ctx.Err() == nil {
		return nil
	}
	return bare(ctx, err)
}

// bare returns an error without "may have been applied", which is about one
// request. Whether the change of a call may have been is in call.doubt: the
// call that leads may send a write again that has only changes of others.
func bare(ctx context.Context, err error) error {
	step, ok := err.(*coordinator.Error) //nolint:errorlint // of this step, not what it wraps
	if !ok || engine.IsCause(ctx, err) {
		return err
	}
	return step.Err
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
