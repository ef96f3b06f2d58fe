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

// This file has what operators need: which queues there are, and to remove one
// grant or waiter of them.

// QueueName is the name of a queue in which somebody stands.
type QueueName struct {
	Kind string // "mutex", "rwlock", "semaphore", "election", or that of a recipe from elsewhere
	Name string // the recipe's
}

// Queues returns the queues in which somebody stands, of any kind, whose names
// begin with prefix, sorted by name and then by kind. The prefix is compared
// byte by byte: "orders" finds "orders", "orders/nightly" and "orders-old"; end
// it in "/" for what is below a name. It reads no entries, and shows several
// moments; see [driver.Session].
//
// On a client whose queues are shared with other clients the error is
// ErrInvalid: their entries do not say what is a queue.
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
		// else it is Baton's own, or nobody's
		named, err := engine.QueueOf(kind, name)
		if err == nil && named == queue && strings.HasPrefix(name, prefix) {
			names = append(names, QueueName{kind, name})
		}
	}
	slices.SortFunc(names, func(a, b QueueName) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	return names, nil
}

// Break removes the grant or the waiter with a token from the queue of a kind
// and name, whatever client it belongs to, as Contenders of the recipe shows
// it. Its session lives on. Whoever is next is admitted, and the one that was
// removed is told: its hold ends with ErrRemoved, its waiting call returns
// that. But it is told afterwards, so for a moment two may believe that they
// hold, and what it has sent already arrives nevertheless: let the resource
// check tokens (see package fence). A waiter that has been in the queue for
// less than a second may be granted all the same, and is told then. Where
// queues are shared with other clients, theirs can be removed as well, and most
// of those are not told.
//
// When nobody stands there with that token the error is ErrNotHeld, and nothing
// was removed. Other errors: ErrInvalid for what is no name or token;
// ErrUnavailable, with MayHaveApplied if it may have been removed, and then
// calling again is safe; ErrRefused; the cause of ctx; ErrClosed. It reads the
// queue.
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
			return nil // an attempt whose answer was lost did it
		case i < 0:
			instead := "the queue is empty"
			if len(entries) > 0 {
				instead = fmt.Sprintf("the first in the queue has token %d", entries[0].Token)
			}
			return &Error{Op: op, Name: name, Err: fmt.Errorf("%w: nobody holds or waits for the %s "+
				"with token %d; %s", ErrNotHeld, kind, token, instead)}
		}
		err = c.engine.OnSession(ctx, func(s *engine.Session) error {
			err := s.Remove(ctx, queue, entries[i].Key, token)
			uncertain = uncertain || MayHaveApplied(err)
			return err
		})
		if uncertain && errors.Is(err, ErrSessionLost) && ctx.Err() == nil {
			continue // the list says whether it was removed
		}
		if !errors.Is(err, ErrRemoved) { // else it was converted meanwhile, or is gone
			return engine.Describe(ctx, op, name, err)
		}
	}
}
