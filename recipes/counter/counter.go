// Package counter is a 64-bit number that processes share, and an allocator of
// unique numbers.
//
//	orders, err := counter.New(client, "orders")
//	...
//	n, err := orders.Add(ctx, 1)
//
// # Guaranteed
//
// All calls are linearizable: each takes effect at one moment between its start
// and its end, and sees the effects of all calls that ended before it began.
// Only CompareAndSet and Set replace a value; no Add is lost.
//
// A call that returns nil was applied exactly once, also if replies were lost
// and requests repeated, and if the session was replaced. A call that returns
// an error was not applied, unless [coordinator.MayHaveApplied] reports true:
// it was then applied once, is applied once later, or never.
//
// The value is in no session: it stays when clients close, crash or lose their
// sessions.
//
// Calls of one Counter that wait at the same time share a write, and each gets
// its own value. So use one Counter in a process.
//
// # Not guaranteed
//
// A write is one request that compares and replaces the record of the name,
// after one that reads it. So a name allows some hundreds to thousands of
// writes per second in all. For unique numbers use [IDs]; for statistics, add
// up one Counter per process.
//
// If an operator deletes the record or overwrites it, the value is lost with
// it, and calls under way may be lost or fail with MayHaveApplied. An older
// backup restores an older value. ZooKeeper refuses further writes of a name
// after 2^31 of them; the error says so.
//
// # Lost replies
//
// The record of the name is JSON that operators can read. It has the value, and
// names the latest write of each of the last 32 writers. A writer without a
// reply reads the record. If the record is still the one that it wanted to
// replace, it sends the same write again, which is applied over that version
// only, and so at most once. Else the record shows whether the write was its
// own. If 32 other writers have written since, that is not known: the error is
// coordinator.ErrUnavailable, and MayHaveApplied reports true.
//
// # Contention
//
// One of the calls of a Counter writes for all that wait. If its context ends,
// another one goes on with the write. A writer that another client has
// overtaken pauses for some milliseconds. After the second time it waits in the
// name's queue, and so do its next writes, until no other client has written
// for a second. So under contention writers succeed in the order in which they
// joined the queue. A writer that has waited there for a second, perhaps
// because a process in the queue was killed, continues without it.
package counter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/counter/internal/register"
)

// ErrOverflow means that the sum does not fit into 64 bits. Nothing was
// written.
var ErrOverflow = errors.New("the sum overflows 64 bits")

// OtherValueError is the error of a CompareAndSet that found another value than
// it expected. Nothing was written. errors.Is(err, coordinator.ErrStale) is
// true.
type OtherValueError struct {
	Name            string
	Expected, Value int64
}

func (e *OtherValueError) Error() string {
	return fmt.Sprintf("the value of %q is %d, not %d", e.Name, e.Value, e.Expected)
}

// Unwrap returns [coordinator.ErrStale].
func (e *OtherValueError) Unwrap() error { return coordinator.ErrStale }

// Counter is a number that the service stores: Counters with the same name,
// service and namespace are the same number. It is 0 before the first write. It
// is safe for concurrent use.
type Counter struct {
	name     string
	register *register.Register
}

// New returns the counter of a name (see [coordinator.CheckName]). It does no
// I/O. The error is coordinator.ErrInvalid, for an invalid name and for a
// client whose queues other libraries share.
func New(c *coordinator.Client, name string) (*Counter, error) { return open(c, "counter", name) }

func open(c *coordinator.Client, kind, name string) (*Counter, error) {
	queue, err := recipes.NewQueue(c, kind, name)
	if err != nil {
		return nil, err
	}
	return &Counter{name, register.New(queue)}, nil
}

// Name returns the counter's name.
func (c *Counter) Name() string { return c.name }

// Add adds delta, which may be negative, and returns the sum. It sends two
// requests, or four and more under contention, for all calls that wait. Errors:
// [ErrOverflow]; the cause of ctx, with coordinator.ErrUnavailable if the
// service did not answer; ErrRefused, if the service refuses to write or the
// record is not a number; ErrClosed. See the package comment for an error after
// which the sum may have been written.
func (c *Counter) Add(ctx context.Context, delta int64) (int64, error) {
	return c.update(ctx, "add", func(value int64, bad error) (int64, error) {
		switch {
		case bad != nil:
			return 0, bad
		case delta > 0 && value > math.MaxInt64-delta, delta < 0 && value < math.MinInt64-delta:
			return 0, fmt.Errorf("%w: %d%+d", ErrOverflow, value, delta)
		}
		return value + delta, nil
	})
}

// CompareAndSet sets the value if it is old. If it is another, the error is an
// [*OtherValueError] with the value. The other errors are those of Add.
func (c *Counter) CompareAndSet(ctx context.Context, old, value int64) error {
	_, err := c.update(ctx, "compare-and-set", func(now int64, bad error) (int64, error) {
		switch {
		case bad != nil:
			return 0, bad
		case now != old:
			return 0, &OtherValueError{Name: c.name, Expected: old, Value: now}
		}
		return value, nil
	})
	return err
}

// Set sets the value, also over a record that is not a number. The errors are
// those of Add, without ErrOverflow.
func (c *Counter) Set(ctx context.Context, value int64) error {
	_, err := c.update(ctx, "set", func(int64, error) (int64, error) { return value, nil })
	return err
}

func (c *Counter) update(
	ctx context.Context, op string, compute register.Compute,
) (int64, error) {
	value, doubt, err := c.register.Update(ctx, op, compute)
	if doubt {
		err = &coordinator.Error{Err: err, Maybe: true}
	}
	return value, recipes.Describe(ctx, op, c.name, err)
}

// Get returns the value. It sends one read, and on ZooKeeper two requests: see
// [recipes.Queue.LatestRecord]. The errors are those of Add; MayHaveApplied is
// false.
func (c *Counter) Get(ctx context.Context) (int64, error) {
	now, err := c.register.Latest(ctx)
	if err != nil {
		return 0, recipes.Describe(ctx, "get", c.name, err)
	}
	return now.Value, nil
}

// Observe yields the value and then each other value. It may skip values, but
// never the latest, and never goes back to an earlier state. It goes on after a
// lost session. An error of Get ends it. If ctx ends while Observe waits, the
// error is context.Cause(ctx). Each loop has one watch at the service.
func (c *Counter) Observe(ctx context.Context) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		now, err := c.register.Latest(ctx)
		for first, shown := true, int64(0); ; first = false {
			if err != nil {
				yield(0, recipes.Describe(ctx, "observe", c.name, err))
				return
			}
			if first || now.Value != shown {
				if !yield(now.Value, nil) {
					return
				}
				shown = now.Value
			}
			now, err = c.register.Next(ctx, now)
		}
	}
}
