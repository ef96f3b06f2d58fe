// Package service asks the services of a quorum, for a bounded time.
package service

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/multilock/internal/held"
)

// A service that does not answer for Patience, or whose queue does not move, is
// passed over, and is not asked again for rest, unless it is needed: otherwise
// each Lock would wait for it.
const (
	Patience = 2 * time.Second
	rest     = 10 * Patience
)

// How long Acquire waits for other callers. Brief is enough for a release that
// is under way at another service, too.
const (
	Brief   = 250 * time.Millisecond
	Forever = time.Duration(math.MaxInt64)
)

// ErrSilent ends a request to a silent service.
var (
	ErrSilent    = unavailable("no answer within %v", Patience)
	errSuspended = unavailable("no answer to renewals for a quarter of the TTL")
	errResting   = unavailable("not asked, without an answer a moment ago")
)

func unavailable(format string, args ...any) error {
	return driver.Wrap(coordinator.ErrUnavailable, fmt.Errorf(format, args...))
}

// Service is the mutex of a name at one service.
type Service struct {
	*coordinator.Client
	queue *recipes.Queue
	rests atomic.Pointer[time.Time] // until when, or nil
}

// New returns the mutex of a name at the service of a client.
func New(c *coordinator.Client, name string, opts []recipes.Option) (*Service, error) {
	queue, err := recipes.NewQueue(c, "mutex", name, opts...)
	if err == nil {
		err = cmp.Or(recipes.RefuseRetain(queue, "quorum"), recipes.RefuseDeadlockError(queue, "quorum"))
	}
	return &Service{Client: c, queue: queue}, err
}

// Reenters is that of the queue.
func (s *Service) Reenters() bool { return s.queue.Reenters() }

func (s *Service) resting() bool {
	until := s.rests.Load()
	return until != nil && time.Now().Before(*until)
}

// Identities asks the services for the identities of their data, at the same
// time. Unless all must be asked, it spares those that did not answer a moment
// ago.
func Identities(
	ctx context.Context, services []*Service, all bool,
) (ids []string, errs []error, spared int) {
	ids, errs = make([]string, len(services)), make([]error, len(services))
	for i, s := range services {
		if !all && s.resting() {
			errs[i] = errResting
			spared++
		}
	}
	held.Together(len(services), func(i int) {
		if errs[i] == nil {
			ids[i], errs[i] = services[i].identity(ctx)
		}
	})
	return ids, errs, spared
}

func (s *Service) identity(ctx context.Context) (id string, err error) {
	err = s.ask(ctx, func(ctx context.Context, _ func(time.Duration)) error {
		session, err := s.Session(ctx)
		if err != nil {
			return err
		}
		// To ask it while other members are held would delay other callers.
		if state, _ := session.State(); state == event.StateSuspended {
			return errSuspended
		}
		id, err = session.Service(ctx)
		return err
	})
	return id, err
}

// Acquire acquires the mutex. Once the service has answered that it is taken,
// Acquire waits for other callers until ctx ends, for so long, or not at all.
// It calls queued, if that is not nil, when it has joined the queue.
func (s *Service) Acquire(
	ctx context.Context, wait time.Duration, queued func(),
) (h *recipes.Hold, err error) {
	err = s.ask(ctx, func(ctx context.Context, answered func(time.Duration)) (err error) {
		h, err = s.queue.Acquire(ctx, recipes.Request{Op: "lock", Mode: "x",
			// Without a wait, a lock-delay still needs requests after the join.
			Try: wait == 0, Queued: func() {
				if answered(cmp.Or(wait, Patience)); queued != nil {
					queued()
				}
			}})
		return err
	})
	return h, err
}

// First returns the first in the queue of the mutex, if the service answers and
// there is one that is not of the client's own session, which lives.
func (s *Service) First(ctx context.Context) (first recipes.Contender, ok bool) {
	_ = s.ask(ctx, func(ctx context.Context, _ func(time.Duration)) (err error) {
		session, err := s.Session(ctx)
		if err == nil {
			first, ok, err = s.queue.Follow().Next(ctx)
			ok = ok && first.Session != session.ID()
		}
		return err
	})
	return first, ok
}

// Log returns the log of the client.
func (s *Service) Log() *slog.Logger { return engine.Of(s.Client).Log() }

// Rest makes calls pass over the service for a while, unless it is needed.
func (s *Service) Rest() {
	until := time.Now().Add(rest)
	s.rests.Store(&until)
}

// ask calls f with a context that ends when the service has not answered in
// time. f calls answered before it waits for something else.
func (s *Service) ask(
	ctx context.Context, f func(ctx context.Context, answered func(time.Duration)) error,
) error {
	bound, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(Patience, func() { cancel(ErrSilent) })
	defer timer.Stop()
	silent := true
	err := f(bound, func(wait time.Duration) {
		silent = false
		timer.Reset(wait)
	})
	switch {
	case err == nil || !silent:
		s.rests.Store(nil)
	case ctx.Err() == nil && bound.Err() != nil:
		s.Rest()
	}
	return err
}
