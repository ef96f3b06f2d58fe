package semaphore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes"
)

// Slots returns one number for each permit, which no other holder has. Numbers
// do not change while the permit is held. They are smaller than the limit,
// unless the limit was lowered later.
//
// The first call sends three requests, or more if others call at the same time.
// All numbers are in one record of 64 KiB, enough for some 1,900 holders of one
// permit each. If it is full, the error is coordinator.ErrInvalid. Other
// errors: that of Err, ErrUnavailable, ErrRefused and the cause of ctx.
func (p *Permit) Slots(ctx context.Context) ([]int, error) {
	if p.semaphore.locks != nil {
		return nil, p.semaphore.notShared("slots", "it has no numbers")
	}
	if err := enter(ctx, p.writing); err != nil {
		return nil, err
	}
	defer func() { <-p.writing }()
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

// numbers is the record of the slots' queue: the numbers of each holder, by its
// contender's ID. The numbers of a contender that has left the queue are free.
type numbers map[string][]int

// maxRecord is how large a record can be; see driver.Session.SetRecord.
const maxRecord = 64 << 10

// number assigns n numbers to this permit. It ends with the permit too: a
// caller that waits for an unavailable service must learn of the loss at once.
func (p *Permit) number(ctx context.Context, n int) error {
	if n > maxRecord/2 { // a number takes two bytes at least; n may be 1e9
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
// It reads the record before the queue: a contender in the record was queued
// when the record was written. If it is not queued now, it has left for ever,
// since IDs are not used twice. The write fails if another client has written
// the record meanwhile.
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
		if all == nil { // no record, or a JSON null
			all = numbers{}
		}
		queued, err := p.semaphore.queue.List(ctx,
			func(string) recipes.Rule { return recipes.Exclusive })
		if err != nil {
			return err
		}
		mine, err := all.assign(p.hold.ID(), n, queued)
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
			p.slots, p.unsure = mine, false // a late write finds another version
			return p.hold.Check(ctx)
		case !recipes.Overtaken(ctx, err):
			return err
		}
	}
}

// assign gives a holder n numbers: first its own, then the smallest free ones.
// It deletes the holders that have left the queue.
func (all numbers) assign(id string, n int, queued []recipes.Contender) ([]int, error) {
	taken, here := map[int]bool{}, map[string]bool{}
	for _, c := range queued {
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
	for _, slot := range all[id] { // which may be invalid, written by hand
		keep(slot)
	}
	for slot := 0; len(mine) < n; slot++ {
		keep(slot)
	}
	all[id] = mine
	return mine, nil
}
