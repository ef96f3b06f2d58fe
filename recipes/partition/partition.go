// Package partition spreads n shards over the members that are alive.
//
//	p, err := partition.New(client, "orders", 64)
//	err = p.Run(ctx, func(ctx context.Context, s *partition.Shard) error {
//		return consume(ctx, s.Number(), s.Token()) // until ctx ends
//	})
//
// # Guaranteed
//
// Each shard is a mutex: at most one live member holds it, with a fencing token
// that rises with each holder of the shard. The context of the work ends before
// another member can hold the shard, unless an operator ends the hold.
//
// Members of equal weight hold numbers of shards that differ by at most one. If
// one of them joins, only the shards that it takes move, and if one dies, only
// those of the dead. A shard that moves is drained: its context ends, the work
// returns, and then the hold is released to the next member, which usually is
// in its queue by then.
//
// # Not guaranteed
//
// A process that was stopped, and has since checked neither its context nor the
// token, may still work on a shard: pass the token to the resource. Work that
// does not return in time overlaps with the next holder: see WithDrain.
//
// The shards of a member that dies have no holder for its TTL, and for up to
// two if the member that watches it dies or is stopped as well. A process that
// crashes again and again takes its shards down each time: see WithSettle.
//
// # Protocol
//
// The plan, which says who holds which shard, is one record. A member that sees
// a change of the members computes the next plan, and writes it if the record
// is still the one that it has read. Each member watches the death of one other
// member. Members that join or leave write the plan themselves. A change wakes
// the members whose shards change, and one more.
//
// Members that plan at the same time take turns. Those that wait show what they
// want, and the first one writes one plan for all. So the requests of many
// members that leave, or are replaced, together are linear in their number.
//
// The plan only says who queues for a shard. Members that follow different
// plans wait for each other in the queue of the shard.
package partition

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/group"
	"github.com/baton-go/baton/recipes/partition/internal/member"
	"github.com/baton-go/baton/recipes/partition/internal/plan"
	"github.com/baton-go/baton/recipes/partition/internal/store"
)

// MaxShards is the greatest number of shards, and MaxWeight the greatest weight
// of a member. The plan has room for some 800 members, 700 if they all settle.
const (
	MaxShards = 1024
	MaxWeight = 1000
)

var (
	// ErrOverrun is the error of Run if work did not return within the bound of
	// [WithDrain]. The work may still run, while another member holds its
	// shard. End the process if it may do harm.
	ErrOverrun = member.ErrOverrun
	// ErrMoved is the cause of the context of work when the shard moves.
	ErrMoved = member.ErrMoved
)

// Work works on a shard until ctx ends. The resource behind the shard should
// refuse tokens smaller than the greatest it has seen.
type Work func(ctx context.Context, s *Shard) error

// Partition is stored at the service: Partitions with the same name, service
// and namespace are the same, and must have the same number of shards. It is
// safe for concurrent use.
type Partition struct {
	options
	client *engine.Client
	name   string
	group  *group.Group
	shards []*recipes.Queue
	store  *store.Store

	status    member.Status
	reporting sync.Mutex // held during onError
}

// New returns the partition of a name with a number of shards, 1 to MaxShards.
// It does no I/O. The error is ErrInvalid: see [coordinator.CheckName].
//
// The group "partition/NAME" (package group) has the members; do not join it.
// The plan stays at the service when the last member has left; the number of
// shards can change then, and only then. More shards than needed today cost
// little: an entry and a watch each.
func New(c *coordinator.Client, name string, shards int, opts ...Option) (*Partition, error) {
	p := &Partition{name: name, client: engine.Of(c), options: options{
		weight: 1, most: shards, drain: 10 * time.Second, onError: func(error) {}}}
	for _, o := range opts {
		if o == nil {
			return nil, engine.Invalid("nil option for partition %q", name)
		}
		o(&p.options)
	}
	if p.health != nil {
		p.health.show(p)
	}
	if c == nil {
		return nil, engine.Invalid("nil client")
	}
	if err := coordinator.CheckName(name); err != nil {
		return nil, err
	}
	if err := p.check(name, shards); err != nil {
		return nil, err
	}
	p.most = min(p.most, shards)
	var err error
	if p.group, err = group.New(c, "partition/"+name, group.WithIdentity(p.identity)); err != nil {
		return nil, err
	}
	if p.store, err = store.New(c, name); err != nil {
		return nil, err
	}
	for i := range shards {
		q, err := recipes.NewQueue(c, "partition-shard", name+"/"+strconv.Itoa(i),
			recipes.WithIdentity(p.identity))
		if err != nil {
			return nil, err
		}
		p.shards = append(p.shards, q)
	}
	return p, nil
}

// Name returns the partition's name.
func (p *Partition) Name() string { return p.name }

// Run is a member until ctx ends, and calls work for each shard that it holds,
// each in a goroutine of its own. The context of work has the values and the
// deadline of ctx. It ends, with the cause, when the shard moves to another
// member, the hold is lost, or ctx ends. Then work must return; see WithDrain.
// Work that returns earlier, with or without an error, is called again with the
// same hold after a pause that doubles from 100 ms up to 10 s, ± 50 %. Work
// that calls runtime.Goexit loses the shard. Run does not recover panics of
// work.
//
// When ctx ends, each shard moves to another member when its work has returned.
// Then Run returns context.Cause(ctx), joined with ErrOverrun if work has not
// returned. If the service does not answer, that takes up to four seconds more,
// and others get the shards after the TTL.
//
// After a lost session Run joins again, as another member, after a pause. While
// the plan cannot be read or written Run works on, and tries again. ErrClosed
// and ErrOverrun end it. So does ErrInvalid when it joins, at first or again:
// for instance, the members have another number of shards.
func (p *Partition) Run(ctx context.Context, work Work) error {
	if work == nil {
		return engine.Invalid("nil work for partition %q", p.name)
	}
	errs := p.startReports()
	defer errs.end()
	report := func(err error) {
		p.client.Log().Warn("baton: partition goes on after an error", "partition", p.name, "error", err)
		errs.add(err)
	}
	m := p.config(work, report)
	pauses := member.NewPauses()
	for {
		began := time.Now()
		err := m.Serve(ctx)
		switch {
		case ctx.Err() != nil && errors.Is(err, ErrOverrun):
			return errors.Join(context.Cause(ctx), err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrOverrun), errors.Is(err, coordinator.ErrInvalid),
			errors.Is(err, coordinator.ErrClosed):
			return err
		}
		report(err)
		if time.Since(began) > member.LongestPause {
			pauses.Reset()
		}
		member.Pause(ctx, pauses.NextBackOff())
	}
}

func (p *Partition) config(work Work, report func(error)) *member.Config {
	return &member.Config{
		Name: p.name, Client: p.client, Group: p.group, Store: p.store, Shards: p.shards,
		Share: plan.Share{Weight: p.weight, Max: p.most, Shards: len(p.shards), Settles: p.settle > 0},
		Drain: p.drain, Settle: p.settle, Report: report,
		Status: &p.status,
		Handle: func(shard int, h *recipes.Hold) any { return &Shard{hold: h, number: shard, partition: p} },
		Work:   func(ctx context.Context, handle any) error { return work(ctx, handle.(*Shard)) },
	}
}

// Holds returns the shards that Run holds in this process now, in order, with
// the handles that their work got. It sends no request. A shard that moves is
// among them until its work has returned; one that is lost is not.
func (p *Partition) Holds() []*Shard {
	held := p.status.Holds()
	all := make([]*Shard, len(held))
	for i, h := range held {
		all[i] = h.Handle.(*Shard)
	}
	return all
}

// Assignment is a shard in the current plan.
type Assignment struct {
	Shard int
	// Member is the token of the member that holds the shard or is queued for
	// it, in the group; it is no token of the shard. 0: no member. Identity is
	// its name.
	Member   coordinator.Token
	Identity string
}

// Assignments returns the shards in order, each with its member. It is a
// snapshot of the plan: a member may not hold its shards yet. It reads the plan
// and lists the members. The error is as for [group.Group.Join].
func (p *Partition) Assignments(ctx context.Context) ([]Assignment, error) {
	var now plan.Plan
	err := p.client.OnSession(ctx, func(s *engine.Session) (err error) {
		now, _, err = p.store.Read(ctx, s, driver.Any)
		return err
	})
	if err != nil {
		return nil, recipes.Describe(ctx, "assignments", p.name, err)
	}
	alive, err := p.group.Members(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Assignment, len(p.shards))
	for i := range all {
		all[i].Shard = i
	}
	for _, c := range alive {
		m := now.Find(int64(c.Token))
		if m == nil {
			continue
		}
		for _, s := range m.Shards {
			if s < len(all) {
				all[s].Member, all[s].Identity = c.Token, c.Identity
			}
		}
	}
	return all, nil
}
