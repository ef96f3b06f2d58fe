package member

import (
	"context"
	"encoding/json"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes/partition/internal/plan"
	"github.com/baton-go/baton/recipes/partition/internal/store"
)

// A member plans when it joins or leaves, when it has settled for one more
// step, when the member that it watches has died, and when there is no plan.

func (m *member) join() error { return m.wish(m.ctx, plan.Wish{}) }

func (m *member) depart(ctx context.Context) error { return m.wish(ctx, plan.Wish{Leaving: true}) }

// grow makes the next step of a member that settles.
func (m *member) grow() error {
	me := m.plan.Find(m.token())
	if me == nil || me.Settling == 0 {
		return nil
	}
	step := me.Grown()
	return m.wish(m.ctx, plan.Wish{Settling: &step})
}

// bury plans without the member that was watched.
func (m *member) bury() error {
	dead := m.duty.watched
	return m.replan(m.ctx, store.Change{
		Done: func(p plan.Plan) bool { return dead != 0 && p.Find(dead) == nil }})
}

// read reads the plan, and makes one if an operator has deleted it.
func (m *member) read() error {
	now, _, err := m.Store.Read(m.ctx, m.session, driver.Any)
	switch {
	case err != nil:
		return err
	case now.Find(m.token()) == nil:
		return m.join()
	}
	m.plan = now
	return nil
}

// replanAll makes the plan that fits the members, whatever has changed.
func (m *member) replanAll() error { return m.replan(m.ctx, store.Change{}) }

func (m *member) wish(ctx context.Context, w plan.Wish) error {
	w.Token = m.token()
	return m.replan(ctx, store.Change{Wish: w, Done: func(p plan.Plan) bool { return p.Has(w) }})
}

// replan makes a change of the plan, or finds it made. Only that ends the
// growth of the pauses: a plan that can be read need not be one that can be
// written.
func (m *member) replan(ctx context.Context, c store.Change) error {
	c.Me = m.token()
	c.Next = func(old plan.Plan, wishes []plan.Wish) (plan.Plan, error) {
		return m.next(ctx, old, append(wishes, c.Wish))
	}
	now, err := m.Store.Replace(ctx, m.session, c)
	if err == nil {
		m.plan, m.again = now, nil
		m.pauses.Reset()
	}
	return err
}

// next returns the plan that follows old for the members of the group.
func (m *member) next(
	ctx context.Context, old plan.Plan, wishes []plan.Wish,
) (plan.Plan, error) {
	all, err := m.Group.Members(ctx)
	if err != nil {
		return old, err
	}
	var alive []plan.Member
	found, planned := false, false
	for _, c := range all {
		planned = planned || old.Find(int64(c.Token)) != nil
		var s plan.Share
		if json.Unmarshal(c.Payload, &s) != nil || s.Weight < 1 || s.Shards != len(m.Shards) {
			continue // it did not join by this package, or must not join
		}
		found = found || c.Token == m.joined.Token()
		member := plan.Member{Token: int64(c.Token), Weight: s.Weight, Max: s.Max}
		if s.Settles {
			member.Settling = 1
		}
		alive = append(alive, member)
	}
	switch {
	case !found:
		return old, coordinator.ErrRemoved
	case planned && old.Shards != len(m.Shards):
		return old, engine.Invalid("partition %q with %d shards; its members have %d",
			m.Name, len(m.Shards), old.Shards)
	case !planned:
		old.Members = nil // perhaps of another number of shards
	}
	return old.Next(len(m.Shards), alive, wishes...), nil
}
