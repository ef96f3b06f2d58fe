package engine

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

// Outer is a hold that a context carries. A hold that is taken with that
// context ends its contexts when the outer one is lost.
type Outer interface {
	// Holds identifies the hold, of whichever handle.
	Holds() any
	// Lost returns why the hold was lost. It is nil while it lasts, and after
	// its release.
	Lost() error
	// OnLost calls f when the hold ends, before its entry leaves: also after a
	// release, when Lost returns nil. The rest is as for [Ends.Add].
	OnLost(f func()) (stop func())
	// Beyond returns a context that carries the holds in which this one was
	// taken.
	Beyond() context.Context
}

// OuterKey is the key of the innermost hold in a context, an Outer.
type OuterKey struct{}

// OuterOf returns the innermost hold that ctx carries, or nil.
func OuterOf(ctx context.Context) Outer {
	o, _ := ctx.Value(OuterKey{}).(Outer)
	return o
}

// Held is an entry that a context holds.
type Held struct {
	Session *Session
	Queue   driver.Queue
	ID      string
	Token   driver.Token
}

// Holder is what a context carries that has entries at a service: a hold, or
// the members of a set, also while the set waits for further members.
type Holder interface {
	// EachHeld calls f with each entry that is held now. f does not block.
	EachHeld(f func(Held))
	// Beyond is that of Outer.
	Beyond() context.Context
}

// HolderKey is the key of the innermost Holder in a context.
type HolderKey struct{}

// HolderOf returns the innermost Holder that ctx carries, or nil.
func HolderOf(ctx context.Context) Holder {
	h, _ := ctx.Value(HolderKey{}).(Holder)
	return h
}

// LossOf returns the cause with which the context of a hold has ended, but nil
// after a release. It does not call ctx.Err, which may ask the service.
func LossOf(ended context.Context) error {
	select {
	case <-ended.Done():
	default:
		return nil
	}
	if cause := context.Cause(ended); cause != ErrReleased { //nolint:errorlint // our own word
		return cause
	}
	return nil
}
