package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// How often a watch reads the service, and how long one read may take.
const (
	watchEvery  = time.Second
	watchWithin = 3 * time.Second
)

var errWatchSilent = fmt.Errorf("no answer within %v", watchWithin)

// follow prints what read returns whenever that has changed, until ctx ends,
// with an empty line between two of them if apart is set.
//
// It polls: waiting for changes would need a watch for each contender, and
// would not notice a new contender.
func follow[T any](
	ctx context.Context, a *app, apart bool,
	read func(context.Context, *coordinator.Client) (T, error), show func(T) error,
) error {
	var opts []coordinator.Option
	if !a.verbose { // nothing is held, so the session's state does not matter
		opts = append(opts, coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	}
	c, err := a.open(opts...)
	if err != nil {
		return err
	}
	defer finish(c)
	var last *T
	away := false
	for ; ctx.Err() == nil; sleep(ctx, watchEvery) {
		bound, cancel := context.WithTimeoutCause(ctx, watchWithin, errWatchSilent)
		now, err := read(bound, c)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, coordinator.ErrUnavailable), errors.Is(err, coordinator.ErrSessionLost):
			if !away {
				a.say("trying again: %s", describe(err))
			}
			away = true
			continue
		case err != nil:
			return err
		}
		away = false
		if last != nil && reflect.DeepEqual(now, *last) {
			continue
		}
		if last != nil && apart {
			fmt.Fprintln(a.answer)
		}
		last = &now
		if err := cmp.Or(show(now), a.answer.err); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
