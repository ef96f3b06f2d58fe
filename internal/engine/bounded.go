package engine

import (
	"context"
	"sync/atomic"
)

// bounded is the context of one attempt of a request. It has the values of the caller's context, and ends with that, with the session, and
// when the patience with the attempt does: with context.Canceled, and no other cause; see bind for why.
//
// It shows no deadline. etcd's client would send it with each request, and the server would keep a timer for it.
//
// The embedded context is asked for a value first: that by which package context finds what ends a context must be its own, so that
// contexts derived from this one attach to it without a goroutine, and do not learn the caller's cause.
type bounded struct {
	context.Context
	cancel context.CancelFunc
	values context.Context
	alarm  Alarm       // rings when patience ends, and when the session does
	rang   atomic.Bool // the alarm
	free   func() bool // takes back what ends it with values; nil if those never end
}

// begin binds an attempt to a caller's context, and to a session by its alarms.
func begin(ctx context.Context, patience *alarms) *bounded {
	b := &bounded{values: ctx}
	b.Context, b.cancel = context.WithCancel(context.Background())
	patience.add(&b.alarm, b)
	if ctx.Done() != nil {
		b.free = context.AfterFunc(ctx, b.cancel)
	}
	return b
}

// end ends it with the attempt.
func (b *bounded) end() {
	if b.free != nil {
		b.free()
	}
	b.alarm.Stop()
	b.cancel()
}

// Ring is the alarm's.
func (b *bounded) Ring() {
	b.rang.Store(true)
	b.cancel()
}

func (b *bounded) Value(key any) any {
	if v := b.Context.Value(key); v != nil {
		return v
	}
	return b.values.Value(key)
}
