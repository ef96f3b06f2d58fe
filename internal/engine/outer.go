package engine

import "context"

// Outer is a hold that a context carries. A hold that is taken with that
// context ends its contexts when the outer one is lost.
type Outer interface {
	// Holds identifies the hold, of whichever handle.
	Holds() any
	// Lost returns why the hold was lost. It is nil while it lasts, and after
	// its release.
	Lost() error
	// OnLost calls f when the hold ends, before its entry leaves. The rest is
	// as for [Ends.Add].
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
