package semaphore

import (
	"context"
	"encoding/json"
	"errors"
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
// The first call costs three requests, more if others ask at the same time; who
// does not call it pays nothing. The numbers are kept in a record beside the
// semaphore, and are free again as soon as the permit is given back, or its
// session has ended. Whoever deletes that record by hand has numbers handed out
// twice.
//
// The record has 64 KiB. A holder takes 30 bytes of it and one more for each
// digit and comma of its numbers: there is room for some 1,900 holders of one
// permit each, or for one of some 12,700. What does not fit is
// coordinator.ErrInvalid, before anything is asked if n numbers never can.
func (p *Permit) Slots(ctx context.Context) ([]int, error) {
	if p.semaphore.shared != nil {
		return nil, recipes.Describe(ctx, "slots", p.semaphore.Name(), p.semaphore.notShared("it has no numbers"))
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

// leastSize is how many bytes the record has at least in which somebody has n
// numbers: an ID of 24 digits, and the numbers from 0 to n - 1.
func leastSize(n int) int64 {
	size := int64(len(`{"":[]}`)+24) + int64(n) - 1 // with the commas
	for from, digits := int64(0), int64(1); from < int64(n); digits++ {
		to := max(10*from, 10)
		size += (min(to, int64(n)) - from) * digits
		from = to
	}
	return size
}

// number sees to it that this permit has n numbers. It ends with the permit,
// too: who waits for numbers while the service is away must hear of the loss at
// once.
func (p *Permit) number(ctx context.Context, n int) error {
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	own := p.hold.Context()
	defer context.AfterFunc(own, func() { cancel(context.Cause(own)) })()
	err := p.assign(bound, n)
	if over := p.hold.Check(ctx); over != nil && ctx.Err() == nil {
		return over
	}
	return err
}

// assign is number.
//
// The record is read before the queue: who is in the record was queued when
// it was written, so who is not in the queue by now has left, and will not come
// back, since IDs are not used twice. Writing the record fails if anybody has
// written it meanwhile.
func (p *Permit) assign(ctx context.Context, n int) error {
	if least := leastSize(n); least > maxRecord {
		return fmt.Errorf("%w: the numbers of %d permits take %d bytes or more: at most %d are allowed, those of all holders together",
			coordinator.ErrInvalid, n, least, maxRecord)
	}
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
		standing, err := p.semaphore.queue.List(ctx, func(string) recipes.Rule { return recipes.Exclusive })
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
			return fmt.Errorf("%w: the numbers of %d permits and those of %d other holders take %d bytes: at most %d are allowed",
				coordinator.ErrInvalid, n, len(all)-1, len(value), maxRecord)
		}
		err = p.semaphore.slots.SetRecord(ctx, value, r.Version)
		switch {
		case err == nil:
			p.slots, p.unsure = mine, false // one that is late finds another version
			return p.hold.Check(ctx)
		case coordinator.MayHaveApplied(err):
			p.unsure = true
		case !errors.Is(err, coordinator.ErrStale):
			return err
		}
		if ctx.Err() != nil {
			return err
		} // else somebody was faster, be it this very request: look again
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
