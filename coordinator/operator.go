package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// QueueName identifies a queue.
type QueueName struct {
	Kind string // "mutex", "rwlock", "semaphore", "election", or a recipe's own
	Name string
}

// Queues returns the queues that are not empty and whose names begin with
// prefix, sorted by name and kind: "orders" finds "orders", "orders/nightly"
// and "orders-old". For a Shared client the error is ErrInvalid.
func (c *Client) Queues(ctx context.Context, prefix string) ([]QueueName, error) {
	const op = "list queues"
	var queues []driver.Queue
	err := c.engine.OnSession(ctx, func(s *engine.Session) (err error) {
		queues, err = s.Queues(ctx)
		return err
	})
	if err != nil {
		return nil, engine.Describe(ctx, op, c.String(), err)
	}
	var names []QueueName
	for _, queue := range queues {
		kind, name, _ := queue.Split()
		named, err := engine.QueueOf(kind, name) // fails for internal queues
		if err == nil && named == queue && strings.HasPrefix(name, prefix) {
			names = append(names, QueueName{kind, name})
		}
	}
	slices.SortFunc(names, func(a, b QueueName) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	return names, nil
}

// Break removes the holder or waiter with a token, of any client, from a queue.
// The recipe's listing has the tokens. The next contender is admitted at once,
// or after the lock-delay. The removed holder gets ErrRemoved afterwards; both
// may work until then. Requests that it has sent still arrive. A client of
// another library usually does not notice: see Shared. If no entry has the
// token, the error is ErrNotHeld. After another error repeat Break: ErrNotHeld
// then means that the entry is gone.
func (c *Client) Break(ctx context.Context, kind, name string, token driver.Token) error {
	const op = "break"
	queue, err := c.engine.Queue(kind, name)
	if err == nil && token <= 0 {
		err = engine.Invalid("token %d of %s %q; want a positive one", token, kind, name)
	}
	if err != nil {
		return err
	}
	uncertain := false
	for {
		var entries []driver.Entry
		err := c.engine.OnSession(ctx, func(s *engine.Session) (err error) {
			entries, err = s.List(ctx, queue, 0)
			return err
		})
		if err != nil {
			return engine.Describe(ctx, op, name, err)
		}
		i := slices.IndexFunc(entries, func(e driver.Entry) bool { return e.Token == token })
		switch {
		case i < 0 && uncertain:
			return nil // an attempt whose reply was lost has removed it
		case i < 0:
			instead := "the queue is empty"
			if len(entries) > 0 {
				instead = fmt.Sprintf("the first in the queue has token %d", entries[0].Token)
			}
			return &Error{Op: op, Name: name, Err: fmt.Errorf("%w: no holder or waiter of the %s "+
				"has token %d; %s", ErrNotHeld, kind, token, instead)}
		}
		err = c.engine.OnSession(ctx, func(s *engine.Session) error {
			err := s.Remove(ctx, queue, entries[i].Key, token)
			uncertain = uncertain || MayHaveApplied(err)
			return err
		})
		if uncertain && errors.Is(err, ErrSessionLost) && ctx.Err() == nil {
			continue // the list says whether it was removed
		}
		if !errors.Is(err, ErrRemoved) { // else it was just converted, or is gone
			return engine.Describe(ctx, op, name, err)
		}
	}
}
