package recipes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// MaxLockDelay is the longest lock-delay.
const MaxLockDelay = time.Minute

// WithLockDelay has the name rest for so long, up to MaxLockDelay, when a
// holder was lost: its session ended, its entry was removed, or its client was
// closed. What it had sent before can arrive meanwhile, and nobody else holds
// yet. After a release the next one holds at once. It is Chubby's lock-delay
// (Burrows, OSDI 2006).
//
// Each holder leaves a note at the name, which its release takes back; whoever
// comes next and finds one waits. The wait begins anew with whoever is next
// when one that waits is lost; on one client it goes on. All who use the name
// give the option, for without it nobody looks. A grant costs two requests
// more, a release one. A release that had no answer may count as a loss. A Try
// during the wait is a [*DelayError].
func WithLockDelay(d time.Duration) Option { return func(o *options) { o.delay, o.delays = d, true } }

// checkDelay checks what WithLockDelay was given.
func (o options) checkDelay(name string) error {
	if o.delays && (o.delay < time.Millisecond || o.delay > MaxLockDelay) {
		return invalid("lock-delay %v for %q: want 1ms to %v", o.delay, name, MaxLockDelay)
	}
	return nil
}

// RefuseLockDelay returns an error if the queue has a lock-delay: for recipes,
// of the given name, whose holders do not exclude each other.
func RefuseLockDelay(l *Queue, recipe string) error {
	if l.delay == 0 {
		return nil
	}
	return invalid("lock-delay %v for %s %q: only a mutex and an election have one", l.delay, recipe, l.name)
}

// DelayError says that the last holder of the name was lost, and for how long
// the name rests, at most. It is a coordinator.ErrTaken.
type DelayError struct {
	Op, Name string
	Delay    time.Duration
}

func (e *DelayError) Error() string {
	return fmt.Sprintf("baton: %s %q: the last holder was lost, and the name rests for up to %v", e.Op, e.Name, e.Delay)
}

// Unwrap returns coordinator.ErrTaken.
func (e *DelayError) Unwrap() error { return coordinator.ErrTaken }

// note is the record of a queue with a lock-delay: who held last.
type note struct {
	Token driver.Token `json:"token"`
	Held  bool         `json:"held"` // it has not released
	// Delay is how long whoever comes next waits if it never does, in milliseconds.
	Delay int64 `json:"delay_ms"`
}

func (n note) encode() []byte {
	b, _ := json.Marshal(n) // numbers always can be
	return b
}

// rest waits until the name has rested, if the last holder was lost, and leaves
// a note of its own. Before it returns nil nothing is granted: whoever dies on
// the way has the next one wait as long.
func (a *attempt) rest(ctx context.Context) error {
	if a.queue.delay == 0 || !a.exclusive() {
		return nil
	}
	own := note{Token: a.joined.Token, Held: true, Delay: a.queue.delay.Milliseconds()}
	for {
		r, err := a.session.Record(ctx, a.queue.id, driver.Any)
		if err != nil {
			return err
		}
		var last note
		if r.Version != 0 && json.Unmarshal(r.Value, &last) != nil {
			return fmt.Errorf("%w: what is stored at the name is no note of a holder: %q", coordinator.ErrRefused, r.Value)
		}
		if last.Held && last.Token == own.Token { // written by an earlier attempt, whose reply was lost
			a.noted = r.Version
			return nil
		}
		if last.Held {
			left, err := a.left(ctx, r.Version, min(time.Duration(last.Delay)*time.Millisecond, MaxLockDelay))
			switch {
			case err != nil:
				return err
			case left > 0 && a.Try:
				return &DelayError{Op: a.Op, Name: a.queue.name, Delay: left}
			case left > 0:
				if err := a.sleep(ctx, left); err != nil {
					return err
				}
				continue // somebody may have written meanwhile
			}
		}
		a.noted, err = a.session.SetRecord(ctx, a.queue.id, own.encode(), r.Version)
		switch {
		case err == nil:
			return nil
		case !rewrite(ctx, err):
			return ended(ctx, err)
		}
	}
}

// vacancy is when an attempt that stood first in the queue has seen the note of one
// who was lost. As long as the note has that version, nobody has held since; so
// attempts that end too soon add up.
type vacancy struct {
	mu    sync.Mutex
	known driver.Version
	since time.Time
}

// left is how much is left of a lock-delay. That the contender stands first in
// queue after the note was read says that whoever left the note is lost: without
// that look it might be a holder of now, and this contender one of the past.
func (a *attempt) left(ctx context.Context, known driver.Version, delay time.Duration) (time.Duration, error) {
	view, err := a.session.Ahead(ctx, a.queue.id, a.joined.Place)
	if err != nil {
		return 0, err
	}
	if len(view.Ahead) > 0 { // it cannot be, and would be no reason to hold
		return delay, nil
	}
	v := &a.queue.vacancy
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known != known {
		v.known, v.since = known, time.Now()
	}
	return delay - time.Since(v.since), nil
}

// sleep waits out a lock-delay.
func (a *attempt) sleep(ctx context.Context, d time.Duration) error {
	a.queue.client.Log().Info("baton: the last holder was lost; waiting for the lock-delay", "queue", a.queue.id, "token", a.joined.Token, "delay", d)
	if !a.waited {
		a.wakes()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-a.session.Context().Done():
		return context.Cause(a.session.Context())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takeBack writes that the grant was released. If that fails, whoever is next
// waits, as after a loss.
func (g *grant) takeBack(ctx context.Context) {
	if g.noted == 0 {
		return
	}
	if _, err := g.session.SetRecord(ctx, g.queue.id, note{Token: g.token}.encode(), g.noted); err != nil && !errors.Is(err, coordinator.ErrStale) {
		g.queue.client.Log().Warn("baton: cannot write that the hold was released; the next holder waits for the lock-delay",
			"queue", g.queue.id, "token", g.token, "error", err)
	}
}
