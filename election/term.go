package election

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/recipes"
)

// Term is the time for which one candidate leads: a handle that is resigned
// once. It is safe for concurrent use, and must not be copied.
type Term struct {
	hold     *recipes.Hold
	election *Election
}

// Token is the fencing token of this term: strictly greater than those of all
// earlier terms of this election. See package coordinator/fence for its use.
func (t *Term) Token() coordinator.Token { return t.hold.Token() }

// Sequencer tells of this term in a form that can be shown to others, in any
// process, and checked there: see package coordinator/fence. It is free, but
// for the first of a session, which is a request. When the term is over the
// error says why, as Err does.
func (t *Term) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	s, err := t.hold.Sequencer(ctx)
	return s, recipes.Describe(ctx, "sequencer", t.election.Name(), err)
}

// Context ends when the term does, with the cause (coordinator.ErrReleased,
// ErrSessionLost, ErrRemoved, ErrClosed), and before anyone else can lead. It
// has the values of the context given to Campaign, but not its deadline. Its
// Err looks at the clock, and sees a loss at once after a pause of the process;
// Done, and contexts derived from it, follow when their timers run.
func (t *Term) Context() context.Context { return t.hold.Context() }

// Err returns nil while the term lasts, by the clock, and then why it ended.
// After the machine may have slept it asks the service first, and waits for two
// seconds at most.
func (t *Term) Err() error { return t.hold.Err() }

// Deadline is when the term is lost unless the session is renewed before. It
// moves on with every renewal, and has a monotonic clock reading.
func (t *Term) Deadline() time.Time { return t.hold.Deadline() }

// Session is the ID of the session that leads, as Leader shows it.
func (t *Term) Session() string { return t.hold.Session() }

// Proclaim changes the value that Leader, Observe and Candidates show. Every
// observer is told. Concurrent calls follow one after the other.
//
// On failure the old value or the new one is shown, until the next call
// succeeds. When the term is over the error says why, as Err does, and nothing
// is written. Other errors: ErrInvalid for a value that is too long,
// ErrUnavailable, ErrRefused, the cause of ctx.
func (t *Term) Proclaim(ctx context.Context, value []byte) error {
	return recipes.Describe(ctx, "proclaim", t.election.Name(), t.hold.Write(ctx, value))
}

// Resign ends the term: its context first, then its place in the queue, and the
// next candidate leads. It works with a ctx that is dead already, for up to two
// seconds.
//
// A second Resign returns coordinator.ErrNotHeld and changes nothing. When the
// term was lost before, the error says why. After any other error resigning
// goes on in the background.
func (t *Term) Resign(ctx context.Context) error {
	return recipes.Describe(context.Background(), "resign", t.election.Name(), t.hold.Release(ctx))
}
