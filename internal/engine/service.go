package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
)

// Services is the queue whose record has the service's identity. No recipe has its kind: see QueueOf.
const (
	OwnKind  = "baton"
	Services = driver.Queue(OwnKind + "/service")
)

// Service is the identity of the service and of the namespace in it: 32 hex
// digits, drawn at random and stored there by the first who asks. So it is the
// same for all clients of the namespace, and of no other. It goes with the
// service's data: who restores a backup restores it, and a service that has
// lost its data gets a new one.
//
// It costs one read of a session, the first time, and the first client of a namespace one write.
func (s *Session) Service(ctx context.Context) (string, error) {
	for {
		id, err := s.Identity(ctx)
		if id != "" || err != nil {
			return id, err
		}
		_, err = s.SetRecord(ctx, Services, []byte(newIdentity()), 0)
		if err != nil && !errors.Is(err, ErrStale) && (!MayHaveApplied(err) || ctx.Err() != nil || s.Ended() != nil) {
			return "", err
		}
	}
}

// Identity is Service, empty if nobody has asked for one yet. It is remembered
// for as long as the session lives, which is no longer than the service has its
// data.
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

func newIdentity() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Stands asks the service whether an entry is in a queue, of whatever session.
// ErrRemoved means that it is not.
func (s *Session) Stands(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	err := s.request(ctx, "check", queue, s.patience, func(ctx context.Context) error {
		return removed(s.can.Operator.Check(ctx, queue, key, token))
	})
	return wrap("check", queue, err)
}

// Queue returns the queue of a recipe's name, as QueueOf does. Where queues are
// shared with other clients, a name is what they call it, and a kind that they
// have nothing like is ErrInvalid.
func (c *Client) Queue(kind, name string) (driver.Queue, error) {
	d := c.Sharer()
	if d == nil {
		return QueueOf(kind, name)
	}
	name, err := d.SharedName(kind, name)
	if err != nil {
		return "", fmt.Errorf("baton: %w", err)
	}
	return driver.NewQueue(kind, name), nil
}

// Sharer is the driver, if its queues are shared with other clients; else nil.
func (c *Client) Sharer() driver.Sharer {
	d, _ := c.driver.(driver.Sharer)
	return d
}

// Revoked waits until another client has asked a contender of this session to
// give up; see [driver.Revoker]. Where queues have no such requests the error is
// ErrInvalid, and when own is not in the queue any more, ErrRemoved.
func (s *Session) Revoked(ctx context.Context, queue driver.Queue, own driver.Place) error {
	const op = "await a revocation"
	if err := s.Ended(); err != nil {
		return wrap(op, queue, err)
	}
	return s.wait(ctx, op, queue, func(ctx context.Context) error { return removed(s.can.Revoker.Revoked(ctx, queue, own)) })
}
