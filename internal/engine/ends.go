package engine

import (
	"container/list"
	"context"
	"sync"
)

// Ends calls functions when contexts end, in the goroutine that ends them. A
// holder must learn of the end before its entry leaves the queue, and
// [context.AfterFunc] is too late for that: it calls its function in a new
// goroutine, which may run after the next holder has begun to work. The zero
// value is ready.
//
//	the one that ends ctx:  cancel ctx -> Run -> remove the entry
type Ends struct {
	mu  sync.Mutex
	all list.List // of *end
}

type end struct {
	of context.Context
	f  func()
}

// Add adds a function for the end of ctx, whose Err must have no effect. If ctx
// has ended, it calls f at once. f is short, does not block, and may be called
// more than once, also at the same time. After stop, no call begins.
func (e *Ends) Add(ctx context.Context, f func()) (stop func()) {
	e.mu.Lock()
	elem := e.all.PushBack(&end{ctx, f})
	e.mu.Unlock()
	stop = func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.all.Remove(elem) // nothing, if it is gone
	}
	// After the function was added: a Run that has not seen it came before, so
	// the end of ctx is seen here.
	if ctx.Err() != nil {
		f()
		stop()
	}
	return stop
}

// Run calls the functions of all contexts that have ended. When it returns, all
// of them have returned, also those that a concurrent Run has called: of two
// goroutines that end a hold, either may remove its entry.
func (e *Ends) Run() {
	for _, elem := range e.left() { // f may lock what is locked around Add
		x := elem.Value.(*end)
		if x.of.Err() != nil {
			x.f()
			// Not before f has returned: a concurrent Run, which does not find
			// it, must not return earlier. But then: the loss of a session
			// calls Run for each of its holds, and a set has a function for
			// each member.
			e.mu.Lock()
			e.all.Remove(elem)
			e.mu.Unlock()
		}
	}
}

// left returns those that have not been called.
func (e *Ends) left() []*list.Element {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all.Len() == 0 {
		return nil
	}
	all := make([]*list.Element, 0, e.all.Len())
	for elem := e.all.Front(); elem != nil; elem = elem.Next() {
		all = append(all, elem)
	}
	return all
}

// EndsWithin is the Ends of a context within another one, of whose Ends it is a
// part: if n callers share a hold, the end of one must not search the functions
// of all. It costs nothing before the first function is added.
type EndsWithin struct {
	Ends
	of     context.Context
	outer  adder
	once   sync.Once
	unhook func()
}

type adder interface {
	Add(ctx context.Context, f func()) (stop func())
}

// Begin makes e a part of outer, which runs e when the context of has ended. It
// is called before all else.
func (e *EndsWithin) Begin(of context.Context, outer adder) { e.of, e.outer = of, outer }

// Add is Ends.Add, for a context within the outer one.
func (e *EndsWithin) Add(ctx context.Context, f func()) (stop func()) {
	// Before f is added: an end that comes later finds it through outer, and of
	// one that came before, Add itself sees that ctx has ended.
	e.once.Do(func() { e.unhook = e.outer.Add(e.of, e.Run) })
	return e.Ends.Add(ctx, f)
}

// Close ends the part. Its contexts have ended, and Run was called.
func (e *EndsWithin) Close() {
	e.once.Do(func() {}) // waits for an Add
	if e.unhook != nil {
		e.unhook()
	}
}

// OnEnd calls f when ctx ends. If ctx is the context of a hold, f is called
// before the hold's entry leaves; it is as for [Ends.Add]. Otherwise OnEnd is
// [context.AfterFunc].
func OnEnd(ctx context.Context, f func()) (stop func()) {
	if hold, ok := ctx.(interface{ OnEnd(func()) func() }); ok {
		return hold.OnEnd(f)
	}
	unhook := context.AfterFunc(ctx, f)
	return func() { unhook() }
}
