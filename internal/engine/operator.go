package engine

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

// Services is the queue whose record has the service's identity. No recipe has
// its kind: see QueueOf.
const (
	OwnKind  = "baton"
	Services = driver.Queue(OwnKind + "/service")
)

// Service is the identity of the service; see coordinator.Session. The first
// client of a namespace that asks draws it at random and stores it.
func (s *Session) Service(ctx context.Context) (string, error) {
	for {
		id, err := s.Identity(ctx)
		if id != "" || err != nil {
			return id, err
		}
		_, err = s.SetRecord(ctx, Services, []byte(randomHex(16)), 0)
		switch {
		case err == nil, errors.Is(err, ErrStale):
		case !MayHaveApplied(err), ctx.Err() != nil, s.Ended() != nil:
			return "", err
		}
	}
}

// Identity is Service, or empty if there is none yet. It is remembered for as
// long as the session lives, which is no longer than the service has its data.
func (s *Session) Identity(ctx context.Context) (string, error) {
	if id := s.service.Load(); id != nil {
		return *id, nil
	}
	r, err := s.Record(ctx, Services, driver.Any)
	if err != nil || r.Version == 0 {
		return "", err
	}
	id := string(r.Value)
	s.service.Store(&id)
	return id, nil
}

// EntryExists asks the service whether an entry is in a queue, of whatever session.
// ErrRemoved means that it is not.
func (s *Session) EntryExists(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	return s.request(ctx, "check", queue, s.patience, func(ctx context.Context) error {
		return s.can.Operator.Check(ctx, queue, key, token)
	})
}

// Queues returns the queues that have entries; see [driver.Operator].
func (s *Session) Queues(ctx context.Context) ([]driver.Queue, error) {
	var queues []driver.Queue
	err := s.request(ctx, "list queues", "", s.longer, func(ctx context.Context) (err error) {
		queues, err = s.can.Operator.Queues(ctx)
		return err
	})
	return queues, err
}

// Remove removes exactly the entry with a key and token from a queue, of
// whatever session. ErrRemoved means that it is not there (any more).
func (s *Session) Remove(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	return s.change(ctx, "remove", queue, false, func(ctx context.Context) error {
		return s.can.Operator.Remove(ctx, queue, key, token)
	})
}

// OnSession calls f with the session, and again with a new one after
// LostBefore.
func (c *Client) OnSession(ctx context.Context, f func(*Session) error) error {
	for {
		s, err := c.Session(ctx)
		if err != nil {
			return err
		}
		if err = f(s); !LostBefore(ctx, err) {
			return err
		}
	}
}

// LostBefore reports, of a request that failed, whether its session was over
// before, so that nothing was applied and it can be made on another one.
func LostBefore(ctx context.Context, err error) bool {
	return errors.Is(err, ErrSessionLost) && !MayHaveApplied(err) && ctx.Err() == nil
}
