package main

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/examples/internal/fleet"
	"github.com/baton-go/baton/examples/internal/records"
	"github.com/baton-go/baton/mutex"
)

// message is what the broker delivers. Its ID is the same in each delivery.
type message struct {
	ID     string
	Amount int
}

// account is a record: rows of two tables, in a real service, that one transaction writes.
type account struct {
	Balance int
	Seen    map[string]bool // IDs of messages
}

const accountKey = "account"

var errTwice = errors.New("was processed before")

// consumer is one of the many that messages are delivered to.
type consumer struct {
	*fleet.Replica
	config
	broker *broker
	book   records.Store
}

// serve takes messages until there are none or ctx ends.
func (c *consumer) serve(ctx context.Context) error {
	for m := range c.broker.deliveries(ctx) {
		err := c.consume(ctx, m)
		switch {
		case err == nil:
			c.broker.done()
		case errors.Is(err, coordinator.ErrTaken):
			c.Say("leaves %s to who is at it", m.ID)
			fleet.Pause(ctx, c.work/2)
			c.broker.again(m) // that one may fail: only who has processed a message may say that it is done
		case fleet.Passing(err):
			c.Say("goes on after: %v", err)
			c.broker.again(m)
		default:
			return err
		}
	}
	return nil
}

// consume processes a message, unless another consumer is at it: that is ErrTaken.
func (c *consumer) consume(ctx context.Context, m message) error {
	if !c.lock {
		return c.process(ctx, m)
	}
	l, err := mutex.New(c.Client, "consumer/"+m.ID)
	if err != nil {
		return err
	}
	held, err := l.TryLock(ctx)
	if err != nil {
		return err
	}
	err = c.process(held.Context(), m)
	return errors.Join(err, held.Unlock(ctx))
}

// process does what the message asks for, at most once for each ID if there is
// a key. It is right without any lock.
func (c *consumer) process(ctx context.Context, m message) error {
	if c.key { // only to save the work: what decides is below
		if a, err := records.Read[account](c.book, accountKey); err != nil || a.Seen[m.ID] {
			return err
		}
	}
	c.broker.work()
	if !fleet.Pause(ctx, c.work) { // the costly part
		return context.Cause(ctx)
	}
	err := records.Update(c.book, accountKey, func(a *account) error {
		if c.key && a.Seen[m.ID] {
			return errTwice
		}
		if a.Seen == nil {
			a.Seen = map[string]bool{}
		}
		a.Seen[m.ID] = true
		a.Balance += m.Amount
		return nil
	})
	switch {
	case errors.Is(err, errTwice):
		c.Say("throws its work on %s away: it %v", m.ID, err)
		return nil
	case err == nil:
		c.Say("has booked %s", m.ID)
	}
	return err
}
