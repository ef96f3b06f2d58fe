package engine

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
)

// close ends the session at the service, after end, and waits for its
// goroutines.
func (s *Session) close(ctx context.Context) error {
	var err error
	// Close and the clean-up after a loss may both come here. The second one
	// does not repeat the request, but waits as well.
	if s.closing.CompareAndSwap(false, true) {
		err = s.endAtService(ctx)
	}
	// After the request: the goroutines end with the session's context, which
	// has ended, so the wait is short, and the names are free by now.
	s.wg.Wait()
	s.news.flush(ctx)
	return err
}

// endAtService calls the driver's Close until it is answered or ctx ends. Its
// attempts are bounded like those of other requests: one to a member that hangs
// would keep the names locked for the TTL.
func (s *Session) endAtService(ctx context.Context) error {
	return s.client.config.retry(ctx, ctx, func() error {
		attempt, cancel := context.WithTimeout(ctx, s.TTL()/AttemptsPerTTL)
		defer cancel()
		err := s.driver.Close(attempt)
		// The driver reports the end of its context. To retry, that is the
		// end of the caller's, and no reason to try again.
		slow := attempt.Err() != nil && ctx.Err() == nil
		if err != nil && slow && !errors.Is(err, ErrUnavailable) {
			return driver.Wrap(ErrUnavailable, context.DeadlineExceeded)
		}
		return err
	}, func(err error) {
		s.client.Observe(event.Event{Kind: event.Retried, Session: s.ID(), Op: "close", Err: err})
	})
}
