package election

import (
	"context"

	"github.com/baton-go/baton/recipes"
)

// Term is the time for which one candidate leads: a handle that is resigned
// once. It is safe for concurrent use, and must not be copied.
type Term struct {
	*recipes.Handle
	hold     *recipes.Hold
	election *Election
}

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

// Resign ends the term: its context first, then its place in the queue, and the next
// candidate leads. It works with a ctx that is dead already, for up to two
// seconds.
//
// A second Resign returns coordinator.ErrNotHeld and changes nothing. When the
// term was lost before, the error says why. After any other error resigning goes
// on in the background.
func (t *Term) Resign(ctx context.Context) error {
	return recipes.Describe(context.Background(), "resign", t.election.Name(), t.hold.Release(ctx))
}
