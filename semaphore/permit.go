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

// Permit is a handle of the permits of one Acquire. It is safe for concurrent
// use, and must not be copied.
type Permit struct {
	hold      *recipes.Hold
	semaphore *Semaphore

	writing chan struct{} // held, by sending to it, while n or slots change
	n       atomic.Int64  // permits that are held
	slots   []int         // nil before the first call of Slots
	unsure  bool          // the record may differ, since a write of it had no answer
}

func (s *Semaphore) permit(h *recipes.Hold, n int) *Permit {
	p := &Permit{hold: h, semaphore: s, writing: make(chan struct{}, 1)}
	p.n.Store(int64(n))
	return p
}

// Permits returns how many permits are held: 0 after a release or loss.
func (p *Permit) Permits() int {
	if p.hold.Err() != nil {
		return 0
	}
	return int(p.n.Load())
}

// Release releases all permits. If the permit was lost before, Release returns
// why: coordinator.ErrSessionLost, ErrRemoved or ErrClosed. It returns
// ErrNotHeld if Release was called before, or if the entry was deleted and the
// permit had not noticed it. After any other error it continues in the
// background. If ctx has already ended, Release tries for up to two seconds.
func (p *Permit) Release(ctx context.Context) error {
	return p.describe("release", p.hold.Release(ctx))
}

// ReleasePart releases n permits, fewer than are held, and returns how many
// are held afterwards. The last n numbers of Slots are released, too. The token
// and the context stay. If ctx has already ended, ReleasePart tries for up to
// two seconds. The error is coordinator.ErrNotHeld after Release, and the cause
// after a loss. After any other error, if fewer are held than before, the
// release continues in the background; if not, repeat the call.
func (p *Permit) ReleasePart(ctx context.Context, n int) (held int, err error) {
	const op = "release-part"
	ctx, stop := engine.ReleaseContext(ctx)
	defer stop()
	if err := enter(ctx, p.writing); err != nil {
		return int(p.n.Load()), err
	}
	defer func() { <-p.writing }()
	if err := p.hold.Check(ctx); errors.Is(err, coordinator.ErrReleased) {
		return 0, coordinator.ErrNotHeld
	} else if err != nil {
		return 0, p.describe(op, err)
	}
	held = int(p.n.Load())
	left := held - n
	if n < 1 || left < 1 {
		return held, fmt.Errorf("baton: %w: to release %d of %d permits of semaphore %q in part:"+
			" want at least 1, and fewer than are held",
			coordinator.ErrInvalid, n, held, p.semaphore.Name())
	}
	// Slots first: otherwise another holder could have a permit and no slot.
	// Not where the service cannot convert, since Convert fails then.
	if p.hold.Converts() && (len(p.slots) > left || p.unsure) {
		err = p.number(ctx, left)
	}
	if err == nil {
		err = p.hold.Convert(ctx, holdingMode(left))
		if err == nil || coordinator.MayHaveApplied(err) {
			held = left
			p.n.Store(int64(left))
		}
	}
	switch over := p.hold.Err(); {
	case err != nil && errors.Is(over, coordinator.ErrReleased):
		return 0, coordinator.ErrNotHeld // Release was called meanwhile
	case over != nil:
		held = 0
	}
	return held, p.describe(op, err)
}

// describe names the operation. It needs no context: the error comes from the
// service or the permit.
func (p *Permit) describe(op string, err error) error {
	return recipes.Describe(context.Background(), op, p.semaphore.Name(), err)
}

// Token returns the fencing token. Several tokens are valid at the same time,
// so a resource must not compare them: let it check the Sequencer.
func (p *Permit) Token() coordinator.Token { return p.hold.Token() }

// Sequencer returns the token with the name and service of the permit, for
// another process to check: see package coordinator/fence. It is stale after
// ReleasePart: call again then. The first call for each permit asks the
// service. Errors: that of Err; ErrInvalid in another layout.
func (p *Permit) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	s, err := p.hold.Sequencer(ctx)
	return s, recipes.Describe(ctx, "sequencer", p.semaphore.Name(), err)
}

// Context ends when the permit is over, and unless an operator ended it, before
// another contender can hold it. The cause is coordinator.ErrReleased,
// ErrSessionLost, ErrRemoved or ErrClosed, or [recipes.ErrHeldTooLong]; or why
// the hold was lost whose context was Acquire's ctx: see package mutex. It has
// the values of that ctx, but does not end with it; the context that Do gives
// to work does. Its Err reads the clock, as [Permit.Err] does: right after a
// pause it may report a loss that Done does not show yet.
func (p *Permit) Context() context.Context { return p.hold.Context() }

// Err returns nil while the permit is held, and then why it ended. It compares
// the deadline with the clock, so it reports a loss right after a pause. If the
// machine may have slept it asks the service, for up to two seconds; without an
// answer the permit counts as lost.
func (p *Permit) Err() error { return p.hold.Err() }

// Session returns the ID of the session that holds.
func (p *Permit) Session() string { return p.hold.Session() }

// Deadline returns the time at which the session counts as lost if no renewal
// is acknowledged before it.
func (p *Permit) Deadline() time.Time { return p.hold.Deadline() }
