package coordinator

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/internal/engine"
)

// Check asks the service whether the grant of seq is still held. A Sequencer is
// a token with the name of its lock: see mutex.Lock.Sequencer. The grant may
// end before the caller acts, so Check does not make a write safe: see package
// fence. The error is a *fence.StaleError after a release, loss, downgrade or
// ReleasePart, a *fence.ForeignError if seq is of another service or namespace,
// and ErrInvalid if it is malformed.
func (c *Client) Check(ctx context.Context, seq fence.Sequencer) error {
	queue, err := engine.QueueOf(seq.Kind, seq.Name)
	if err == nil {
		err = seq.Validate()
	}
	if err != nil {
		return err
	}
	var over error // says that the grant is over, as against a failed check
	err = c.engine.OnSession(ctx, func(s *engine.Session) error {
		service, err := s.Identity(ctx)
		if err != nil {
			return err
		}
		if service == "" { // the service has issued no sequencer
			service = "(none)"
		}
		if over = seq.In(fence.Scope{Service: service}); over != nil {
			return nil
		}
		err = s.EntryExists(ctx, queue, seq.Key, seq.Token)
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
