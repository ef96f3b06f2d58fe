package engine

import (
	"context"
	"errors"
	"strings"
	"time"
)

// afterwards is how long Leave and Close try with a context that is dead already.
const afterwards = 2 * time.Second

// Afterwards is for recipes that give something back: it returns ctx, or, if that has ended already, one that
// lives for two seconds more. Giving back must work in the clean-up of a cancelled operation, which is where it is
// mostly called.
//
// What it returned once it returns as it is: of a call with several steps, each of which asks for it, none begins the two seconds
// anew, nor gets them when the context ends between two steps. But one that has ended as released or closed was a hold's own, or came from
// it, and was ended by the very call that gives back.
func Afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	marked := ctx.Value(afterwardsKey{}) != nil
	switch ended := ctx.Err() != nil; {
	case !ended && !marked:
		return context.WithValue(ctx, afterwardsKey{}, true), func() {}
	case !ended, marked && !endedByUs(ctx):
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), afterwardsKey{}, true), afterwards)
}

func endedByUs(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return cause == ErrReleased || cause == ErrClosed //nolint:errorlint // our own words
}

// afterwardsKey marks what Afterwards has returned.
type afterwardsKey struct{}

// bind returns a context for a driver that ends with ctx or with life, whichever is first, and has
// the values of ctx.
//
// Its cause is always context.Canceled, never that of ctx. The cause of a user's context is any error, often one of
// our own: an errgroup hands on its first error, and a hold's context ends with ErrSessionLost. A
// driver that returned it would seem to say that this session is lost, or the name taken.
func bind(ctx, life context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopCtx := context.AfterFunc(ctx, cancel)
	stopLife := context.AfterFunc(life, cancel)
	return bound, func() {
		stopCtx()
		stopLife()
		cancel()
	}
}

// definite says of an error that it is the service's answer or a refusal of our own, and not
// the want of an answer.
func definite(err error) bool {
	return notApplied(err) || errors.Is(err, errGone)
}

// notApplied says of a driver's error that the service surely changed nothing.
func notApplied(err error) bool {
	return errors.Is(err, ErrTaken) || errors.Is(err, ErrStale) || errors.Is(err, ErrRefused) || errors.Is(err, ErrInvalid) ||
		errors.Is(err, ErrSessionLost)
}

// unavailable is the error of a request that had no answer when the context ended
// for cause. err is what the last attempt said.
func unavailable(err, cause error) error {
	if !errors.Is(err, ErrUnavailable) {
		err = ErrUnavailable
	}
	return &both{kind: &answerless{err}, cause: cause}
}

// answerless is a driver's ErrUnavailable without the end of the context that the driver was given. That one is ours, and is
// cancelled when the caller's has timed out: who asks errors.Is(err, context.Canceled) wants to know about his own.
type answerless struct{ error }

func (e *answerless) Is(target error) bool {
	return target != context.Canceled && target != context.DeadlineExceeded && errors.Is(e.error, target)
}

func (e *answerless) As(target any) bool { return errors.As(e.error, target) }

func (e *answerless) Error() string {
	s := e.error.Error()
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
		s = strings.ReplaceAll(s, ": "+ended.Error(), "")
	}
	return s
}
