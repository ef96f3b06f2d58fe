// Package held makes one hold of several. It lives while enough of them do.
package held

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// Handle is what the handles of all recipes have in common.
type Handle interface {
	Context() context.Context
	Err() error
	Deadline() time.Time
	Token() coordinator.Token
}

// Holds is the hold of several members. It ends when fewer than need of them
// are held or may still be acquired.
type Holds struct {
	need int
	name func(i int) string
	over context.Context // ends with the hold
	end  context.CancelCauseFunc
	ends engine.Ends // of over; run after each end, before an entry leaves
	ctx  holdContext

	mu      sync.Mutex // guards what follows; never held across I/O
	carried map[any]any
	members []member
	left    int  // members that are held or may still be acquired
	granted bool // see Grant
}

// member is one of the holds. It is pending while it has neither a handle nor a
// reason why it is not held.
type member struct {
	Handle
	release func(ctx context.Context) error
	token   coordinator.Token
	stop    func()    // stops the report of a loss
	why     error     // why it is not held
	since   time.Time // when why was set
}

func (m *member) held() bool { return m.Handle != nil && m.why == nil }

// New returns the hold of n pending members. Its context has the values of ctx.
// name names a member in errors.
func New(ctx context.Context, n, need int, name func(i int) string) *Holds {
	l := &Holds{need: need, name: name, carried: make(map[any]any), members: make([]member, n), left: n}
	l.over, l.end = context.WithCancelCause(context.Background())
	l.ctx = holdContext{Context: l.over, values: ctx, holds: l}
	return l
}

// Add adds the handle of a pending member. Only one goroutine calls Add.
func (l *Holds) Add(i int, h Handle, release func(ctx context.Context) error) {
	l.mu.Lock()
	m := &l.members[i]
	m.Handle, m.release, m.token = h, release, h.Token()
	if key, value, ok := recipes.Carried(h.Context()); ok {
		l.carried[key] = value
	}
	l.mu.Unlock()
	// Not with l.mu locked: if the member is lost, Miss is called at once. Not
	// before the handle is known: it would count as never acquired.
	stop := engine.OnEnd(h.Context(), func() { l.Miss(i, context.Cause(h.Context())) })
	l.mu.Lock()
	m.stop = stop
	l.mu.Unlock()
}

// Carry makes the contexts of the hold have a value, besides its members.
func (l *Holds) Carry(key, value any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.carried[key] = value
}

func (l *Holds) carries(key any) any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.carried[key]
}

// Miss reports that a member was not acquired, or is lost. When it returns, the
// member's entry may leave: also for the second of two concurrent calls, the
// contexts have ended if too few members are left.
func (l *Holds) Miss(i int, why error) {
	if l.miss(i, why) {
		l.ends.Run()
	}
}

// miss is Miss before the functions of ends. It reports whether the hold is
// over.
func (l *Holds) miss(i int, why error) (over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &l.members[i]
	if m.why != nil {
		return l.ended()
	}
	m.why, m.since = why, time.Now()
	if !l.granted {
		m.token = 0
	}
	// The first one that is too many, since the cause names all others.
	if l.left--; l.left == l.need-1 {
		l.end(l.cause())
	}
	return l.ended()
}

// Grant ends the acquisition. It returns nil if the hold is alive. Members that
// are lost later keep their tokens. One that was lost before has none: another
// caller may have held it since, with a greater token, and a resource that
// knows that one would refuse this hold.
//
// The time of WithMaxHold starts now: the work did not run while later members
// were waited for.
func (l *Holds) Grant() error {
	err := l.Err()
	l.mu.Lock()
	l.granted = true
	l.mu.Unlock()
	for i := range l.members {
		if h := l.handle(i); h != nil && err == nil {
			recipes.StartMaxHold(h.Context())
		}
	}
	return err
}

// Over returns why the hold has ended, without reading the clocks of all
// members, or nil.
func (l *Holds) Over() error { return context.Cause(l.over) }

// cause says why too few members are left. If members were lost, it does not
// wrap the errors of those that were never held.
func (l *Holds) cause() error {
	var lost, missed []error
	for i, m := range l.members {
		switch {
		case m.why == nil:
		case m.Handle != nil:
			lost = append(lost, &coordinator.Error{Op: "hold", Name: l.name(i), Err: m.why})
		default:
			missed = append(missed, fmt.Errorf("%s: %w", l.name(i), m.why))
		}
	}
	if len(lost) == 0 {
		lost = missed
	}
	err := errors.Join(lost...)
	switch {
	case len(lost) == 1 && l.need == len(l.members):
		return lost[0]
	case l.need < len(l.members):
		return fmt.Errorf("%d of %d members are needed, %d are left: %w",
			l.need, len(l.members), l.left, err)
	}
	return err
}

// eachHeld calls f with the entry of each member that is held.
func (l *Holds) eachHeld(f func(engine.Held)) {
	if l.over.Err() != nil {
		return
	}
	for i := range l.members {
		if h := l.handle(i); h != nil {
			if member := engine.HolderOf(h.Context()); member != nil {
				member.EachHeld(f)
			}
		}
	}
}

// Held returns how many members are held.
func (l *Holds) Held() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.members {
		if l.members[i].held() {
			n++
		}
	}
	return n
}

// Holding reports whether a member is held.
func (l *Holds) Holding(i int) bool { return l.handle(i) != nil }

func (l *Holds) handle(i int) Handle {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.members[i].held() {
		return l.members[i].Handle
	}
	return nil
}

// Context ends when the hold does, with the cause. It has the values of the
// last handle's context, and reads the clock as those do.
func (l *Holds) Context() context.Context { return &l.ctx }

// Err reads the clocks of the members. Those that must ask their service, since
// the machine may have slept, do so at the same time.
func (l *Holds) Err() error {
	var slept []int
	for i := 0; i < len(l.members) && !l.ended(); i++ {
		h := l.handle(i)
		switch {
		case h == nil:
		case time.Now().Round(0).After(h.Deadline().Round(0)): // by the wall clock
			slept = append(slept, i)
		default:
			l.check(i, h)
		}
	}
	if len(slept) > 0 && !l.ended() {
		Together(len(slept), func(j int) {
			if h := l.handle(slept[j]); h != nil {
				l.check(slept[j], h)
			}
		})
	}
	return context.Cause(l.over)
}

func (l *Holds) lost() error { return engine.LossOf(l.over) }

func (l *Holds) onLost(f func()) (stop func()) { return l.ends.Add(l.over, f) }

func (l *Holds) ended() bool { return l.over.Err() != nil }

func (l *Holds) check(i int, h Handle) {
	if err := h.Err(); err != nil {
		l.Miss(i, err)
	}
}

// Deadline returns the time at which too few members are held if no renewal is
// acknowledged before it: the need-th latest of their deadlines. That of a lost
// member is not after the moment at which the loss was noticed.
func (l *Holds) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := make([]time.Time, len(l.members)) // zero if it was never held
	for i, m := range l.members {
		if m.Handle != nil {
			ends[i] = m.Deadline()
		}
		if m.why != nil && m.since.Before(ends[i]) {
			ends[i] = m.since // an operator removed it
		}
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[l.need-1]
}

// Tokens returns the token of each member's grant, 0 if it was not held when
// Grant was called.
func (l *Holds) Tokens() []coordinator.Token {
	l.mu.Lock()
	defer l.mu.Unlock()
	tokens := make([]coordinator.Token, len(l.members))
	for i, m := range l.members {
		tokens[i] = m.token
	}
	return tokens
}

// Release ends the hold and releases all members at once. The errors are those
// of the members, nil for one that was released or never acquired.
func (l *Holds) Release(ctx context.Context) []error {
	ctx, stop := engine.ReleaseContext(ctx)
	defer stop()
	l.end(coordinator.ErrReleased) // before another caller can acquire a member
	l.ends.Run()
	errs := make([]error, len(l.members))
	Together(len(errs), func(i int) {
		l.mu.Lock()
		m := l.members[i]
		l.mu.Unlock()
		if m.Handle != nil {
			m.stop()
			errs[i] = m.release(ctx)
		}
	})
	return errs
}

// Together calls f with 0 to n-1 at the same time, and waits. It panics if one
// of them does: an observer may.
func Together(n int, f func(i int)) {
	panics := make([]any, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			defer func() { panics[i] = recover() }()
			f(i)
		})
	}
	wg.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
}
