// Package group is membership: processes join a group with a small value each,
// and everyone can list and observe the members.
//
//	workers, err := group.New(client, "workers")
//	go func() { err = workers.Run(ctx, []byte("10.0.0.7:8080"), nil) }() // a member until ctx ends
//	for members, err := range workers.Observe(ctx) { … }
//
// # Guaranteed
//
// A member is listed from the return of Join until it leaves, and after a crash
// for about the TTL of its client. The context of a membership ends before the
// service can remove a lost member.
//
// # Not guaranteed
//
// A list is a snapshot. On ZooKeeper it is that of the client's server, which
// may be a moment behind and lack a member that has just joined. Two processes
// may see different members at one moment, so a decision that must be unique,
// such as who does a task, needs a lock (package partition uses one for each
// shard).
//
// A change costs each observer one listing. That is one request on most
// services, but 1 + n on ZooKeeper, which has no request that reads several
// nodes: with 100 members and 10 observers, a change costs it some 1,000 reads,
// and the restart of all members, one after the other, 200,000. Let one process
// observe a large group there and tell the others, or use etcd. Changes that
// come during a listing cost one more, together.
//
// # Protocol
//
// A member is an entry in a queue whose rule admits every contender. An
// observer waits until one of the entries it has seen leaves, or the queue's
// record changes: a member that has joined or updated its value writes the
// record. A member that crashes between the two steps ends after the TTL, and
// an observer has either never seen it, or waits for its entry.
package group

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
)

// The kind of a group's queue, and the mode of its members.
const (
	kind = "group"
	mode = "m"
)

// MaxValue is the size of the largest value, in bytes.
const MaxValue = recipes.MaxPayload

// Group is stored at the service: Groups with the same name, service and
// namespace are the same group. It is safe for concurrent use.
type Group struct {
	client *engine.Client
	queue  *recipes.Queue
	id     driver.Queue
}

// Option changes a default of a Group.
type Option = recipes.Option

// WithIdentity changes the identity in listings: see [recipes.WithIdentity].
func WithIdentity(id string) Option { return recipes.WithIdentity(id) }

// New does no I/O. The error is ErrInvalid: see [coordinator.CheckName]. Groups
// have no lock-delay, no longest hold, and no layout shared with other clients.
func New(c *coordinator.Client, name string, opts ...Option) (*Group, error) {
	q, err := recipes.NewQueue(c, kind, name, opts...)
	if err == nil {
		err = cmp.Or(recipes.RefuseLockDelay(q, kind), recipes.RefuseMaxHold(q, kind),
			recipes.RefuseRetain(q, kind), recipes.RefuseDeadlockError(q, kind))
	}
	if err != nil {
		return nil, err
	}
	g := &Group{client: engine.Of(c), queue: q}
	g.id, err = g.client.Queue(kind, name)
	return g, err
}

// Name returns the group's name.
func (g *Group) Name() string { return g.queue.Name() }

// everyone admits every contender.
func everyone([]driver.Place) recipes.Verdict { return recipes.Verdict{Admitted: true} }

// Join makes the caller a member with a value of up to MaxValue bytes, which
// may be empty. Each call makes another member. The caller must Leave.
//
// On failure there is no member: the entry is removed, in the background if
// necessary. Errors: the cause of ctx, with coordinator.ErrUnavailable if the
// service did not answer; ErrSessionLost; ErrRefused; ErrInvalid; ErrClosed.
func (g *Group) Join(ctx context.Context, value []byte) (*Member, error) {
	h, err := g.queue.Acquire(ctx, recipes.Request{
		Op: "join", Mode: mode, Rule: everyone, Fresh: true, Payload: value})
	if err != nil {
		return nil, err
	}
	if err := g.announce(ctx); err != nil {
		bound, cancel := ctx, func() {}
		if ctx.Err() != nil { // with ctx, Release would last two seconds more
			bound, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Millisecond)
		}
		defer cancel()
		_ = h.Release(bound) // continues in the background
		return nil, recipes.Describe(ctx, "join", g.Name(), err)
	}
	return &Member{hold: h, group: g}, nil
}

// announce makes sure that the record changes after the call began: by this
// write, or by that of another member.
func (g *Group) announce(ctx context.Context) error {
	for failures := 1; ; failures++ {
		r, err := g.queue.Record(ctx)
		if err != nil {
			return err
		}
		// The value is for people; only the version matters.
		now := []byte(time.Now().UTC().Format(time.RFC3339Nano))
		err = g.queue.SetRecord(ctx, now, r.Version)
		switch {
		case err == nil:
			return nil
		case !recipes.Overtaken(ctx, err):
			return err
		case errors.Is(err, coordinator.ErrStale):
			return nil // another member has written it since the read
		}
		if err := recipes.PauseAgain(ctx, g.queue, failures); err != nil {
			return err
		}
	}
}

// Info is a member in a listing.
type Info struct {
	Token    coordinator.Token // identifies the membership; members that join later have greater ones
	Identity string            // of the client, or that of WithIdentity
	Value    []byte
	Since    time.Time // when Join began, by the clock of the member
	Session  string
}

// infos returns members as listings show them.
func infos(members []recipes.Contender) []Info {
	all := make([]Info, len(members))
	for i, c := range members {
		all[i] = Info{Token: c.Token, Identity: c.Identity, Value: c.Payload, Since: c.Since, Session: c.Session}
	}
	return all
}

// Members returns a snapshot of the members, in the order of their joins.
// Entries of other programs and of no session are left out.
func (g *Group) Members(ctx context.Context) ([]Info, error) {
	all, err := g.members(ctx)
	if err != nil {
		return nil, err
	}
	return infos(all), nil
}

func (g *Group) members(ctx context.Context) ([]recipes.Contender, error) {
	all, err := g.queue.List(ctx, func(string) recipes.Rule { return everyone })
	return slices.DeleteFunc(all, func(c recipes.Contender) bool {
		return c.ID == "" || c.Stray != ""
	}), err
}

// Observe yields the members, and again after each change: a member has joined,
// left or died, or has updated its value. It may skip states, but never the
// latest. It goes on after a lost session. Another error ends it, also that of
// an ended ctx.
//
// An observer is no member. While it waits it has two watches at the service,
// however many members there are: of the entries and of the record. A change
// costs it one listing, which on ZooKeeper is 1 + n reads for n members, and
// the two watches again.
func (g *Group) Observe(ctx context.Context) iter.Seq2[[]Info, error] {
	return func(yield func([]Info, error) bool) {
		o, losses := observer{Group: g, known: driver.Any}, 0
		for {
			members, err := o.next(ctx)
			if errors.Is(err, coordinator.ErrSessionLost) && ctx.Err() == nil {
				o.session = nil
				losses++
				if err = recipes.PauseAgain(ctx, g.queue, losses); err == nil {
					continue
				}
			}
			if losses = 0; err != nil {
				yield(nil, recipes.Describe(ctx, "observe", g.Name(), err))
				return
			}
			if !yield(members, nil) {
				return
			}
		}
	}
}

// observer is one iteration of Observe.
type observer struct {
	*Group
	session *engine.Session
	known   driver.Version      // of the record, as read before the list
	seen    []recipes.Contender // the latest list
	shown   bool
}

// next returns the next state that differs from the one that it returned last.
// The record is always read before the list. So a join that the list lacks has
// not written the record that is known, and its write ends the wait.
func (o *observer) next(ctx context.Context) ([]Info, error) {
	for {
		if err := o.await(ctx); err != nil {
			return nil, err
		}
		members, err := o.members(ctx)
		if err != nil {
			return nil, err
		}
		same := slices.EqualFunc(members, o.seen, func(a, b recipes.Contender) bool {
			return a.Token == b.Token && string(a.Payload) == string(b.Payload)
		})
		o.seen = members
		if !same || !o.shown {
			o.shown = true
			return infos(members), nil
		}
	}
}

// await waits until a member seen has left or the record has changed. On a new
// session it reads the record and returns.
func (o *observer) await(ctx context.Context) error {
	s, err := o.client.Session(ctx)
	if err != nil {
		return err
	}
	if s != o.session {
		r, err := s.Record(ctx, o.id, driver.Any)
		if err == nil {
			o.session, o.known = s, r.Version
		}
		return err
	}
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	left := make(chan error, 1)
	go func() { // waited for below
		defer cancel()
		left <- o.awaitLeave(either)
	}()
	r, err := s.Record(either, o.id, o.known)
	cancel()
	gone := <-left
	switch {
	case err == nil:
		o.known = r.Version
	case gone == nil:
		err = nil
	case ctx.Err() == nil && errors.Is(err, context.Canceled): // by the other
		err = gone
	}
	return err
}

// awaitLeave waits until one of the members seen has left.
func (o *observer) awaitLeave(ctx context.Context) error {
	if len(o.seen) == 0 {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return o.session.Await(ctx, o.id, places(o.seen)...)
}

// places returns the entries of members.
func places(members []recipes.Contender) []driver.Place {
	all := make([]driver.Place, len(members))
	for i, c := range members {
		all[i] = driver.Place{Key: c.Key, ID: c.ID, Mode: c.Mode, Session: c.Session}
	}
	return all
}

// AwaitLeave blocks until the member with a token (see [Member.Token] and
// Members) has left or died. It lists the members, twice if the member is
// missing, and then returns nil; else it waits for that entry alone: no other
// member wakes it. The error is as for Join.
func (g *Group) AwaitLeave(ctx context.Context, member coordinator.Token) error {
	err := g.awaitLeave(ctx, member)
	return recipes.Describe(ctx, "await", g.Name(), err)
}

func (g *Group) awaitLeave(ctx context.Context, member coordinator.Token) error {
	var latest *engine.Session // whose lists have all members that joined before the call
	for losses := 0; ; {
		s, err := g.client.Session(ctx)
		if err != nil {
			return err
		}
		all, err := g.members(ctx)
		i := slices.IndexFunc(all, func(c recipes.Contender) bool { return c.Token == member })
		switch {
		case err == nil && i >= 0:
			if err = s.Await(ctx, g.id, places(all[i:i+1])...); err == nil {
				return nil
			}
		case err == nil && s == latest && s.Ended() == nil:
			return nil
		case err == nil: // the server of the session may be behind
			_, err = g.queue.LatestRecord(ctx)
			latest = s
		}
		if err != nil {
			if ctx.Err() != nil || !errors.Is(err, coordinator.ErrSessionLost) {
				return err
			}
			losses++
			if err := recipes.PauseAgain(ctx, g.queue, losses); err != nil {
				return err
			}
		}
	}
}
