package register

import (
	"context"
	"sync"
)

// Goroutines that change one Register at the same time share writes. One of
// them leads: it reads the value, computes the changes of all in the order of
// their arrival, and writes once. Each gets its own value.
//
//	Update -> waits -> has its result            written by the leader
//	            |  \-> its ctx has ended         leaves; see sent
//	            v
//	          leads -> has its result            the first that waits leads next
//	               \-> its ctx has ended         the next goes on with the write
//
// A write belongs to no goroutine: if its leader gives up, the next one sends
// it again or finds out whether it was applied.

// call is one Update. All but the channels is guarded by batch.mu.
type call struct {
	op      string
	compute Compute
	lead    chan struct{} // closed when it must lead
	done    chan struct{} // closed when it has a result

	number  int64
	sent    bool // it is part of the latest write
	changes bool // the value, in that write
	// its result, if that write is applied
	value int64
	err   error
	doubt bool
}

// batch is the calls without a result.
type batch struct {
	mu      sync.Mutex
	calls   []*call // in the order of their numbers
	latest  int64   // number
	leading bool    // one of them leads, or is about to
	current *update // that the leader makes, or has left; nil before it begins
	doubt   bool    // the latest write may have been applied, or may be later
}

// Update writes the value that compute returns for the latest value, and
// returns it. op is the user's operation. doubt: the write may have been
// applied, or may be later, in spite of err.
func (r *Register) Update(
	ctx context.Context, op string, compute Compute,
) (value int64, doubt bool, err error) {
	if ctx.Err() != nil {
		return 0, false, context.Cause(ctx)
	}
	c := &call{op: op, compute: compute, lead: make(chan struct{}), done: make(chan struct{})}
	r.mu.Lock()
	r.latest++
	c.number = r.latest
	r.calls = append(r.calls, c)
	if !r.leading {
		r.leading = true
		close(c.lead)
	}
	r.mu.Unlock()
	select {
	case <-c.lead:
		r.lead(ctx, c)
	case <-c.done:
	case <-ctx.Done():
		r.leave(ctx, c, context.Cause(ctx))
	}
	return c.value, c.doubt, c.err
}

// lead makes updates until c has a result or ctx has ended, and makes another
// call lead.
func (r *Register) lead(ctx context.Context, c *call) {
	r.mu.Lock()
	if r.current == nil {
		r.current = &update{Register: r, op: c.op}
	}
	u := r.current
	r.mu.Unlock()
	finished := false
	defer func() {
		if !finished { // an observer panics
			r.leave(ctx, c, context.Canceled)
		}
	}()
	err := u.run(ctx, c)
	if err != nil && ctx.Err() == nil {
		r.fail(err, anyCall)
	}
	finished = true
	r.leave(ctx, c, err)
}

// leave removes a call that gives up for a reason, unless it has a result. If
// it leads or must lead, another call does from now on.
func (r *Register) leave(ctx context.Context, c *call, why error) {
	r.mu.Lock()
	given := false // up
	for i, other := range r.calls {
		if other == c {
			r.calls = append(r.calls[:i:i], r.calls[i+1:]...)
			c.fail(why, r.doubt)
			given = true
			break
		}
	}
	var left *update
	select {
	case <-c.lead:
		// The update of a call with a result is over. One of a call that has
		// given up goes on, unless nobody is left.
		if u := r.current; u != nil && (!given && !r.doubt || len(r.calls) == 0) {
			left, r.current = u, nil
			if r.doubt {
				r.wrote, r.doubt = none, false
			}
		}
		if len(r.calls) > 0 {
			close(r.calls[0].lead)
		} else {
			r.leading = false
		}
	default:
	}
	r.mu.Unlock()
	if left != nil {
		left.release(ctx)
	}
}

func (c *call) fail(why error, doubt bool) {
	c.value, c.err, c.doubt = 0, why, doubt && c.sent && c.changes
}

// ended reports whether the call has a result.
func (c *call) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// arrived returns the number of the latest call.
func (b *batch) arrived() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.latest
}

func (b *batch) setDoubt(doubt bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doubt = doubt
}

// finish ends the calls for which is holds, with the results that they have.
func (b *batch) finish(is func(*call) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var rest []*call
	for _, c := range b.calls {
		if is(c) {
			close(c.done)
		} else {
			rest = append(rest, c)
		}
	}
	b.calls = rest
}

// fail ends the calls for which is holds with an error.
func (b *batch) fail(why error, is func(*call) bool) {
	b.finish(func(c *call) bool {
		if !is(c) {
			return false
		}
		c.fail(why, b.doubt)
		return true
	})
}

func anyCall(*call) bool    { return true }
func sentCall(c *call) bool { return c.sent }
