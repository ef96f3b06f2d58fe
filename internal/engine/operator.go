package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

// Services is the queue whose record has the service's identity. QueueOf
// refuses its kind.
const (
	OwnKind  = "baton"
	Services = driver.Queue(OwnKind + "/service")
)

// Service returns the identity of the service; see coordinator.Session. The
// first client of a namespace that asks stores a random one.
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

// Identity is Service, but returns "" if none is stored. It caches the identity
// for the session, which cannot outlive the service's data.
func (s *Session) Identity(ctx context.Context) (string, error) {
	if id := s.service.Load(); id != nil {
		return *id, nil
	}
	r, err := s.Record(ctx, Services, driver.Any)
	if err != nil || r.Version == 0 {
		return "", err
	}
	id := string(r.Value)
	if id == "" { // Service would try to write one for ever
		return "", driver.Wrap(ErrRefused, fmt.Errorf(
			"the record of %s is empty; it had the identity of the service", Services))
	}
	s.service.Store(&id)
	return id, nil
}

// EntryExists asks the service whether an entry, of any session, is in a queue.
// The error is ErrRemoved if not.
func (s *Session) EntryExists(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	return s.request(ctx, "check", queue, s.patience, func(ctx context.Context) error {
		return s.can.Operator.Check(ctx, queue, key, token)
	})
}

// Queues returns the queues with entries; see [driver.Operator].
func (s *Session) Queues(ctx context.Context) ([]driver.Queue, error) {
	var queues []driver.Queue
	err := s.request(ctx, "list queues", "", s.longer, func(ctx context.Context) (err error) {
		queues, err = s.can.Operator.Queues(ctx)
		return err
	})
	return queues, err
}

// Remove removes the entry with a key and token, of any session, from a queue.
// The error is ErrRemoved if it is not there.
func (s *Session) Remove(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	return s.change(ctx, "remove", queue, false, func(ctx context.Context) error {
		return s.can.Operator.Remove(ctx, queue, key, token)
	})
}

// OnSession calls f with the session, and again with a new one, after a pause,
// if the session was LostBefore.
func (c *Client) OnSession(ctx context.Context, f func(*Session) error) error {
	for losses := 1; ; losses++ {
		s, err := c.Session(ctx)
		if err != nil {
			return err
		}
		if err = f(s); !LostBefore(ctx, err) {
			return err
		}
		if err := c.PauseAgain(ctx, losses); err != nil {
			return err
		}
	}
}

// LostBefore reports whether a request failed because its session was over, so
// that nothing was applied and another session can repeat it.
func LostBefore(ctx context.Context, err error) bool {
	return errors.Is(err, ErrSessionLost) && !MayHaveApplied(err) && ctx.Err() == nil
}
