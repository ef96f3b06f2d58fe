// Package ways makes requests in all recipes alike. A fault affects everything
// that a session or a process holds, so a test injects it once, and checks a
// hold of each recipe.
package ways

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// Way is a kind of request.
type Way string

// The ways of asking. Permits are of a semaphore with a limit of Permits.
const (
	Lock    Way = "lock"
	Write   Way = "write"
	Read    Way = "read"
	Term    Way = "term"
	Permit  Way = "one permit"
	Two     Way = "two permits"
	All     Way = "all permits"
	Permits     = 4
)

var (
	// Alone are the ways that exclude all others.
	Alone = []Way{Lock, Write, Term, All}
	// Each is a way of each kind of hold.
	Each = []Way{Lock, Write, Read, Term, Two}
)

// Shut is the way whose hold keeps w waiting, and waits for it.
func (w Way) Shut() Way {
	switch w {
	case Read:
		return Write
	case Permit, Two:
		return All
	}
	return w
}

// Hold is a hold of any recipe.
type Hold struct {
	Token    coordinator.Token
	Session  string
	Context  context.Context
	Deadline func() time.Time
	Err      func() error
	Release  func(context.Context) error
}

// Handle has the methods of the handles of all recipes.
type Handle interface {
	Token() coordinator.Token
	Session() string
	Context() context.Context
	Deadline() time.Time
	Err() error
}

// HoldOf is the hold of a handle, unless there is an error.
func HoldOf(h Handle, release func(context.Context) error, err error) (Hold, error) {
	if err != nil {
		return Hold{}, err
	}
	return Hold{h.Token(), h.Session(), h.Context(), h.Deadline, h.Err, release}, nil
}

// Ask makes a request and waits for the grant.
func (w Way) Ask(ctx context.Context, c *coordinator.Client, name string) (Hold, error) {
	switch w {
	case Lock:
		m, err := mutex.New(c, name)
		if err != nil {
			return Hold{}, err
		}
		l, err := m.Lock(ctx)
		return HoldOf(l, l.Unlock, err)
	case Write, Read:
		rw, err := rwlock.New(c, name)
		if err != nil {
			return Hold{}, err
		}
		lock := rw.Lock
		if w == Read {
			lock = rw.RLock
		}
		l, err := lock(ctx)
		return HoldOf(l, l.Unlock, err)
	case Term:
		e, err := election.New(c, name)
		if err != nil {
			return Hold{}, err
		}
		t, err := e.Campaign(ctx, nil)
		return HoldOf(t, t.Resign, err)
	}
	s, err := semaphore.New(c, name, Permits)
	if err != nil {
		return Hold{}, err
	}
	p, err := s.Acquire(ctx, map[Way]int{Permit: 1, Two: 2, All: Permits}[w])
	return HoldOf(p, p.Release, err)
}

// Count returns how many contenders are queued.
func (w Way) Count(ctx context.Context, c *coordinator.Client, name string) (int, error) {
	switch w {
	case Lock:
		m, err := mutex.New(c, name)
		if err != nil {
			return 0, err
		}
		list, err := m.Contenders(ctx)
		return len(list), err
	case Write, Read:
		rw, err := rwlock.New(c, name)
		if err != nil {
			return 0, err
		}
		list, err := rw.Contenders(ctx)
		return len(list), err
	case Term:
		e, err := election.New(c, name)
		if err != nil {
			return 0, err
		}
		list, err := e.Candidates(ctx)
		return len(list), err
	}
	s, err := semaphore.New(c, name, Permits)
	if err != nil {
		return 0, err
	}
	list, err := s.List(ctx)
	return len(list.Contenders), err
}
