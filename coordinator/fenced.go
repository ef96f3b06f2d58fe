package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// services is the line whose record has the service's identity. No recipe has its kind: see LineOf.
const (
	ownKind  = "baton"
	services = driver.Line(ownKind + "/service")
)

// Service is the identity of the service and of the namespace in it: 32 hex digits, drawn at random and stored there by
// the first who asks. So it is the same for all clients of the namespace, and of no other. It goes with the
// service's data: who restores a backup restores it, and a service that has lost its data gets a new one.
//
// It costs one read of a session, the first time, and the first client of a namespace one write.
func (s *Session) Service(ctx context.Context) (string, error) {
	for {
		id, err := s.identity(ctx)
		if id != "" || err != nil {
			return id, err
		}
		_, err = s.SetRecord(ctx, services, []byte(newIdentity()), 0)
		if err != nil && !errors.Is(err, ErrStale) && (!MayHaveApplied(err) || ctx.Err() != nil || s.ended() != nil) {
			return "", err
		}
	}
}

// identity is Service, empty if nobody has asked for one yet. It is remembered for as long as the session lives, which is no longer than
// the service has its data.
func (s *Session) identity(ctx context.Context) (string, error) {
	if id := s.service.Load(); id != nil {
		return *id, nil
	}
	r, err := s.Record(ctx, services, driver.Any)
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

// Stands asks the service whether an entry is in a line, of whatever session. ErrRemoved means that it is not.
func (s *Session) Stands(ctx context.Context, line driver.Line, key string, token Token) error {
	err := s.request(ctx, "check", line, s.patience, func(ctx context.Context) error {
		return removed(s.can.Operator.Check(ctx, line, key, token))
	})
	return wrap("check", line, err)
}

// Check asks the service whether the grant of a sequencer still holds: nil means that it did at some moment after the call
// began. It may be over by the time that the answer is here, so this keeps out those who are late and does not make a
// write safe; see package fence for what does.
//
// It returns a *fence.StaleError if the grant is over, or was converted since (a write lock that became a read
// lock, a permit of which a part was released), a *fence.ForeignError for a grant of another service or namespace, ErrInvalid for
// what is no sequencer, and else what a lock that cannot be had would return: ErrUnavailable, the cause of ctx, ErrClosed.
//
// It is one read, of one entry, and one more the first time in a session. Any client of the namespace can ask, whoever holds.
func (c *Client) Check(ctx context.Context, seq fence.Sequencer) error {
	const op = "check"
	line, err := LineOf(seq.Kind, seq.Name)
	if err == nil {
		err = seq.Validate()
	}
	if err != nil {
		return err
	}
	for {
		s, err := c.Session(ctx)
		if err != nil {
			return Describe(ctx, op, seq.Name, err)
		}
		err = c.check(ctx, s, line, seq)
		if !errors.Is(err, ErrSessionLost) || ctx.Err() != nil {
			return err
		}
	}
}

func (c *Client) check(ctx context.Context, s *Session, line driver.Line, seq fence.Sequencer) error {
	service, err := s.identity(ctx)
	if err == nil {
		if service == "" { // so nobody has got a sequencer here
			service = "(none)"
		}
		if err := seq.In(fence.Scope{Service: service}); err != nil {
			return err
		}
		err = s.Stands(ctx, line, seq.Key, seq.Token)
	}
	if errors.Is(err, ErrRemoved) && s.ended() == nil {
		return &fence.StaleError{Shown: seq}
	}
	return Describe(ctx, "check", seq.Name, err)
}
