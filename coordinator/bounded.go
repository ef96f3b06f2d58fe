package coordinator

import (
	"context"
	"slices"
	"sync"
	"time"
)

// bounded is the context of one attempt of a request. It has the values of the caller's context, and ends with that, with the session, and
// when the patience with the attempt does: with context.Canceled, and no other cause; see bind for why.
//
// It shows no deadline. etcd's client would send it with each request, and the server would keep a timer for it.
//
// There is one for each request, so it does without the contexts of the library that together would do the same: those cost
// more than all the rest of a request on this side.
type bounded struct {
	values context.Context
	alarm  Alarm       // rings when patience ends, and when the session does
	free   func() bool // takes back what ends it with values; nil if those never end

	mu    sync.Mutex
	err   error
	rang  bool          // the alarm
	done  chan struct{} // nil until somebody asks for it
	after []*func()     // what AfterFunc was given
}

// begin binds an attempt to a caller's context, and to a session by its alarms. stop ends it.
func (b *bounded) begin(patience *alarms) {
	patience.add(&b.alarm, b)
	if b.values.Done() != nil {
		b.free = context.AfterFunc(b.values, b.end)
	}
}

func (b *bounded) stop() {
	if b.free != nil {
		b.free()
	}
	b.alarm.Stop()
	b.end()
}

// Ring is the alarm's.
func (b *bounded) Ring() {
	b.mu.Lock()
	b.rang = true
	b.mu.Unlock()
	b.end()
}

// late tells whether the alarm has rung.
func (b *bounded) late() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rang
}

func (b *bounded) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return
	}
	b.err = context.Canceled
	if b.done != nil {
		close(b.done)
	}
	for _, f := range b.after {
		go (*f)()
	}
	b.after = nil
}

// AfterFunc is how package context has contexts that come from this one end with it, without a goroutine for each.
func (b *bounded) AfterFunc(f func()) (stop func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		go f()
		return func() bool { return false }
	}
	b.after = append(b.after, &f)
	return func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		i := slices.Index(b.after, &f)
		if i >= 0 {
			b.after = slices.Delete(b.after, i, i+1)
		}
		return i >= 0
	}
}

func (b *bounded) Done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done == nil {
		b.done = make(chan struct{})
		if b.err != nil {
			close(b.done)
		}
	}
	return b.done
}

func (b *bounded) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *bounded) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value is the caller's, but for what ends the caller's context: that has its cause.
func (b *bounded) Value(key any) any {
	if key == cancellerKey {
		return nil
	}
	return b.values.Value(key)
}

// cancellerKey is the key by which package context asks a context for what ends it. It has no name outside of that package, but
// whoever is asked learns it.
var cancellerKey = func() any {
	var a asked
	_ = context.Cause(&a)
	return a.key
}()

type asked struct{ key any }

func (a *asked) Value(key any) any         { a.key = key; return nil }
func (*asked) Deadline() (time.Time, bool) { return time.Time{}, false }
func (*asked) Done() <-chan struct{}       { return nil }
func (*asked) Err() error                  { return context.Canceled } // of one that has not ended nobody asks for the cause
