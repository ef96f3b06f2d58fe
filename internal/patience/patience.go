// Package patience bounds attempts of requests, on a path that costs little.
package patience

import (
	"context"
	"sync"
	"time"
)

// Patience bounds attempts. They share contexts, since a timer per attempt
// takes some 5 % of the client's CPU. It is safe for concurrent use.
type Patience struct {
	Lasts time.Duration
	life  context.Context

	mu    sync.Mutex
	ctx   context.Context // of the latest attempts
	began time.Time
}

// New returns a Patience of attempts that last as long as that, and end with
// life, which is as for Bind.
func New(life context.Context, lasts time.Duration) *Patience {
	return &Patience{Lasts: lasts, life: life}
}

// Context returns a context for an attempt that begins now. It ends with life,
// or with the cause context.DeadlineExceeded after at most Lasts and at least
// three quarters of that.
func (p *Patience) Context() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.ctx == nil || now.Sub(p.began) > p.Lasts/4 {
		ctx, cancel := context.WithCancelCause(p.life)
		time.AfterFunc(p.Lasts, func() { cancel(context.DeadlineExceeded) })
		p.ctx, p.began = ctx, now
	}
	return p.ctx
}

// Bind returns a context for a driver. It has the values of ctx, and ends with
// ctx or life. It is derived from life, which has no values and no deadline:
// then it needs one callback, for the end of ctx. gRPC would tell the server a
// deadline, which sets a timer, too.
//
// Its cause is context.DeadlineExceeded when a Patience has ended, and else
// context.Canceled, the only other cause that life may have. It is never the
// cause of ctx, which is often one of our own errors: a hold's context ends
// with ErrSessionLost. If a driver returned that, it would seem to say that
// this session is lost.
func Bind(ctx, life context.Context) (bound context.Context, stop func()) {
	bound, cancel := context.WithCancel(valued{life, ctx})
	if ctx.Done() == nil {
		return bound, cancel
	}
	unhook := context.AfterFunc(ctx, cancel)
	return bound, func() {
		unhook()
		cancel()
	}
}

// valued is a context with the values of another one.
type valued struct {
	context.Context
	values context.Context
}

// Value asks the own context first: it finds that which ends, from which the
// standard library derives contexts without a goroutine.
func (v valued) Value(key any) any {
	if own := v.Context.Value(key); own != nil {
		return own
	}
	return v.values.Value(key)
}
