package election

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/recipes"
)

// Term is a leader's handle, safe for concurrent use. It must not be copied.
type Term struct {
	hold     *recipes.Hold
	election *Election
	began    time.Time
	// Under Run: base ends with Run's context, or when the work is asked to
	// stop, by ask. Else they are nil, and the caller of Campaign has to stop.
	base context.Context
	ask  context.CancelCauseFunc

	reported atomic.Int64 // the last Progress, in nanoseconds since began
}

// Progress reports that the work goes on: see [WithProgress]. It is no request.
func (t *Term) Progress() { t.reported.Store(int64(time.Since(t.began))) }

// idle returns for how long no progress was reported.
func (t *Term) idle() time.Duration {
	return time.Since(t.began) - time.Duration(t.reported.Load())
}

// Token returns the fencing token. It is greater than those of earlier terms,
// unless the service lost its data or a backup was restored.
func (t *Term) Token() coordinator.Token { return t.hold.Token() }

// Sequencer returns the token for another process: see coordinator/fence. The
// error is that of Err, or ErrInvalid in another layout.
func (t *Term) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	s, err := t.hold.Sequencer(ctx)
	return s, recipes.Describe(ctx, "sequencer", t.election.Name(), err)
}

// Context ends when the term is over: before another candidate can lead, unless
// an operator ended it. The cause is ErrReleased, ErrSessionLost, ErrRemoved or
// ErrClosed. It has the values of Campaign's ctx, but not its end.
func (t *Term) Context() context.Context { return t.hold.Context() }

// Err returns nil during the term, and then why it ended. It reads the clock.
// If the machine may have slept, the service must confirm the term within 2 s.
func (t *Term) Err() error { return t.hold.Err() }

// Deadline returns when the term is lost if no renewal is acknowledged.
func (t *Term) Deadline() time.Time { return t.hold.Deadline() }

// Session returns the ID of the session that leads.
func (t *Term) Session() string { return t.hold.Session() }

// Proclaim changes the value that listings and observers show. After an error
// they may show either. After the term the error is that of Err.
func (t *Term) Proclaim(ctx context.Context, value []byte) error {
	return recipes.Describe(ctx, "proclaim", t.election.Name(), t.hold.Write(ctx, value))
}

// Resign ends the term. After a loss it returns why: ErrSessionLost, ErrRemoved
// or ErrClosed; or ErrNotHeld if called before, or if the entry was deleted
// unnoticed. After other errors it continues in the background. If ctx has
// ended, it tries for 2 s.
func (t *Term) Resign(ctx context.Context) error {
	return recipes.Describe(context.Background(), "resign", t.election.Name(), t.hold.Release(ctx))
}
