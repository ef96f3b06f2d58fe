// Package doublebarrier is a barrier for n members, which enter together and
// leave together: for work in phases.
//
//	b, err := doublebarrier.New(client, "phase", 3)
//	...
//	m, err := b.Enter(ctx) // blocks until three have entered
//	work(m.Context())
//	err = m.Leave(ctx)     // blocks until all three are done
//
// # Guaranteed
//
// n members have called Enter before one Enter returns. All of them have called
// Leave before one Leave returns without an error. The same name can be used
// round after round; callers beyond n wait for the next round.
//
// A member that dies or gives up inside does not block the others for ever.
// Their Leave returns a [*MemberLostError], but not before the lost session has
// ended, which takes the TTL after a crash. At the latest it returns when all
// others have called Leave, too.
//
// A call whose context ends removes its entries, in the background if
// necessary. The record of the name stays.
//
// # Not guaranteed
//
// Enter does not notice a member that dies later, nor does work. A member that
// gives up in the moment in which the last one enters counts as lost. If an
// operator deletes or replaces the record, a Leave may return too early.
//
// # Protocol
//
// Each member has an entry in the name's queue. The record has the round.
//
//	n entries newer than all earlier members -> record: round, members
//	each member adds a second entry to leave -> record: round over
//	a member has no entry before that        -> record: round over, who is lost
//
// The last entry to join sees the others, and its owner writes the record. If
// the owner dies before, there are no n entries. Each write wakes all who wait
// for it, once. A leaving member also watches the entry of the member before
// it, in a ring, so a death wakes one member, which writes the record.
package doublebarrier

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/doublebarrier/internal/round"
)

// MaxMembers is the largest number of members.
const MaxMembers = 200

// Barrier is a double barrier that the service stores: Barriers with the same
// name, service and namespace are the same. All must have the same number of
// members. It has no state, and is safe for concurrent use.
type Barrier struct {
	queue *recipes.Queue
	n     int
}

// New returns the barrier of a name (see [coordinator.CheckName]) for n
// members, 1 to [MaxMembers]. It does no I/O. The error is
// coordinator.ErrInvalid, also for a client whose queues other libraries share.
func New(c *coordinator.Client, name string, n int) (*Barrier, error) {
	if n < 1 || n > MaxMembers {
		return nil, fmt.Errorf("baton: %w: double barrier %q of %d members: want 1 to %d",
			coordinator.ErrInvalid, name, n, MaxMembers)
	}
	queue, err := recipes.NewQueue(c, "double-barrier", name)
	if err != nil {
		return nil, err
	}
	return &Barrier{queue, n}, nil
}

// Name returns the barrier's name.
func (b *Barrier) Name() string { return b.queue.Name() }

// MemberLostError says that a round has lost members: they died, lost their
// sessions or gave up.
type MemberLostError struct {
	Name string
	// Members are the identities of their clients: at most 20, cut to 64 bytes.
	// None means that they are not known any more.
	Members []string
}

func (e *MemberLostError) Error() string {
	if len(e.Members) == 0 {
		return "a member was lost"
	}
	shown := make([]string, len(e.Members))
	for i, m := range e.Members { // as another client wrote it
		shown[i] = engine.Printable(m)
	}
	return "lost " + strings.Join(shown, ", ")
}

// result returns the error of a round that is over.
func (b *Barrier) result(s round.Round, n int64) error {
	if lost, ok := s.Lost(n); len(lost) > 0 || !ok {
		return &MemberLostError{b.Name(), lost}
	}
	return nil
}

// write writes the record. again: read it again, to see which write was first.
func (b *Barrier) write(
	ctx context.Context, s round.Round, version driver.Version,
) (again bool, err error) {
	err = b.queue.SetRecord(ctx, s.Encode(), version)
	if err == nil || recipes.Overtaken(ctx, err) {
		return true, nil
	}
	return false, err
}

// Enter blocks until n members have entered. The caller must [Member.Leave]. On
// failure the caller is not inside. Errors: the cause of ctx, with
// coordinator.ErrUnavailable if the service did not answer; ErrInvalid, if a
// member that waits has another n; ErrSessionLost; ErrRemoved; ErrRefused;
// ErrClosed. If a lost member ends a round before this call has noticed its
// start, the error is a [*MemberLostError], or ErrRemoved once the next round
// has begun.
func (b *Barrier) Enter(ctx context.Context) (*Member, error) {
	full := false // n entries may be queued, or one with another n
	h, err := b.queue.Acquire(ctx, recipes.Request{Op: "enter", Mode: round.Mode(b.n), Fresh: true,
		Rule: func(ahead []driver.Place) recipes.Verdict {
			full = len(ahead)+1 >= b.n || slices.ContainsFunc(ahead, b.other)
			return recipes.Verdict{Admitted: true}
		}})
	if err != nil {
		return nil, err
	}
	under, stop := h.Under(ctx)
	defer stop()
	m := &Member{barrier: b, hold: h}
	if err := m.enter(under, full); err != nil {
		release(ctx, h)
		return nil, recipes.Describe(ctx, "enter", b.Name(), err)
	}
	return m, nil
}

func (b *Barrier) other(p driver.Place) bool {
	return round.Entering(p.Mode) && p.Mode != round.Mode(b.n)
}

// enter waits for a round with this member. full: n entries may be queued. The
// n-th that waits knows that, so one that does not know it need not ask again.
func (m *Member) enter(ctx context.Context, full bool) error {
	b := m.barrier
	s, version, err := round.Decode(b.queue.Record(ctx))
	for err == nil {
		i := s.Find(m.hold.Place().Key)
		var t turn
		switch {
		case i >= 0 && s.Over: // without this member only if others were lost
			lost, _ := s.Lost(s.Round)
			return &MemberLostError{b.Name(), lost}
		case i >= 0:
			m.round = s
			m.before = s.Members[(i+len(s.Members)-1)%len(s.Members)].Entry
			return nil
		case m.hold.Token() <= s.Last: // which the hold does not know yet
			return fmt.Errorf("%w: the record has later members: the round of this one is over, or "+
				"the record is from another service", coordinator.ErrRemoved)
		case full || !s.Over:
			if t, err = m.take(ctx, s, version); err != nil {
				return err
			}
		}
		if t.again {
			s, version, err = round.Decode(b.queue.Record(ctx))
		} else {
			s, version, err = round.Decode(b.next(ctx, version, t.watch))
		}
	}
	return err
}

// turn is what a member that wants to enter does next: read the record again,
// or wait until it changes or a place leaves.
type turn struct {
	again bool
	watch driver.Place // may be zero
}

// take writes the next round, if n entries wait for it, or ends the current one
// if all its members have died. So that this is noticed, a member that waits
// meanwhile watches the one before it, and the first a member that is inside.
func (m *Member) take(ctx context.Context, s round.Round, version driver.Version) (t turn, err error) {
	b := m.barrier
	list, err := b.queue.List(ctx, func(string) recipes.Rule { return recipes.Exclusive })
	if err != nil {
		return t, err
	}
	if s.Over {
		next, ok, err := s.Next(list, b.n)
		if ok {
			t.again, err = b.write(ctx, next, version)
		}
		return t, err
	}
	for _, c := range list {
		earlier := c.Token <= s.Last && s.Find(c.Key) < 0 // a member of an earlier round
		if c.Token < m.hold.Token() && round.Entering(c.Mode) && !earlier {
			t.watch = driver.Place{Key: c.Key, ID: c.ID, Mode: c.Mode, Session: c.Session}
		}
	}
	if t.watch == (driver.Place{}) {
		t.again, err = b.write(ctx, s.End(s.Identities()), version)
	}
	return t, err
}

// next waits for the next record, or the one at which a place has left.
func (b *Barrier) next(
	ctx context.Context, version driver.Version, watch driver.Place,
) (driver.Record, error) {
	if watch == (driver.Place{}) {
		return b.queue.NextRecord(ctx, version)
	}
	either, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gone := make(chan error, 1)
	go func() { // waited for below
		err := b.queue.AwaitGone(either, watch)
		cancel(err)
		gone <- err
	}()
	r, err := b.queue.NextRecord(either, version)
	cancel(nil)
	if <-gone == nil {
		return b.queue.Record(ctx)
	}
	return r, err // the cause, if the other wait has failed
}
