// Package multilock holds several locks at once: all of them, or none.
//
//	set, err := multilock.New(
//		multilock.Mutex(client, "account-17"),
//		multilock.Mutex(client, "account-42"),
//	)
//	err = set.Do(ctx, func(ctx context.Context) error {
//		return transfer(ctx) // ctx ends if either lock is lost
//	})
//
// # Guarantees
//
// All callers acquire members in one order, whatever order New was given: by
// service, recipe and name. So callers whose sets overlap do not deadlock.
// Members may be of one client or of several. The context of a held set ends
// when a member is lost. Each member has a fencing token of its own.
//
// # Not guaranteed
//
// A caller that waits for one member holds those before it, so a name that is
// held for long blocks the other names of each set that waits for it. A caller
// that holds a lock and then locks a set leaves the order, and can deadlock
// with another one. To re-enter a hold, give its context to [Set.Lock].
//
// # A majority of independent services
//
// A set of [NewQuorum] is held while a majority of its members is, each of them
// on a service of its own, as with Redlock. Callers exclude each other only if
// all give the same members, and while no service loses its data. Tokens of
// different services cannot be compared: a resource compares each with those of
// the same service. A service that does not answer delays each Lock by
// [AnswerTime]. One etcd or ZooKeeper of three nodes guarantees more and costs
// less.
package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
)

// AnswerTime is how long a quorum waits for a service that does not answer
// before it goes on without it.
const AnswerTime = 2 * time.Second

// Set is several locks that are acquired together. It has no state, and is safe
// for concurrent use.
type Set struct {
	members []Member
	need    int // members that a hold needs
}

// New returns the set of members, all of which a hold needs. It does no I/O. No
// member, two members with one name on a client, or a member that breaks a rule
// of its recipe is coordinator.ErrInvalid.
func New(members ...Member) (*Set, error) { return newSet(len(members), members) }

// NewQuorum returns the set of which a hold needs at least n members, more than
// half of them. See the package's comment for its limits. It does no I/O.
func NewQuorum(n int, members ...Member) (*Set, error) {
	return newSet(n, members)
}

func newSet(need int, members []Member) (*Set, error) {
	if need <= len(members)/2 || need > len(members) { // or there are none
		return nil, invalid("a set that needs %d of %d members", need, len(members))
	}
	s := &Set{members: slices.Clone(members), need: need}
	for i, m := range s.members {
		if m.err != nil {
			return nil, m.err
		}
		for _, other := range s.members[:i] {
			if other.client == m.client && other.queue == m.queue {
				return nil, invalid("%s is in the set twice", m.queue)
			}
		}
	}
	return s, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("baton: multilock: %w: %w", coordinator.ErrInvalid, fmt.Errorf(format, args...))
}

// Lock waits until the set is held. It acquires one member after the other, and
// waits in the queue of each.
//
// On success the caller has to unlock. On failure nothing is held: members that
// were are released, in the background if need be. The error is that of the
// member that failed or was lost meanwhile; a quorum's has those of all that
// failed. With several clients, the first call of a session reads the identity
// of its service, since the order depends on it.
func (s *Set) Lock(ctx context.Context) (*Lock, error) { return s.acquire(ctx, false) }

// TryLock is Lock that does not wait for a member that is held or queued for:
// the error is then coordinator.ErrTaken. A quorum is held if enough members
// are free.
func (s *Set) TryLock(ctx context.Context) (*Lock, error) { return s.acquire(ctx, true) }

// Do locks, runs work, and unlocks, also when work panics. The context of work
// ends when ctx does or when the set is lost; work must return soon after. Do
// returns the error of Lock, or that of work, with the loss of the set or a
// failed Unlock joined to it.
func (s *Set) Do(ctx context.Context, work func(ctx context.Context) error) (err error) {
	if work == nil {
		return invalid("nil work")
	}
	l, err := s.Lock(ctx)
	if err != nil {
		return err
	}
	bound, stop := within(ctx, l.ctx, l.over)
	defer func() {
		stop()
		over := l.Err()
		if unlocked := l.Unlock(ctx); over == nil {
			over = unlocked
		}
		if over != nil && !errors.Is(err, over) {
			err = errors.Join(err, over)
		}
	}()
	return work(bound)
}

// acquire takes the members in order. When too few can be held any more the
// wait for the next one ends.
func (s *Set) acquire(ctx context.Context, try bool) (*Lock, error) {
	l := &Lock{set: s, holds: make([]held, len(s.members)), left: len(s.members)}
	l.over, l.end = context.WithCancelCause(context.Background())
	order, err := s.order(ctx, l)
	if err != nil {
		return nil, err
	}
	values := ctx // and the holds that they carry, for re-entering
	for _, i := range order {
		if l.over.Err() != nil || ctx.Err() != nil {
			break
		}
		wait, stop := within(ctx, values, l.over)
		h, err := s.take(wait, s.members[i], try || len(l.order) >= s.need)
		stop()
		if err != nil {
			l.fail(err)
			continue
		}
		values = h.Context()
		context.AfterFunc(values, func() { l.fail(l.lost(i, context.Cause(h.Context()))) })
		l.holds[i], l.order = h, append(l.order, i)
	}
	if err = context.Cause(l.over); err == nil && len(l.order) < s.need {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = l.releaseAll(ctx, err)
		return nil, err
	}
	var cancel context.CancelCauseFunc
	l.ctx, cancel = context.WithCancelCause(context.WithoutCancel(values))
	context.AfterFunc(l.over, func() { cancel(context.Cause(l.over)) })
	return l, nil
}

// take acquires one member. A quorum first tries to, to find out whether the
// service answers. While it waits in the queue, the session's end shows that.
func (s *Set) take(ctx context.Context, m Member, try bool) (held, error) {
	if try || !s.all() {
		bound, cancel := s.bound(ctx)
		defer cancel()
		h, err := m.try(bound)
		if err == nil || try || !errors.Is(err, coordinator.ErrTaken) {
			return h, err
		}
	}
	return m.lock(ctx)
}

// within returns a context with the given values that ends with ctx or over,
// with the cause.
func within(ctx, values, over context.Context) (context.Context, func()) {
	wait, cancel := context.WithCancelCause(context.WithoutCancel(values))
	stopCtx := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	stopOver := context.AfterFunc(over, func() { cancel(context.Cause(over)) })
	return wait, func() {
		stopCtx()
		stopOver()
		cancel(nil)
	}
}

// order returns the members' indexes in the order that all callers use, without
// the members of a quorum whose service does not answer.
func (s *Set) order(ctx context.Context, l *Lock) ([]int, error) {
	services, errs := make([]string, len(s.members)), make([]error, len(s.members))
	if slices.ContainsFunc(s.members, func(m Member) bool { return m.client != s.members[0].client }) {
		ctx, cancel := s.bound(ctx)
		defer cancel()
		var wg sync.WaitGroup
		for i, m := range s.members {
			wg.Go(func() {
				session, err := m.client.Session(ctx)
				if err == nil {
					services[i], err = session.Service(ctx)
				}
				errs[i] = err
			})
		}
		wg.Wait()
	}
	var order []int
	for i, m := range s.members {
		if errs[i] != nil {
			l.fail(errs[i])
			continue
		}
		for _, j := range order {
			if services[j] == services[i] && s.members[j].queue == m.queue {
				return nil, invalid("members %d and %d are both %s on one service", j, i, m.queue)
			}
		}
		order = append(order, i)
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(services[i], services[j]),
			cmp.Compare(s.members[i].queue, s.members[j].queue))
	})
	return order, nil
}

// all reports whether a hold needs all members.
func (s *Set) all() bool { return s.need == len(s.members) }

// bound limits how long a quorum waits for an answer.
func (s *Set) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.all() {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, AnswerTime)
}

// Lock is a held set: a handle that is unlocked once. It is safe for concurrent
// use, and must not be copied.
type Lock struct {
	set      *Set
	over     context.Context // ends when too few members are left, with the cause
	end      context.CancelCauseFunc
	ctx      context.Context // over, with the values of the holds
	holds    []held          // by the index of the member; zero if it is not held
	order    []int           // the indexes of held members, in the order of acquiring
	released atomic.Bool

	mu   sync.Mutex
	left int   // members that are held or may still be
	err  error // why the others are not
}

func (l *Lock) lost(i int, cause error) error {
	return &coordinator.Error{Op: "hold", Name: l.set.members[i].queue, Err: cause}
}

// fail notes why a member cannot be held, or is not any more. With too few left
// it ends the hold.
func (l *Lock) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over.Err() != nil {
		return
	}
	if l.left--; l.err != nil {
		err = fmt.Errorf("%w; %w", l.err, err)
	}
	l.err = err
	switch {
	case l.left >= l.set.need:
	case l.set.all():
		l.end(err)
	default:
		l.end(fmt.Errorf("baton: multilock: %d of %d members left, %d needed: %w",
			l.left, len(l.holds), l.set.need, err))
	}
}

// Unlock releases the members in the reverse of the order in which they were
// acquired. It works with a ctx that has ended. A service that does not answer
// delays the rest until ctx or its session ends.
//
// A second Unlock returns coordinator.ErrNotHeld and changes nothing. Another
// error is that of the members that were lost before or whose release failed,
// which goes on in the background.
func (l *Lock) Unlock(ctx context.Context) error {
	if !l.released.CompareAndSwap(false, true) {
		return fmt.Errorf("baton: multilock: %w", coordinator.ErrNotHeld)
	}
	return l.releaseAll(ctx, coordinator.ErrReleased)
}

// releaseAll ends the hold with the cause and releases its members.
func (l *Lock) releaseAll(ctx context.Context, cause error) error {
	ctx, stop := engine.ReleaseContext(ctx)
	defer stop()
	l.end(cause)
	var err error
	for _, i := range slices.Backward(l.order) {
		err = errors.Join(err, l.holds[i].release(ctx))
	}
	return err
}

// Context ends when the hold does: when it is unlocked, with
// coordinator.ErrReleased as its cause, or when fewer members are held than the
// set needs, with the cause of the loss. It has the values of the context given
// to Lock, but not its deadline. Given to Lock of a member's recipe, or of a
// set with that member, it re-enters the member.
func (l *Lock) Context() context.Context { return l.ctx }

// Err returns nil while the set is held, by the clock, and then why it is not.
func (l *Lock) Err() error {
	if l.released.Load() {
		return coordinator.ErrReleased
	}
	alive := 0
	var lost error
	for _, i := range l.order {
		if err := l.holds[i].Err(); err == nil {
			alive++
		} else if lost == nil {
			lost = l.lost(i, err)
		}
	}
	if alive >= l.set.need {
		return nil
	}
	return lost
}

// Deadline is when the set is lost unless the sessions are renewed before.
func (l *Lock) Deadline() time.Time {
	var ends []time.Time
	for _, i := range l.order {
		ends = append(ends, l.holds[i].Deadline())
	}
	slices.SortFunc(ends, time.Time.Compare)
	return ends[len(ends)-l.set.need]
}

// Tokens are the fencing tokens of the members, in the order that New was given
// them; zero for a member of a quorum that is not held. Tokens of different
// names cannot be compared.
func (l *Lock) Tokens() []coordinator.Token {
	tokens := make([]coordinator.Token, len(l.holds))
	for _, i := range l.order {
		tokens[i] = l.holds[i].Token()
	}
	return tokens
}
