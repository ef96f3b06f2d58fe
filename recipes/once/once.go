// Package once runs the work of a period once in a fleet: a job that all
// replicas start at the same cron times.
//
//	nightly, err := once.New(client, "nightly-report")
//	...
//	err = nightly.Do(ctx, once.At(scheduled), func(ctx context.Context, h *once.Hold) error {
//		return report(ctx, h.Token()) // ctx ends if the hold is lost
//	})
//
// A lock is not enough for that. If a short job has ended before the timer of
// another replica fires, the lock is free again, and the job runs twice. Do
// also keeps a record at the service of which periods have run. All replicas
// must pass the same key for a period: the time for which it was scheduled, not
// the time at which it began (see [At]), or a name of your own.
//
// # Guaranteed
//
// By default the work of a key is called at most once, also if processes crash,
// stop or lose their sessions, replies are lost, and clocks differ: no step
// compares times of two clocks. If the run did not complete, because its
// process died or the work returned an error, later calls with the key return
// an [*IncompleteError].
//
// With [WithRepeat] the next caller calls the work again if a run did not
// complete. Callers that wait in Do are the next ones, so one of them takes
// over from a process that died, after the TTL. A run that is recorded as
// complete is never repeated.
//
// Runs of a name do not overlap, also those of different keys, as holds of a
// mutex do not: they follow each other in the order of the calls. The token
// rises with each run.
//
// # Not guaranteed
//
// A process that was stopped may go on with its work after its hold is lost,
// beside the next run: pass the token to the resource, as with a mutex. For
// exactly once, use WithRepeat, and write the effects in one transaction with a
// note of the key.
//
// If a process dies after its run was recorded as begun, and before it called
// the work, the period does not run, unless with WithRepeat. If it dies after
// the work and before that is recorded, WithRepeat runs it again.
//
// The record has the last 20 keys (see [WithKeep]). An older key that is no
// time is unknown, and its work would run again. An older time is refused with
// [ErrForgotten]. An operator who deletes the record, or an older backup, makes
// periods run again.
//
// # Protocol
//
// A run holds the queue of the name, as a lock does, and changes its record
// twice:
//
//	join the queue -> record the begin -> work -> record the end -> leave
//
// Each change replaces the version of the record that it has read, so of two
// runs of a key only one can record the begin, whatever they believe to hold.
// The end is final: no later write removes it, except that old keys are left
// out. A holder that finds a begin without an end knows that the run is over,
// since the queue was released. The record has no session: it stays at the
// service for ever, bounded in size, until an operator deletes it.
package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// The kind of the queue, and the mode of its contenders.
const (
	kind = "once"
	mode = "x"
)

// Once is a job whose runs the service records: Onces with the same name,
// service and namespace are the same job, and must have the same options. It is
// safe for concurrent use.
type Once struct {
	options
	queue *recipes.Queue
}

// Option changes a default of a Once.
type Option func(*options)

type options struct {
	identity string
	keep     int
	repeat   bool
}

// WithIdentity sets the name that [Once.Runs] and listings show. The default,
// and that for "", is the client's identity.
func WithIdentity(id string) Option { return func(o *options) { o.identity = id } }

// WithRepeat makes Do call the work of a key again if an earlier run did not
// complete.
func WithRepeat() Option { return func(o *options) { o.repeat = true } }

// MaxKeep is the most keys that a record has.
const MaxKeep = 100

// WithKeep sets how many keys the record has, 1 to MaxKeep. The default is 20:
// some 3 KB, which each run writes twice. See [Once.Do] for older keys.
func WithKeep(n int) Option { return func(o *options) { o.keep = n } }

// New returns the job of a name (see [coordinator.CheckName]). It does no I/O.
// The error is coordinator.ErrInvalid, for an invalid name or option, and for a
// client whose queues other libraries share.
func New(c *coordinator.Client, name string, opts ...Option) (*Once, error) {
	o := &Once{options: options{keep: 20}}
	for _, opt := range opts {
		if opt == nil {
			return nil, engine.Invalid("nil option for %s %q", kind, name)
		}
		opt(&o.options)
	}
	if o.keep < 1 || o.keep > MaxKeep {
		return nil, engine.Invalid("%d keys in the record of %s %q; want 1 to %d", o.keep, kind, name, MaxKeep)
	}
	var err error
	if o.queue, err = recipes.NewQueue(c, kind, name, recipes.WithIdentity(o.identity)); err != nil {
		return nil, err
	}
	if o.identity == "" {
		o.identity = c.Identity()
	}
	return o, nil
}

// Name returns the job's name.
func (o *Once) Name() string { return o.queue.Name() }

// IncompleteError means that a run of the key had begun earlier, and is over
// without being complete: its process died or lost its session, its work
// returned an error, or it could not record the end. The work was not called.
type IncompleteError struct {
	Name string
	Run
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("the run of %q that %s began at %s, with token %d, is over and not complete",
		e.Key, e.Identity, e.Began.Format(time.RFC3339), e.Token)
}

// ErrForgotten means that the key is a time that is not later than all those
// that the record has left out. The work may have been called for it, and was
// not called now.
var ErrForgotten = errors.New("the key is a time that the record does not reach back to")

// Hold is that of a run, which its work gets.
type Hold struct {
	hold *recipes.Hold
	once *Once
}

// Token returns the fencing token. It is greater than those of all earlier runs
// of the name, unless the service lost its data.
func (h *Hold) Token() coordinator.Token { return h.hold.Token() }

// Sequencer returns the token for another process to check: see package
// coordinator/fence. The first call of a session asks the service. The error is
// that of Err if the hold is over.
func (h *Hold) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	s, err := h.hold.Sequencer(ctx)
	return s, recipes.Describe(ctx, "sequencer", h.once.Name(), err)
}

// Err returns nil while the run is held, and then why it ended. It reads the
// clock, so it reports a loss right after a pause of the process.
func (h *Hold) Err() error { return h.hold.Err() }

// Work is the work of a key. Its context ends when that of Do does, or when the
// hold is lost; it must then return.
type Work = func(ctx context.Context, h *Hold) error

// Do calls work, unless the record shows that it has run for the key. It waits
// while another run of the name lasts, in this process or another; bound that
// with ctx. A nil error means that a run of the key is complete: this one, or
// an earlier one of any process.
//
// A key has 1 to 128 bytes, without control characters. See [At] for the key of
// a time, and the package comment for keys that the record does not have any
// more.
//
// Errors before the work is called: an [*IncompleteError], unless with
// WithRepeat; [ErrForgotten]; ErrInvalid for a bad key, and if ctx is that of
// another run of the name; those of mutex.Lock. After one with
// coordinator.MayHaveApplied the key may be recorded as begun nevertheless: Do
// removes that if it can, for up to two seconds after ctx has ended.
//
// Errors after it: that of work, joined with the loss of the hold or the error
// of its release; and if work has returned nil, a loss, or why the end could
// not be recorded. Do tries that for up to two seconds after ctx has ended or
// the hold is lost.
func (o *Once) Do(ctx context.Context, key string, work Work) error {
	return o.do(ctx, key, work, recipes.Request{Op: "do", Mode: mode, Waits: recipes.WaitsForAll})
}

// TryDo is like Do, but does not wait for another run of the name: it returns a
// [*recipes.TakenError] with the holder, also if that run has another key.
// errors.Is(err, coordinator.ErrTaken) is true. With WithRepeat, nobody takes
// over from a process that dies, until the next call with the key.
func (o *Once) TryDo(ctx context.Context, key string, work Work) error {
	return o.do(ctx, key, work, recipes.Request{Op: "try-do", Mode: mode, Try: true})
}

func (o *Once) do(ctx context.Context, key string, work Work, r recipes.Request) error {
	if err := checkKey(key); err != nil {
		return recipes.Describe(ctx, r.Op, o.Name(), err)
	}
	switch {
	case work == nil:
		return recipes.Describe(ctx, r.Op, o.Name(), engine.Invalid("nil work"))
	case o.queue.Held(ctx): // it would wait for itself
		return recipes.Describe(ctx, r.Op, o.Name(), engine.Invalid("the context is that of a run of the name"))
	}
	// Most calls come after the run, and need no place in the queue.
	now, err := o.read(ctx, false)
	if err == nil {
		var over bool
		if over, err = now.over(key); over {
			return nil
		}
	}
	if err != nil {
		return recipes.Describe(ctx, r.Op, o.Name(), err)
	}
	hold, err := o.queue.Acquire(ctx, r)
	if err != nil {
		return err
	}
	complete := false
	err = hold.Do(ctx, "release", func(ctx context.Context) error {
		own := run{Once: o, hold: &Hold{hold, o}, Run: Run{Key: key, Token: hold.Token(), Identity: o.identity}}
		err := own.do(ctx, r.Op, now, work)
		complete = err == nil
		return err
	})
	if complete && hold.Err() == coordinator.ErrReleased { //nolint:errorlint // not lost
		return nil // a release that failed goes on in the background
	}
	return err
}

// Runs returns what the record shows, in the order in which the runs began.
// Errors: the cause of ctx, with coordinator.ErrUnavailable if the service did
// not answer; ErrRefused, if the service refuses or the record is not that of a
// Once; ErrClosed.
func (o *Once) Runs(ctx context.Context) ([]Run, error) {
	s, err := o.read(ctx, true)
	return s.Runs, recipes.Describe(ctx, "runs", o.Name(), err)
}
