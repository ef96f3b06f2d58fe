package election

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/baton-go/baton/coordinator"
)

// PanicError is what Run panics with when its work panicked, or the function of
// WithOnError while the service did not answer: these run in goroutines of
// their own, whose stacks would be lost otherwise.
type PanicError struct {
	Value any    // what was panicked with
	Stack []byte // of the goroutine that did
}

func (p *PanicError) Error() string {
	return fmt.Sprintf("baton: panic in a function given to Run: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error.
func (p *PanicError) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// job is the work of one term, in a goroutine of its own: only so can Run give
// it up.
type job struct {
	ctx    context.Context // the work's
	stop   func()
	result chan outcome  // not buffered: either the outcome is taken, or the job is left
	left   chan struct{} // closed when Run does not wait for the job any more
	gone   chan struct{} // closed when its goroutine ends
}

// outcome is how work, or a report, ended.
type outcome struct {
	panicked *PanicError
	exited   bool  // by runtime.Goexit
	err      error // what it returned
	ended    bool  // its context had ended before
	cause    error // of that
	lost     error // why the term was over by then, unless it was resigned
}

// catch is deferred by the goroutine of a function that may panic.
func (o *outcome) catch() {
	if v := recover(); v != nil {
		o.panicked = &PanicError{Value: v, Stack: debug.Stack()}
	}
}

func (o *outcome) broken() bool { return o.exited || o.panicked != nil }

// repeat ends the caller's goroutine as that of the work ended, unless it
// returned.
func (o outcome) repeat() {
	switch {
	case o.panicked != nil:
		panic(o.panicked)
	case o.exited:
		runtime.Goexit()
	}
}

func start(ctx context.Context, t *Term, work func(context.Context, *Term) error) *job {
	j := &job{result: make(chan outcome), left: make(chan struct{}), gone: make(chan struct{})}
	j.ctx, j.stop = t.hold.Under(ctx)
	go j.run(t, work)
	return j
}

func (j *job) run(t *Term, work func(context.Context, *Term) error) {
	defer close(j.gone)
	o := outcome{exited: true} // unless it panics or returns
	defer func() {
		o.ended, o.cause, o.lost = j.ctx.Err() != nil, context.Cause(j.ctx), loss(t)
		select {
		case j.result <- o:
		case <-j.left:
			if o.panicked != nil {
				panic(o.panicked) // Run is not there to have it: as in any goroutine
			}
		}
	}()
	defer o.catch()
	o.err = work(j.ctx, t)
	o.exited = false
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
