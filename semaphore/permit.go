package semaphore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// Permit is what one Acquire was granted: a handle of one or more permits. It
// is safe for concurrent use, and must not be copied.
type Permit struct {
	hold      *recipes.Hold
	semaphore *Semaphore

	busy   chan struct{} // held, by sending to it, while n or slots are changed
	n      atomic.Int64  // permits that are held
	slots  []int         // nil before the first call of Slots
	unsure bool          // the record may show others, since a request that wrote it had no answer
}

func (s *Semaphore) permit(h *recipes.Hold, n int) *Permit {
	p := &Permit{hold: h, semaphore: s, busy: make(chan struct{}, 1)}
	p.n.Store(int64(n))
	return p
}

// Permits is how many permits are held: what was acquired less what ReleasePart
// gave back. It is 0 once the permit is released or lost.
func (p *Permit) Permits() int {
	if p.hold.Err() != nil {
		return 0
	}
	return int(p.n.Load())
}

// Release gives all permits back; who is next is admitted. It works with a ctx
// that is dead already.
//
// A second Release returns coordinator.ErrNotHeld and changes nothing. When the
// permits were lost before, the error says why. After any other error the
// release goes on in the background.
func (p *Permit) Release(ctx context.Context) error {
	return p.describe("release", p.hold.Release(ctx))
}

// ReleasePart gives n of several permits back, fewer than are held. The others
// stay held, with the same token and context. Of the numbers that Slots
// returned, the last n are given back. It works with a ctx that is dead
// already, for up to two seconds. After Release the error is
// coordinator.ErrNotHeld; after a loss it says why.
//
// After another error, Permits tells how many are held still. When ctx ends
// before the service answers, or the service refuses, the error says so, with
// coordinator.MayHaveApplied: either the permits count as given back, and the
// release goes on in the background; or, if numbers had to be given back first
// and that had no answer, nothing is given back, and the call can be repeated.
func (p *Permit) ReleasePart(ctx context.Context, n int) error {
	const op = "release-part"
	ctx, stop := engine.ReleaseContext(ctx)
	defer stop()
	if err := enter(ctx, p.busy); err != nil {
		return err
	}
	defer func() { <-p.busy }()
	if err := p.hold.Check(ctx); errors.Is(err, coordinator.ErrReleased) {
		return coordinator.ErrNotHeld
	} else if err != nil {
		return p.describe(op, err)
	}
	held := int(p.n.Load())
	left := held - n
	if n < 1 || left < 1 {
		return fmt.Errorf("baton: %w: to release %d of %d permits of semaphore %q in part:"+
			" want at least 1, and fewer than are held",
			coordinator.ErrInvalid, n, held, p.semaphore.Name())
	}
	// The slots first, or another holder could have a permit and no slot; but
	// not where Convert is refused.
	if p.hold.Converts() && (len(p.slots) > left || p.unsure) {
		if err := p.number(ctx, left); err != nil {
			return p.describe(op, err)
		}
	}
	err := p.hold.Convert(ctx, holdingMode(left))
	if err == nil || coordinator.MayHaveApplied(err) {
		p.n.Store(int64(left))
	}
	return p.describe(op, err)
}

// describe names the operation. No context is asked: what failed is the
// service's or the permit's doing.
func (p *Permit) describe(op string, err error) error {
	return recipes.Describe(context.Background(), op, p.semaphore.Name(), err)
}

// Token is the fencing token of this grant. Several grants hold at once, with
// different tokens: a resource that checks them has to know the holders, or
// check by slot.
func (p *Permit) Token() coordinator.Token { return p.hold.Token() }

// Sequencer tells of this permit in a form that can be shown to others, in any
// process, and checked there: see package coordinator/fence. ReleasePart ends
// it; after that, ask again. The first of a session is a request, and so is the
// first of a permit, whose entry has to say that it holds. When the permit is
// over the error says why, as Err does.
func (p *Permit) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	s, err := p.hold.Sequencer(ctx)
	return s, recipes.Describe(ctx, "sequencer", p.semaphore.Name(), err)
}

// Context ends when the permit does, with the cause (coordinator.ErrReleased,
// ErrSessionLost, ErrRemoved, ErrClosed), and before anyone else can have what
// it holds. It has the values of the context given to Acquire, but not its
// deadline.
func (p *Permit) Context() context.Context { return p.hold.Context() }

// Err returns nil while the permit is held, by the clock, and then why it is
// not. After the machine may have slept it asks the service first, and waits
// for two seconds at most.
func (p *Permit) Err() error { return p.hold.Err() }

// Session is the ID of the session that holds, as List shows it.
func (p *Permit) Session() string { return p.hold.Session() }

// Deadline is when the permit is lost unless the session is renewed before. It
// moves on with every renewal, and has a monotonic clock reading.
func (p *Permit) Deadline() time.Time { return p.hold.Deadline() }
