package semaphore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

// Slots returns the numbers of the permits: as many as are held, each from 0 to
// the limit - 1, and none of them anybody else's while this permit holds. They
// stay the same as long as it does. After the limit was lowered below what is
// held, numbers can be above it.
//
// The first call costs three requests, more if others ask at the same time. The
// numbers are kept in a record beside the semaphore, and are free again as soon
// as the permit is given back, or its session has ended. Whoever deletes that
// record by hand has numbers handed out twice.
//
// The record has 64 KiB: there is room for some 1,900 holders of one permit
// each, or for one of some 12,700. What does not fit is coordinator.ErrInvalid.
func (p *Permit) Slots(ctx context.Context) ([]int, error) {
	if p.semaphore.turns != nil {
		return nil, p.semaphore.notShared("slots", "it has no numbers")
	}
	if err := enter(ctx, p.busy); err != nil {
		return nil, err
	}
	defer func() { <-p.busy }()
	if err := p.hold.Check(ctx); err != nil {
		return nil, recipes.Describe(ctx, "slots", p.semaphore.Name(), err)
	}
	if p.slots == nil || p.unsure {
		if err := p.number(ctx, int(p.n.Load())); err != nil {
			return nil, recipes.Describe(ctx, "slots", p.semaphore.Name(), err)
		}
	}
	return slices.Clone(p.slots), nil
}

// numbers is the record of the slots' queue: the numbers that each holder has,
// by its contender's ID. Those who are not in the semaphore's queue any more
// have none.
type numbers map[string][]int

// maxRecord is how large a record can be; see driver.Session.SetRecord.
const maxRecord = 64 << 10

// number sees to it that this permit has n numbers. It ends with the permit,
// too: who waits for numbers while the service is away must hear of the loss at
// once.
func (p *Permit) number(ctx context.Context, n int) error {
	if n > maxRecord/2 { // a digit and a comma each; and there may be 1e9
		return tooMany(n)
	}
	bound, stop := p.hold.Under(ctx)
	defer stop()
	err := p.assign(bound, n)
	if over := p.hold.Check(ctx); over != nil && ctx.Err() == nil {
		return over
	}
	return err
}

func tooMany(n int) error {
	return fmt.Errorf("%w: the numbers of %d permits and of other holders take more than %d bytes",
		coordinator.ErrInvalid, n, maxRecord)
}

// assign writes n numbers for this permit into the record.
//
// The record is read before the queue: who is in the record was queued when
// it was written, so who is not in the queue by now has left, and will not come
// back, since IDs are not used twice. Writing the record fails if anybody has
// written it meanwhile.
func (p *Permit) assign(ctx context.Context, n int) error {
	for {
		r, err := p.semaphore.slots.Record(ctx)
		if err != nil {
			return err
		}
		var all numbers
		if r.Version != 0 {
			if err := json.Unmarshal(r.Value, &all); err != nil {
				return fmt.Errorf("%w: the record of slots cannot be read: %w",
					coordinator.ErrRefused, err)
			}
		}
		if all == nil { // there is none, or one that somebody wrote by hand
			all = numbers{}
		}
		standing, err := p.semaphore.queue.List(ctx,
			func(string) recipes.Rule { return recipes.Exclusive })
		if err != nil {
			return err
		}
		mine, err := all.assign(p.hold.ID(), n, standing)
		if err != nil {
			return err
		}
		value, err := json.Marshal(all)
		if err != nil {
			return err
		}
		if len(value) > maxRecord {
			return tooMany(n)
		}
		err = p.semaphore.slots.SetRecord(ctx, value, r.Version)
		p.unsure = p.unsure || coordinator.MayHaveApplied(err)
		switch {
		case err == nil:
			p.slots, p.unsure = mine, false // one that is late finds another version
			return p.hold.Check(ctx)
		case !recipes.Overtaken(ctx, err):
			return err
		}
	}
}

// assign gives a holder n numbers: of those it has the first, or else the least
// that nobody has. It forgets those who have left.
func (all numbers) assign(id string, n int, standing []recipes.Contender) ([]int, error) {
	taken, here := map[int]bool{}, map[string]bool{}
	for _, c := range standing {
		here[c.ID] = true
	}
	if !here[id] {
		return nil, coordinator.ErrRemoved
	}
	for other, slots := range all {
		if !here[other] {
			delete(all, other)
			continue
		}
		for _, slot := range slots {
			taken[slot] = taken[slot] || other != id
		}
	}
	mine := make([]int, 0, n)
	keep := func(slot int) {
		if slot >= 0 && !taken[slot] && len(mine) < n {
			mine, taken[slot] = append(mine, slot), true
		}
	}
	for _, slot := range all[id] { // somebody may have written them by hand
		keep(slot)
	}
	for slot := 0; len(mine) < n; slot++ {
		keep(slot)
	}
	all[id] = mine
	return mine, nil
}
