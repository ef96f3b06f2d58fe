// Package member is one membership of a partition, from the join to the end of
// the session or of the caller's context.
package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/group"
	"github.com/baton-go/baton/recipes/partition/internal/plan"
	"github.com/baton-go/baton/recipes/partition/internal/store"
)

// leavePatience bounds how long Serve waits for the service when it leaves.
const leavePatience = 2 * time.Second

// Config is what a membership needs.
type Config struct {
	Name   string
	Client *engine.Client
	Group  *group.Group
	Store  *store.Store
	Shards []*recipes.Queue // their mutexes
	Share  plan.Share
	Drain  time.Duration
	Settle time.Duration // each step of a member that settles
	Status *Status
	Handle func(shard int, h *recipes.Hold) any // of a hold, for Work and Status
	Work   func(ctx context.Context, handle any) error
	Report func(error) // of errors after which Serve or Run goes on
}

// member is one membership:
//
//	join the group -> plan -> follow the plan <---------------+
//	                            +-> signalled: read the plan -+
//	                            +-> a worker has ended -------+
//	                            +-> the watched member died: -+
//	                            v   plan
//	ctx ended, or membership over: plan without the own shards, drain, leave
type member struct {
	*Config
	ctx     context.Context // the caller's, but ends with the membership, too
	end     context.CancelCauseFunc
	joined  *group.Member
	session *engine.Session
	wg      sync.WaitGroup // its goroutines

	plan    plan.Plan
	pauses  *backoff.ExponentialBackOff // before it plans again after an error
	again   <-chan time.Time            // the end of the pause, or nil
	settles <-chan time.Time            // the time for the next step; nil: it does not settle
	ticks   int                         // of settles since its last step
	settled bool                        // its value in the group says that it has settled
	changed chan struct{}               // it was signalled, and the plan has changed
	died    chan struct{}               // the member that it watched has left
	duty    duty
	quit    context.CancelFunc // ends its goroutines for the duty
	workers map[int]*worker
	ended   chan *worker
}

// duty is what a member attends to: the signals of its seat, and the end of
// another member.
type duty struct {
	seat    int
	watched int64 // its token, or 0
}

// Serve joins, works on the shards of the member, and leaves when ctx ends or
// the membership does. It returns why that ended, or ErrOverrun; otherwise no
// work runs then.
func (c *Config) Serve(ctx context.Context) error {
	value, _ := json.Marshal(c.Share) // never fails for numbers
	joined, err := c.Group.Join(ctx, value)
	if err != nil {
		return err
	}
	m := &member{
		Config: c, joined: joined,
		changed: make(chan struct{}, 1), died: make(chan struct{}, 1), pauses: NewPauses(),
		duty: duty{seat: -1}, quit: func() {},
		workers: make(map[int]*worker), ended: make(chan *worker, len(c.Shards)),
	}
	m.Status.show(m, nil, "joining")
	defer m.Status.forget(m)
	m.ctx, m.end = context.WithCancelCause(ctx)
	life := joined.Context()
	defer context.AfterFunc(life, func() { m.end(context.Cause(life)) })()
	if m.session, err = c.Client.Session(m.ctx); err == nil {
		err = m.loop()
	}
	return m.leave(err)
}

// loop follows the plan until the membership ends. After a failed request it
// works on by the plan that it has, and tries again after a pause.
func (m *member) loop() error {
	if m.Settle > 0 {
		ticker := time.NewTicker(m.Settle)
		defer ticker.Stop()
		m.settles = ticker.C
	}
	for do := m.join; ; {
		if do != nil {
			switch err := do(); {
			case err == nil:
			case m.over(err):
				return err
			default:
				m.Report(err)
				m.again = time.After(m.pauses.NextBackOff())
			}
		}
		m.follow()
		do = nil
		select {
		case <-m.ctx.Done():
			return context.Cause(m.ctx)
		case <-m.changed:
			do = m.read
		case <-m.died:
			do = m.bury
		case <-m.settles:
			do = m.grow
		case <-m.again:
			do = m.replanAll
		case w := <-m.ended:
			if delete(m.workers, w.shard); w.err != nil {
				return w.err
			}
		}
	}
}

// over reports whether an error ends the membership. A plan that cannot be read
// or followed does that only at first.
func (m *member) over(err error) bool {
	return m.ctx.Err() != nil || errors.Is(err, coordinator.ErrSessionLost) ||
		errors.Is(err, coordinator.ErrRemoved) || errors.Is(err, coordinator.ErrClosed) ||
		errors.Is(err, coordinator.ErrInvalid) && m.plan.Number == 0
}

func (m *member) token() int64 { return int64(m.joined.Token()) }

// follow starts and ends workers, and attends to others, as the plan says.
func (m *member) follow() {
	me := m.plan.Find(m.token())
	if me == nil {
		return // there is no plan yet
	}
	m.Status.show(m, me.Shards, "")
	mine := make(map[int]bool)
	for _, s := range me.Shards {
		if mine[s] = true; m.workers[s] == nil {
			m.start(s)
		}
	}
	for s, w := range m.workers {
		if !mine[s] {
			w.end(ErrMoved) // if it is mine again when it has ended, another starts
		}
	}
	if now := (duty{me.Seat, m.plan.Predecessor(m.token())}); now != m.duty {
		m.attend(now)
	}
}

// attend listens for signals, and waits for the end of another member, in place
// of what it did before.
func (m *member) attend(duty duty) {
	m.quit()
	ctx, cancel := context.WithCancel(m.ctx)
	m.duty, m.quit = duty, cancel
	m.background(ctx, func() error {
		return m.Store.Listen(ctx, m.session, duty.seat, func() { notify(m.changed) })
	})
	if duty.watched != 0 {
		m.background(ctx, func() error {
			err := m.Group.AwaitLeave(ctx, coordinator.Token(duty.watched))
			if err == nil {
				notify(m.died)
			}
			return err
		})
	}
}

// background runs f in a goroutine, again after an error, until it returns nil
// or ctx ends. An error that ends the membership ends m.ctx.
func (m *member) background(ctx context.Context, f func() error) {
	m.wg.Go(func() {
		for pauses := NewPauses(); ; Pause(ctx, pauses.NextBackOff()) {
			began := time.Now()
			err := f()
			if time.Since(began) > LongestPause {
				pauses.Reset()
			}
			switch {
			case err == nil || ctx.Err() != nil:
				return
			case errors.Is(err, coordinator.ErrSessionLost), errors.Is(err, coordinator.ErrClosed):
				m.end(err)
				return
			}
			m.Report(err)
		}
	})
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// leave ends the membership for a reason, and returns that, or ErrOverrun. The
// other members queue for the shards while the work on them ends.
func (m *member) leave(why error) error {
	m.Status.show(m, nil, "stopping: "+fmt.Sprint(why)) // Sprint survives one that panics
	for _, w := range m.workers {
		w.end(why)
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), leavePatience)
	defer cancel()
	if m.session != nil && m.joined.Err() == nil {
		_ = m.depart(bound) // else the member that watches this one plans
	}
	for range m.workers {
		if w := <-m.ended; w.err != nil {
			why = w.err
		}
	}
	// another bound: the drain may have taken longer
	bound, cancel = context.WithTimeout(context.WithoutCancel(m.ctx), leavePatience)
	defer cancel()
	_ = m.joined.Leave(bound) // continues in the background
	m.quit()
	m.end(why)
	m.wg.Wait()
	return why
}
