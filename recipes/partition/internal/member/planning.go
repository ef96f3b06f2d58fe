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

// grow makes the next step of a member that settles. When it has settled, its
// value in the group says so: the members make another plan from their values
// if an operator deletes the plan, and this one must not begin anew.
func (m *member) grow() error {
	me := m.plan.Find(m.token())
	m.ticks++
	switch {
	case me == nil:
		return nil
	case me.Settling == 1 && m.ticks < m.plan.Patience():
		return nil
	case me.Settling != 0: // again, if who made the plan has seen an older value
		step := me.Grown()
		return m.wish(m.ctx, plan.Wish{Settling: &step})
	case m.settled:
		return nil
	}
	share := m.Share
	share.Settles = false
	value, _ := json.Marshal(share) // never fails for numbers
	err := m.joined.Update(m.ctx, value)
	m.settled = err == nil
	return err
}

// bury plans without the member that was watched. Afterwards follow watches
// that member again if a later plan has it: an operator may have deleted the
// plan, and a member whose server is behind made another.
func (m *member) bury() error {
	dead := m.duty.watched
	err := m.replan(m.ctx, store.Change{Done: func(p plan.Plan) bool {
		return dead != 0 && p.Find(m.token()) != nil && p.Find(dead) == nil
	}})
	if err == nil && m.duty.watched == dead { // else followMeanwhile has changed it
		m.duty.watched = 0
	}
	return err
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
	return m.accept(now)
}

// accept makes a plan that has the member the one to follow, unless it is of
// another number of shards: then another program wrote it, or an operator.
func (m *member) accept(now plan.Plan) error {
	if now.Shards != len(m.Shards) {
		return m.otherNumber(now)
	}
	m.plan = now
	return nil
}

// followMeanwhile follows a plan of others while the member waits for its turn:
// it may have the shards of those that leave, and the turn of a planner that
// has died takes a while to pass.
func (m *member) followMeanwhile(now plan.Plan) {
	if m.ctx.Err() == nil && now.Find(m.token()) != nil && m.accept(now) == nil {
		m.follow()
	}
}

func (m *member) otherNumber(now plan.Plan) error {
	return engine.Invalid("partition %q with %d shards; its members have %d",
		m.Name, len(m.Shards), now.Shards)
}

// replanAll makes the plan that fits the members, whatever has changed.
func (m *member) replanAll() error { return m.replan(m.ctx, store.Change{}) }

func (m *member) wish(ctx context.Context, w plan.Wish) error {
	w.Token = m.token()
	return m.replan(ctx, store.Change{Wish: w, Done: func(p plan.Plan) bool { return p.Has(w) }})
}

// replan makes a change of the plan, or finds it made. Only a plan of its own
// ends the growth of the pauses, and what an earlier error has left to do: one
// of another member need not have that, and a plan that can be read need not be
// one that can be written.
func (m *member) replan(ctx context.Context, c store.Change) error {
	own, done := false, c.Done
	c.Me, c.See = m.token(), m.followMeanwhile
	if done != nil {
		c.Done = func(p plan.Plan) bool {
			found := done(p)
			own = own && !found
			return found
		}
	}
	c.Next = func(old plan.Plan, wishes []plan.Wish) (plan.Plan, error) {
		own = true
		return m.next(ctx, old, append(wishes, c.Wish))
	}
	now, err := m.Store.Replace(ctx, m.session, c)
	if err == nil {
		err = m.accept(now)
	}
	if err == nil && own {
		m.again = nil
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
		if json.Unmarshal(c.Value, &s) != nil || s.Weight < 1 || s.Shards != len(m.Shards) {
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
		return old, m.otherNumber(old)
	case !planned:
		old.Members = nil // perhaps of another number of shards
	}
	return old.Next(len(m.Shards), alive, wishes...), nil
}
