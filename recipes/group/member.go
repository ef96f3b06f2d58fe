package group

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

// Member is the caller's membership. It is safe for concurrent use.
type Member struct {
	hold  *recipes.Hold
	group *Group
	last  *atomic.Pointer[[]byte] // the latest value, for Run; nil after Join
}

// Token identifies this membership, also in listings. Members that join later
// have greater tokens.
func (m *Member) Token() coordinator.Token { return m.hold.Token() }

// Context ends when the membership does. The cause is coordinator.ErrReleased
// after Leave, ErrSessionLost, ErrRemoved or ErrClosed. After a lost session it
// ends before the service removes the member; Join again. It has the values of
// Join's ctx, but does not end with it.
func (m *Member) Context() context.Context { return m.hold.Context() }

// Err returns nil while the caller is a member, and then why not. It reads the
// clock, so it reports a loss right after a pause.
func (m *Member) Err() error { return m.hold.Err() }

// Deadline returns the time at which the membership counts as lost if no
// renewal is acknowledged before it.
func (m *Member) Deadline() time.Time { return m.hold.Deadline() }

// Update replaces the member's value. Calls run one after the other. The error
// is coordinator.ErrInvalid for a value above MaxValue; then nothing has
// changed. If the membership is over, it is that of Err. After any other
// error listings may show either value, and observers may get the new one only
// with the next change, until an Update succeeds.
func (m *Member) Update(ctx context.Context, value []byte) error {
	err := m.hold.Write(ctx, value)
	if m.last != nil && (err == nil || coordinator.MayHaveApplied(err)) {
		value = slices.Clone(value)
		m.last.Store(&value)
	}
	if err == nil {
		if err = m.group.announce(ctx); err != nil {
			err = &coordinator.Error{Err: err, Maybe: true} // listings show the value
		}
	}
	return recipes.Describe(ctx, "update", m.group.Name(), err)
}

// Leave ends the membership at once. A second Leave returns
// coordinator.ErrNotHeld. If the membership was lost before, the error says
// why. After any other error Leave continues in the background. If ctx has
// already ended, Leave tries for up to two seconds.
func (m *Member) Leave(ctx context.Context) error {
	return recipes.Describe(context.Background(), "leave", m.group.Name(), m.hold.Release(ctx))
}
