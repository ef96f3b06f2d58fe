package fence

import (
	"context"
	"errors"
	"sync"
)

// lane lets the accesses of a gate run one after the other. S is what a holder
// shows: one sequencer, or those of several services. The zero lane is ready.
//
//	shown -> admitted: registered -> gets the slot -> access runs
//	           ^                        |               |
//	           |                        v               v
//	     a later holder is shown, or Reset: the context ends, with the cause
type lane[S any] struct {
	mu      sync.Mutex              // guards the state of the gate, too
	slot    chan struct{}           // has one element while access runs; waiters send in turn
	callers map[*caller[S]]struct{} // whose access waits or runs
}

// caller is one call of Do.
type caller[S any] struct {
	shown S
	end   context.CancelCauseFunc // ends the context of its access
}

// do runs access when admit returns nil and the slot is free. admit is called
// with l.mu held, and before the slot is free: so it ends an access that runs
// although its holder has been succeeded.
func (l *lane[S]) do(
	ctx context.Context, shown S, admit func(S) error, access func(context.Context) error,
) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := &caller[S]{shown, end}
	if err := l.enter(c, admit); err != nil {
		return err
	}
	defer l.leave(c)
	select {
	// A channel, since a waiter must be able to give up with its context.
	case l.slot <- struct{}{}:
		defer func() { <-l.slot }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // it may have got the slot, too: select chooses at random
		return context.Cause(ctx)
	}
	return access(ctx)
}

func (l *lane[S]) enter(c *caller[S], admit func(S) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := admit(c.shown); err != nil {
		return err
	}
	if l.slot == nil {
		l.slot, l.callers = make(chan struct{}, 1), make(map[*caller[S]]struct{})
	}
	l.callers[c] = struct{}{}
	return nil
}

func (l *lane[S]) leave(c *caller[S]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.callers, c)
}

// end ends the contexts of the accesses for which why returns an error. The
// caller holds l.mu.
func (l *lane[S]) end(why func(S) error) {
	for c := range l.callers {
		if err := why(c.shown); err != nil {
			c.end(err)
		}
	}
}

// errReset is no refusal: a holder that shows its sequencer again may be
// admitted.
var errReset = errors.New("fence: the gate was reset")

func (l *lane[S]) reset() { l.end(func(S) error { return errReset }) }
