// Package coredriver is the smallest driver: the core of the contract in
// package driver, no capability, in memory. It shows what a service must offer
// for the recipes to work on it, and is a template for a new driver: copy it,
// and its tests, and put requests to the service in place of [Service].
// docs/drivers.md is the guide. It is experimental: a minor version may change
// it.
//
// There is one mutex, and every call takes effect at once. Any change of a
// queue wakes its waiters, which read it again. Names are never removed.
//
// Where a request crosses a network, three methods need more than is shown
// here: Forget must refuse a Join that is still under way, Watch and Record
// must miss no change during a reconnect, and every call must end with its
// context.
package coredriver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// Clients of one process share the service of the URL core://host.
func init() {
	services := map[string]*Service{}
	var mu sync.Mutex
	coordinator.Register("core", func(u *url.URL) (driver.Driver, error) {
		mu.Lock()
		defer mu.Unlock()
		if services[u.Host] == nil {
			services[u.Host] = NewService()
		}
		return services[u.Host].Driver(), driver.NewParams(u).Err()
	})
}

// The range of TTLs that are granted.
const (
	minTTL = time.Second
	maxTTL = time.Hour
)

// Service is a service in this process.
type Service struct {
	mu       sync.Mutex
	revision int64 // of the latest change; yields tokens, versions and IDs
	sessions map[string]*session
	queues   map[driver.Queue]*queue
}

// queue has the entries of one name, in order, and its record.
type queue struct {
	entries []driver.Entry
	record  driver.Record
	changed chan struct{} // closed at the next change
}

// NewService makes an empty service.
func NewService() *Service {
	return &Service{sessions: map[string]*session{}, queues: map[driver.Queue]*queue{}}
}

// Driver makes a client of the service.
func (s *Service) Driver() driver.Driver { return client{s} }

type client struct{ svc *Service }

func (c client) Close(context.Context) error { return nil }
func (c client) String() string              { return "core://" }

// Open starts a session, which a timer ends.
func (c client) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if ttl < minTTL || ttl > maxTTL {
		return nil, driver.Wrap(driver.ErrInvalid, fmt.Errorf("coredriver: ttl %v would become %v", ttl, min(max(ttl, minTTL), maxTTL)))
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.svc.mu.Lock()
	defer c.svc.mu.Unlock()
	s := &session{svc: c.svc, id: fmt.Sprintf("%x", c.svc.next()), ttl: ttl, done: make(chan struct{})}
	c.svc.sessions[s.id] = s
	s.timer = time.AfterFunc(ttl, func() { c.svc.End(s.id) })
	return s, nil
}

// End ends a session, as an operator may, and removes its entries. It reports
// whether the session existed.
func (s *Service) End(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.sessions[id]
	if ended == nil {
		return false
	}
	delete(s.sessions, id)
	ended.timer.Stop()
	close(ended.done)
	for name := range s.queues {
		s.remove(name, func(e driver.Entry) bool { return e.Session == id })
	}
	return true
}

// Remove removes an entry, as an operator may. It reports whether the entry
// existed.
func (s *Service) Remove(name driver.Queue, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(name, func(e driver.Entry) bool { return e.Key == key })
}

// Sessions counts the sessions.
func (s *Service) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// next, queue, remove and wake need s.mu.

func (s *Service) next() int64 {
	s.revision++
	return s.revision
}

func (s *Service) queue(name driver.Queue) *queue {
	if s.queues[name] == nil {
		s.queues[name] = &queue{changed: make(chan struct{})}
	}
	return s.queues[name]
}

// remove deletes entries, and reports whether there were any.
func (s *Service) remove(name driver.Queue, which func(driver.Entry) bool) bool {
	q := s.queue(name)
	if !slices.ContainsFunc(q.entries, which) {
		return false
	}
	q.entries = slices.DeleteFunc(slices.Clone(q.entries), which)
	s.wake(name)
	return true
}

// wake wakes all waiters of a queue.
func (s *Service) wake(name driver.Queue) {
	q := s.queues[name]
	close(q.changed)
	q.changed = make(chan struct{})
}

// session is the client's side of a session.
type session struct {
	svc   *Service
	id    string
	ttl   time.Duration
	timer *time.Timer
	done  chan struct{}
}

func (s *session) Capabilities() driver.Capabilities { return driver.Capabilities{} }
func (s *session) ID() string                        { return s.id }
func (s *session) TTL() time.Duration                { return s.ttl }
func (s *session) Slack() time.Duration              { return 0 }
func (s *session) Done() <-chan struct{}             { return s.done }

var (
	errLost = driver.Wrap(driver.ErrSessionLost, errors.New("coredriver: the session has ended"))
	errGone = driver.Wrap(driver.ErrGone, errors.New("coredriver: no such entry"))
)

// do runs one step of the service if the session is alive.
func (s *session) do(ctx context.Context, step func() error) error {
	s.svc.mu.Lock()
	defer s.svc.mu.Unlock()
	switch {
	case s.svc.sessions[s.id] != s:
		return errLost
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return step()
}

// wait calls look after each change of a queue until it returns true.
func (s *session) wait(ctx context.Context, name driver.Queue, look func(*queue) (seen bool)) error {
	for {
		var changed chan struct{}
		err := s.do(ctx, func() error {
			if q := s.svc.queue(name); !look(q) {
				changed = q.changed
			}
			return nil
		})
		if err != nil || changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-s.done:
		case <-ctx.Done():
		}
	}
}

func (s *session) Renew(ctx context.Context) error {
	return s.do(ctx, func() error {
		s.timer.Reset(s.ttl)
		return nil
	})
}

// Join appends an entry. It leaves Nearest out, which only Handoff uses.
func (s *session) Join(ctx context.Context, name driver.Queue, c driver.Contender) (driver.Joined, error) {
	var joined driver.Joined
	err := s.do(ctx, func() error {
		q := s.svc.queue(name)
		i := slices.IndexFunc(q.entries, func(e driver.Entry) bool { return e.ID == c.ID })
		switch {
		case i >= 0: // an earlier Join with this ID was applied
		case c.Record != 0 && c.Record != q.record.Version:
			return driver.Wrap(driver.ErrStale, nil)
		case c.Alone && len(q.entries) > 0:
			return driver.Wrap(driver.ErrTaken, nil)
		default:
			n := s.svc.next()
			place := driver.Place{Key: fmt.Sprint("e", n), ID: c.ID, Mode: c.Mode, Session: s.id}
			i = len(q.entries)
			q.entries = append(slices.Clone(q.entries), driver.Entry{Place: place, Token: driver.Token(n), Value: bytes.Clone(c.Value)})
			s.svc.wake(name)
		}
		joined = driver.Joined{Place: q.entries[i].Place, Token: q.entries[i].Token, First: i == 0}
		return nil
	})
	return joined, err
}

func (s *session) Ahead(ctx context.Context, name driver.Queue, own driver.Place) (driver.View, error) {
	var view driver.View
	err := s.do(ctx, func() error {
		entries := s.svc.queue(name).entries
		at := len(entries)
		if own != (driver.Place{}) {
			if at = index(entries, own); at < 0 {
				return errGone
			}
		}
		for _, e := range entries[:at] {
			view.Ahead = append(view.Ahead, e.Place)
		}
		view.Last = at >= len(entries)-1
		return nil
	})
	return view, err
}

func index(entries []driver.Entry, p driver.Place) int {
	return slices.IndexFunc(entries, func(e driver.Entry) bool { return e.Key == p.Key })
}

func (s *session) Watch(ctx context.Context, name driver.Queue, places ...driver.Place) error {
	if len(places) == 0 {
		return driver.Wrap(driver.ErrInvalid, errors.New("coredriver: nothing to watch"))
	}
	return s.wait(ctx, name, func(q *queue) bool {
		return slices.ContainsFunc(places, func(p driver.Place) bool { return index(q.entries, p) < 0 })
	})
}

func (s *session) Leave(ctx context.Context, name driver.Queue, own driver.Place) error {
	return s.do(ctx, func() error {
		if !s.svc.remove(name, func(e driver.Entry) bool { return e.Place == own && e.Session == s.id }) {
			return errGone
		}
		return nil
	})
}

// Forget never finds a request in flight: each Join takes effect before it
// returns.
func (s *session) Forget(ctx context.Context, name driver.Queue, id string) error {
	return s.do(ctx, func() error {
		s.svc.remove(name, func(e driver.Entry) bool { return e.ID == id && e.Session == s.id })
		return nil
	})
}

func (s *session) List(ctx context.Context, name driver.Queue, limit int) ([]driver.Entry, error) {
	if limit < 0 {
		return nil, driver.Wrap(driver.ErrInvalid, errors.New("coredriver: limit is negative"))
	}
	var list []driver.Entry
	err := s.do(ctx, func() error {
		list = slices.Clone(s.svc.queue(name).entries)
		return nil
	})
	if limit > 0 && len(list) > limit {
		list = list[:limit]
	}
	for i := range list {
		list[i].Value = bytes.Clone(list[i].Value)
	}
	return list, err
}

func (s *session) Record(ctx context.Context, name driver.Queue, known driver.Version) (driver.Record, error) {
	var record driver.Record
	err := s.wait(ctx, name, func(q *queue) bool {
		record = driver.Record{Value: bytes.Clone(q.record.Value), Version: q.record.Version}
		return record.Version != known
	})
	return record, err
}

func (s *session) SetRecord(ctx context.Context, name driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
	if len(value) == 0 || len(value) > 64<<10 {
		return 0, driver.Wrap(driver.ErrInvalid, fmt.Errorf("coredriver: a record of %d bytes; want 1 to 65536", len(value)))
	}
	var version driver.Version
	err := s.do(ctx, func() error {
		q := s.svc.queue(name)
		if q.record.Version != known {
			return driver.Wrap(driver.ErrStale, nil)
		}
		version = driver.Version(s.svc.next())
		q.record = driver.Record{Value: bytes.Clone(value), Version: version}
		s.svc.wake(name)
		return nil
	})
	return version, err
}

// Close ends the session, unless it has already ended.
func (s *session) Close(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.svc.End(s.id)
	return nil
}
