package store

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/partition/internal/plan"
)

// This file orders planners that compete. The queue of the record is their
// mutex. The entry of a planner that waits shows its wish, so the first one
// makes the changes of all, with one plan. The others follow the plan
// meanwhile, and leave the queue when it has their changes.
//
// The comparison of versions alone makes a write safe. So a planner that has
// waited for its turn for some time, perhaps since the first one was killed,
// goes on without. That time is random: the others see the plan of the first
// that does so.
const (
	shortestWait = 500 * time.Millisecond
	longestWait  = 1500 * time.Millisecond
	releaseTime  = 250 * time.Millisecond
)

// inTurn makes a change when it is the caller's turn, unless another planner
// makes it before.
func (s *Store) inTurn(
	ctx context.Context, session *engine.Session, c Change,
) (plan.Plan, error) {
	now, hold, err := s.turn(ctx, session, c)
	if hold != nil {
		defer release(ctx, hold)
	}
	if err != nil || c.done(now) {
		return now, err
	}
	for failures := 1; ; failures++ {
		now, again, err := s.try(ctx, session, c, true)
		if !again {
			return now, err
		}
		if err := recipes.PauseAgain(ctx, s.turns, failures); err != nil {
			return now, err
		}
	}
}

// turn waits for the turn of the caller, for a plan with its change, or for
// longestWait at most. Without a hold and a plan with the change, the caller
// goes on without a turn.
func (s *Store) turn(
	ctx context.Context, session *engine.Session, c Change,
) (now plan.Plan, hold *recipes.Hold, err error) {
	now, version, err := s.Read(ctx, session, driver.Any)
	if err != nil || c.done(now) {
		return now, nil, err
	}
	wait, cancel := context.WithTimeout(ctx, shortestWait+rand.N(longestWait-shortestWait))
	defer cancel()
	queued := make(chan struct{})
	go func() { // waited for below
		defer close(queued)
		defer cancel()
		wish, _ := json.Marshal(c.Wish) // never fails for numbers
		hold, err = s.turns.Acquire(wait, recipes.Request{
			Op: "plan", Mode: "x", Fresh: true, Payload: wish})
	}()
	for !c.done(now) {
		c.see(now)
		next, v, err := s.Read(wait, session, version)
		if err != nil {
			break
		}
		now, version = next, v
	}
	if c.done(now) {
		cancel()
	}
	<-queued
	switch {
	case err != nil && ctx.Err() != nil:
		return now, nil, context.Cause(ctx)
	case err != nil: // the plan has the change, or the next request says what is wrong
		return now, nil, nil
	}
	return now, hold, nil
}

// release ends a turn, in the background if that takes long.
func release(ctx context.Context, hold *recipes.Hold) {
	brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	_ = hold.Release(brief)
}

// wishes returns those of all planners in the queue.
func (s *Store) wishes(ctx context.Context) ([]plan.Wish, error) {
	list, err := s.turns.List(ctx, func(string) recipes.Rule { return recipes.Exclusive })
	if err != nil {
		return nil, err
	}
	var all []plan.Wish
	for _, c := range list {
		var wish plan.Wish
		if json.Unmarshal(c.Payload, &wish) == nil && wish.Token != 0 {
			all = append(all, wish)
		}
	}
	return all, nil
}
