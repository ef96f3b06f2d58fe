package election

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/recipes"
)

// Term is a leader's handle, safe for concurrent use. It must not be copied.
type Term struct {
	hold     *recipes.Hold
	election *Election
}

// Token returns the fencing token, which is greater than those of all earlier
// terms. Package coordinator/fence checks it.
func (t *Term) Token() coordinator.Token { return t.hold.Token() }

// Sequencer describes the term to other processes, which can check it: see
// package coordinator/fence. The first call of a session sends a request. The
// error is that of Err, ErrUnavailable, ErrRefused or the cause of ctx.
func (t *Term) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	s, err := t.hold.Sequencer(ctx)
	return s, recipes.Describe(ctx, "sequencer", t.election.Name(), err)
}

// Context ends with the term, before another candidate can lead. Its cause is
// coordinator.ErrReleased, ErrSessionLost, ErrRemoved or ErrClosed. It has the
// values of Campaign's ctx, but not its deadline. After a pause of the process
// its Err reports a loss at once, Done when a timer has run.
func (t *Term) Context() context.Context { return t.hold.Context() }

// Err returns nil during the term, and then why it ended. It reads the clock.
// After the machine may have slept it asks the service, for at most 2 s.
func (t *Term) Err() error { return t.hold.Err() }

// Deadline returns when the term is lost unless the session is renewed.
func (t *Term) Deadline() time.Time { return t.hold.Deadline() }

// Session returns the ID of the session that leads.
func (t *Term) Session() string { return t.hold.Session() }

// Proclaim changes the value that Leader, Observe and Candidates show. After an
// error they may show either value. The error is that of Err, ErrInvalid if
// value is too long, ErrUnavailable, ErrRefused, or the cause of ctx.
func (t *Term) Proclaim(ctx context.Context, value []byte) error {
	return recipes.Describe(ctx, "proclaim", t.election.Name(), t.hold.Write(ctx, value))
}

// Resign ends the term. With a ctx that has ended it takes up to 2 s. A second
// call returns coordinator.ErrNotHeld. If the term was lost before, the error
// is the cause. After any other error Resign continues in the background.
func (t *Term) Resign(ctx context.Context) error {
	return recipes.Describe(context.Background(), "resign", t.election.Name(), t.hold.Release(ctx))
}
