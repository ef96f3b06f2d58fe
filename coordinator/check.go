package coordinator

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/internal/engine"
)

// Check asks the service whether the grant of a sequencer still holds: nil
// means that it did at some moment after the call began. It may be over by the
// time that the answer is here, so this keeps out those who are late and does
// not make a write safe; see package fence for what does.
//
// It returns a *fence.StaleError if the grant is over, or was converted since
// (a write lock that became a read lock, a permit of which a part was
// released), a *fence.ForeignError for a grant of another service or namespace,
// ErrInvalid for what is no sequencer, and else what a lock that cannot be had
// would return: ErrUnavailable, the cause of ctx, ErrClosed.
//
// It is one read, and one more the first time in a session. Any client of the
// namespace can ask.
func (c *Client) Check(ctx context.Context, seq fence.Sequencer) error {
	queue, err := engine.QueueOf(seq.Kind, seq.Name)
	if err == nil {
		err = seq.Validate()
	}
	if err != nil {
		return err
	}
	var over error // the answer of a service that knows the grant to be over
	err = c.engine.OnSession(ctx, func(s *engine.Session) error {
		service, err := s.Identity(ctx)
		if err != nil {
			return err
		}
		if service == "" { // so nobody has got a sequencer here
			service = "(none)"
		}
		if over = seq.In(fence.Scope{Service: service}); over != nil {
			return nil
		}
		err = s.HasEntry(ctx, queue, seq.Key, seq.Token)
		if errors.Is(err, ErrRemoved) && s.Ended() == nil {
			over, err = &fence.StaleError{Shown: seq}, nil
		}
		return err
	})
	if over != nil {
		return over
	}
	return engine.Describe(ctx, "check", seq.Name, err)
}
