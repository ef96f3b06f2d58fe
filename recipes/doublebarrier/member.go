package doublebarrier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/doublebarrier/internal/round"
)

// Member is a member that has entered. It is safe for concurrent use.
type Member struct {
	barrier *Barrier
	hold    *recipes.Hold
	round   round.Round // when it began
	before  string      // the entry that this member watches; see round.Entry
	left    atomic.Bool
}

// Context ends when this member has left, or its session is lost, with the
// cause: see [recipes.Hold.Context]. It does not end when another member is
// lost.
func (m *Member) Context() context.Context { return m.hold.Context() }

// Round returns the number of the round, which is the same for all its members.
// It starts with 1 and rises.
func (m *Member) Round() int64 { return m.round.Round }

// releaseTime bounds a release: it goes on in the background.
const releaseTime = 250 * time.Millisecond

func release(ctx context.Context, h *recipes.Hold) {
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	_ = h.Release(brief)
}

// Leave blocks until all members of the round have called Leave, or one is
// lost: then the error is a [*MemberLostError]. It ends the membership in any
// case: if ctx ends first, the others get that error. Errors: those of
// [Barrier.Enter], but not ErrInvalid; coordinator.ErrNotHeld, if Leave was
// called before.
func (m *Member) Leave(ctx context.Context) error {
	name := m.barrier.Name()
	if !m.left.CompareAndSwap(false, true) {
		return recipes.Describe(context.Background(), "leave", name, coordinator.ErrNotHeld)
	}
	defer release(ctx, m.hold)
	under, stop := m.hold.Under(ctx)
	defer stop()
	err := m.hold.Check(ctx)
	if err == nil {
		err = m.leave(under)
	}
	return recipes.Describe(ctx, "leave", name, err)
}

// errOver ends the wait in the queue.
var errOver = errors.New("the round is over")

// leave waits in the queue until this member is the last to leave or the one
// before it is lost, and ends the round, unless another member has ended it.
func (m *Member) leave(ctx context.Context) error {
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var last round.Round
	ended := make(chan error, 1)
	go func() { // waited for below
		var err error
		if last, err = m.awaitEnd(wait); err == nil {
			err = errOver
		}
		cancel(err)
		ended <- err
	}()
	var lost []string
	mode := "l" + strconv.FormatInt(m.round.Round, 36)
	h, err := m.barrier.queue.Acquire(wait, recipes.Request{Op: "leave", Mode: mode, Fresh: true,
		Rule: func(ahead []driver.Place) (v recipes.Verdict) {
			lost, v = m.judge(mode, ahead)
			return v
		}})
	if err == nil {
		defer release(ctx, h)
		err = m.end(ctx, lost)
	}
	if err != nil {
		cancel(err)
	}
	if over := <-ended; !errors.Is(over, errOver) {
		return cmp.Or(err, over)
	}
	return m.barrier.result(last, m.round.Round)
}

// judge is the rule of a leaving member. All members had joined before one
// leaves, so a member that is not ahead is lost.
func (m *Member) judge(mode string, ahead []driver.Place) (lost []string, v recipes.Verdict) {
	at := make(map[string]driver.Place, len(ahead))
	leaving := 1
	for _, p := range ahead {
		if at[round.Entry(p.Key)] = p; p.Mode == mode {
			leaving++
		}
	}
	for _, s := range m.round.Members {
		if _, here := at[s.Entry]; !here {
			lost = append(lost, s.Identity)
		}
	}
	if len(lost) > 0 || leaving >= len(m.round.Members) {
		return lost, recipes.Verdict{Admitted: true}
	}
	return nil, recipes.Verdict{Watch: []driver.Place{at[m.before]}}
}

// end writes that the round is over.
func (m *Member) end(ctx context.Context, lost []string) error {
	for {
		s, version, err := round.Decode(m.barrier.queue.Record(ctx))
		if err != nil || s.Round != m.round.Round || s.Over {
			return err
		}
		if again, err := m.barrier.write(ctx, s.End(lost), version); !again {
			return err
		}
	}
}

// awaitEnd waits until the round is over. The record is not older than the
// round: after a loss of the session the hold is lost too, and ctx ends.
func (m *Member) awaitEnd(ctx context.Context) (round.Round, error) {
	for s, version, err := round.Decode(m.barrier.queue.Record(ctx)); ; {
		switch {
		case err != nil || s.Round > m.round.Round || s.Round == m.round.Round && s.Over:
			return s, err
		case s.Round < m.round.Round:
			return s, fmt.Errorf("%w: the record of round %d", coordinator.ErrRemoved, m.round.Round)
		}
		s, version, err = round.Decode(m.barrier.queue.NextRecord(ctx, version))
	}
}
