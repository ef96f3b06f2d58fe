package coordinator

import (
	"context"
	"errors"
	"time"
)

// afterwards is how long Leave and Close try with a context that is dead already.
const afterwards = 2 * time.Second

// afterDeath returns ctx, or, if it has ended already, one that lives for a little while: giving back
// must work in the clean-up of a cancelled operation, which is where it is mostly called.
func afterDeath(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), afterwards)
}

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
	return errors.Is(err, ErrTaken) || errors.Is(err, ErrRefused) || errors.Is(err, ErrInvalid) ||
		errors.Is(err, ErrSessionLost)
}

// unavailable is the error of a request that had no answer when the context ended
// for cause. err is what the last attempt said.
func unavailable(err, cause error) error {
	if !errors.Is(err, ErrUnavailable) {
		err = ErrUnavailable
	}
	return &both{kind: err, cause: cause}
}
