package election

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/baton-go/baton/coordinator"
)

// PanicError is what Run panics with when its work panicked, or foreign code
// that was called as it campaigned, such as an observer of the client: they run
// in goroutines of their own, whose stack would be lost otherwise.
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

// job is the work of one term, in a goroutine of its own: only so can Run give it up.
type job struct {
	ctx    context.Context // the work's
	stop   func()
	result chan outcome  // not buffered: either the outcome is taken, or the job is left
	left   chan struct{} // closed when nobody waits for the job any more
	gone   chan struct{} // closed when its goroutine ends
}

// outcome is how work returned.
type outcome struct {
	err      error
	panicked *PanicError
	exited   bool  // by runtime.Goexit
	ended    bool  // after its context had
	cause    error // of that
	lost     error // why the term was over by then, unless it was resigned
}

// start runs work in a new goroutine. Its context is Run's, which has the
// deadline and its error, with the term in it, and ended with the term as well.
func start(ctx context.Context, t *Term, work func(context.Context, *Term) error) *job {
	inner, cancel := context.WithCancelCause(context.WithValue(ctx, t.election.key(), t))
	c := &workContext{Context: inner, term: t, cancel: cancel}
	unhook := context.AfterFunc(t.Context(), c.over)
	j := &job{
		ctx:    c,
		stop:   func() { unhook(); cancel(nil) },
		result: make(chan outcome), left: make(chan struct{}), gone: make(chan struct{}),
	}
	go j.run(t, work)
	return j
}

func (j *job) run(t *Term, work func(context.Context, *Term) error) {
	var o outcome
	returned := false
	defer func() {
		if v := recover(); v != nil {
			o.panicked = &PanicError{Value: v, Stack: debug.Stack()}
		}
		o.exited = !returned && o.panicked == nil
		o.lost = loss(t)
		o.ended, o.cause = j.ctx.Err() != nil, context.Cause(j.ctx)
		defer close(j.gone)
		select {
		case j.result <- o:
		case <-j.left:
			if o.panicked != nil {
				panic(o.panicked) // nobody is there to have it: as in any goroutine
			}
		}
	}()
	o.err = work(j.ctx, t)
	returned = true
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

// workContext is the context of work: derived from Run's, and ended with the
// term as well. It looks at the clock as the term's does, which a derived
// context by itself would not.
type workContext struct {
	context.Context
	term   *Term
	cancel context.CancelCauseFunc
}

func (c *workContext) Err() error {
	if c.term.Err() != nil {
		c.over()
	}
	return c.Context.Err()
}

// over ends it with the term.
func (c *workContext) over() { c.cancel(context.Cause(c.term.Context())) }

// loss is why a term was lost, and nil while it lasts or if it was resigned.
func loss(t *Term) error {
	if err := t.Err(); !errors.Is(err, coordinator.ErrReleased) {
		return err
	}
	return nil
}
