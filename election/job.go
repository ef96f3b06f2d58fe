package election

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/baton-go/baton/coordinator"
)

// panicError is the value with which Run panics after a panic of work, or of
// the function of WithOnError, in another goroutine, whose stack would
// otherwise be lost.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string {
	return fmt.Sprintf("baton: panic in a function given to Run: %v\n\n%s", p.value, p.stack)
}

func (p *panicError) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// job runs the work of one term in its own goroutine, so that Run can give it
// up.
type job struct {
	ctx    context.Context // the work's: it ends with the term's base, or with the term
	stop   func()
	result chan outcome  // not buffered: the outcome is received, or Run gave the job up
	left   chan struct{} // closed when Run gives the job up
	gone   chan struct{} // closed when its goroutine ends
}

// outcome is how work, or a report, ended.
type outcome struct {
	panicked *panicError
	exited   bool  // by runtime.Goexit
	err      error // the result of work, without Stop
	stop     bool  // the work has said so by Stop
	ended    bool  // its context had ended before
	cause    error // of that
	asked    error // why Run asked the work to stop, unless Run's context has ended
	lost     error // why the term was over by then, unless it was resigned
}

// catch is deferred by the goroutine of a function that may panic.
func (o *outcome) catch() {
	if v := recover(); v != nil {
		o.panicked = &panicError{value: v, stack: debug.Stack()}
	}
}

func (o *outcome) broken() bool { return o.exited || o.panicked != nil }

// repeat panics or exits as the work did, if it did.
func (o outcome) repeat() {
	switch {
	case o.panicked != nil:
		panic(o.panicked)
	case o.exited:
		runtime.Goexit()
	}
}

func start(t *Term, work func(context.Context, *Term) error) *job {
	j := &job{result: make(chan outcome), left: make(chan struct{}), gone: make(chan struct{})}
	j.ctx, j.stop = t.hold.Under(t.base)
	go j.run(t, work)
	return j
}

func (j *job) run(t *Term, work func(context.Context, *Term) error) {
	defer close(j.gone)
	o := outcome{exited: true} // unless it panics or returns
	defer func() {
		o.ended, o.cause, o.lost = j.ctx.Err() != nil, context.Cause(j.ctx), loss(t)
		o.asked = context.Cause(t.base)
		select {
		case j.result <- o:
		case <-j.left:
			if o.panicked != nil {
				panic(o.panicked) // Run has returned: crash, as in any goroutine
			}
		}
	}()
	defer o.catch()
	o.err, o.stop = stopped(work(j.ctx, t))
	o.exited = false
}

// poll returns the outcome if the work has returned.
func (j *job) poll() (o outcome, ok bool) {
	select {
	case o = <-j.result:
		return o, true
	default:
		return o, false
	}
}

// loss returns why a term was lost, or nil if it lasts or was resigned.
func loss(t *Term) error {
	if err := t.Err(); !errors.Is(err, coordinator.ErrReleased) {
		return err
	}
	return nil
}
