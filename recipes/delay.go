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

// note is the record of a queue with a lock-delay. It is about the last holder.
type note struct {
	Token driver.Token `json:"token"`
	Held  bool         `json:"held"`     // it has not released
	Delay int64        `json:"delay_ms"` // how long the next contender waits if it is lost
}

func (n note) encode() []byte {
	b, _ := json.Marshal(n) // never fails for numbers
	return b
}

// lockDelay waits if the last holder was lost, and writes its own note. If the
// contender dies meanwhile, the next one waits as long.
func (a *attempt) lockDelay(ctx context.Context) error {
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
			return fmt.Errorf("%w: the record at the name is not a note of a holder: %q",
				coordinator.ErrRefused, r.Value)
		}
		// written by an earlier attempt, whose reply was lost
		if last.Held && last.Token == own.Token {
			a.noted = r.Version
			return nil
		}
		if last.Held {
			delay := min(time.Duration(last.Delay)*time.Millisecond, MaxLockDelay)
			left, err := a.left(ctx, r.Version, delay)
			switch {
			case err != nil:
				return err
			case left > 0 && a.Try:
				return &TakenError{Op: a.Op, Name: a.queue.name, Delay: left}
			case left > 0:
				if err := a.sleep(ctx, left); err != nil {
					return err
				}
				continue // another client may have written meanwhile
			}
		}
		a.noted, err = a.session.SetRecord(ctx, a.queue.id, own.encode(), r.Version)
		switch {
		case err == nil:
			return nil
		case !Overtaken(ctx, err):
			return ended(ctx, err)
		}
	}
}

// vacancy is when an attempt, as the first in the queue, has seen the note of a
// lost holder. While the note has that version, no contender has held since, so
// the waits of attempts that end too early add up.
type vacancy struct {
	mu    sync.Mutex
	known driver.Version
	since time.Time
}

// left returns the rest of a lock-delay. The contender is first in the queue
// after it has read the note, so the note is that of a lost holder.
func (a *attempt) left(
	ctx context.Context, known driver.Version, delay time.Duration,
) (time.Duration, error) {
	view, err := a.session.Ahead(ctx, a.queue.id, a.joined.Place)
	if err != nil {
		return 0, err
	}
	if len(view.Ahead) > 0 { // cannot happen; never hold in this case
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

func (a *attempt) sleep(ctx context.Context, d time.Duration) error {
	a.queue.client.Log().Info("baton: the last holder was lost; waiting for the lock-delay",
		"queue", a.queue.id, "token", a.joined.Token, "delay", d)
	if !a.waited {
		a.wake()
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

// clearNote writes that the grant was released. If that fails, the next
// contender waits, as after a loss.
func (g *grant) clearNote(ctx context.Context) {
	if g.noted == 0 {
		return
	}
	_, err := g.session.SetRecord(ctx, g.queue.id, note{Token: g.token}.encode(), g.noted)
	if err != nil && !errors.Is(err, coordinator.ErrStale) {
		g.queue.client.Log().Warn("baton: cannot write that the hold was released; the next holder waits for the lock-delay",
			"queue", g.queue.id, "token", g.token, "error", err)
	}
}
