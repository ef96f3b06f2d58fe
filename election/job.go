package election

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/baton-go/baton/coordinator"
)

// PanicError is what Run panics with when its work panicked, or foreign code
// that was called while it campaigned, such as an observer of the client. They
// run in goroutines of their own, whose stack would be lost otherwise.
type PanicError struct {
	Value any    // what was panicked with
	Stack []byte // of the goroutine that did
}

func (p *PanicError) Error() string {
	return fmt.Sprintf("baton: panic in a goroutine of Run: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error.
func (p *PanicError) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// ending is how a function ended that did not return.
type ending struct {
	panicked *PanicError
	exited   bool // by runtime.Goexit
}

// guard calls f, for a goroutine of Run, and then done, also when f panics or
// ends its goroutine.
func guard(f func(), done func(ending)) {
	var e ending
	returned := false
	defer func() {
		if v := recover(); v != nil {
			e.panicked = &PanicError{Value: v, Stack: debug.Stack()}
		}
		e.exited = !returned && e.panicked == nil
		done(e)
	}()
	f()
	returned = true
}

// repeat ends the caller's goroutine the same way.
func (e ending) repeat() {
	switch {
	case e.panicked != nil:
		panic(e.panicked)
	case e.exited:
		runtime.Goexit()
	}
}

// job is the work of one term, in a goroutine of its own: only so can Run give it up.
type job struct {
	ctx    context.Context // the work's
	stop   func()
	result chan outcome  // not buffered: either the outcome is taken, or the job is left
	left   chan struct{} // closed when Run does not wait for the job any more
	gone   chan struct{} // closed when its goroutine ends
}

// outcome is how work ended.
type outcome struct {
	ending
	err   error // what it returned
	ended bool  // its context had ended before
	cause error // of that
	lost  error // why the term was over by then, unless it was resigned
}

// start runs work in a new goroutine.
func start(ctx context.Context, t *Term, work func(context.Context, *Term) error) *job {
	j := &job{result: make(chan outcome), left: make(chan struct{}), gone: make(chan struct{})}
	j.ctx, j.stop = t.hold.Under(ctx)
	var o outcome
	go guard(func() { o.err = work(j.ctx, t) }, func(e ending) {
		defer close(j.gone)
		o.ending, o.lost = e, loss(t)
		o.ended, o.cause = j.ctx.Err() != nil, context.Cause(j.ctx)
		select {
		case j.result <- o:
		case <-j.left:
			if e.panicked != nil {
				panic(e.panicked) // Run is not there to have it: as in any goroutine
			}
		}
	})
	return j
}

// look takes the outcome if the work has returned.
func (j *job) look() (o outcome, ok bool) {
	select {
	case o = <-j.result:
		return o, true
	default:
		return o, false
	}
}

// loss is why a term was lost, and nil while it lasts or if it was resigned.
func loss(t *Term) error {
	if err := t.Err(); !errors.Is(err, coordinator.ErrReleased) {
		return err
	}
	return nil
}
