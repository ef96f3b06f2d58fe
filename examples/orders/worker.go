package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/examples/internal/fleet"
	"github.com/baton-go/baton/examples/internal/records"
	"github.com/baton-go/baton/mutex"
)

// worker is one of the many that move orders.
type worker struct {
	*fleet.Replica
	config
	book  records.Store
	moves int
}

// serve goes through the orders again and again, until all are shipped or ctx ends.
func (w *worker) serve(ctx context.Context) error {
	locks := make([]*mutex.Mutex, w.orders)
	for i := range locks {
		var err error
		if locks[i], err = mutex.New(w.Client, "orders/"+key(i+1)); err != nil {
			return err
		}
	}
	for open := true; open && ctx.Err() == nil; {
		open = false
		for i, lock := range locks {
			o, err := records.Read[order](w.book, key(i+1)) // only to save a request: what is shipped stays shipped
			if err != nil {
				return err
			}
			if o.state() == shippedState {
				continue
			}
			open = true
			var late *fence.StaleError
			switch err := w.try(ctx, lock, i+1); {
			case err == nil:
			case errors.Is(err, coordinator.ErrTaken): // another one is at it
			case errors.As(err, &late):
				w.Say("comes late to %s: %v", key(i+1), late)
			case fleet.Passing(err):
				w.Say("goes on after: %v", err)
			default:
				return err
			}
		}
		fleet.Pause(ctx, w.work/4)
	}
	return nil
}

// try makes one move of an order, if nobody else is at it.
func (w *worker) try(ctx context.Context, m *mutex.Mutex, n int) error {
	lock, err := m.TryLock(ctx)
	if err != nil {
		return err
	}
	err = w.move(lock.Context(), lock, n)
	return errors.Join(err, lock.Unlock(ctx))
}

// move makes one move. ctx ends when the lock is lost.
func (w *worker) move(ctx context.Context, lock *mutex.Lock, n int) error {
	seq, err := lock.Sequencer(ctx)
	if err != nil {
		return err
	}
	o, err := look(w.book, n, seq)
	if err != nil || o.state() == shippedState {
		return err
	}
	m := move{From: o.state(), To: o.next(n), Worker: w.Name}
	if err := w.do(ctx, n, len(o.Moves)+1, m); err != nil {
		return err
	}
	if w.moves++; w.moves == w.stop && w.Stop() {
		w.Say("... is stopped before it writes that %s is %s", key(n), m.To)
		time.Sleep(3 * coordinator.MinTTL) // and not a wait for ctx: who is stopped looks at nothing
		w.Say("... goes on")
		w.Continue()
	}
	if err := advance(w.book, n, seq, m); err != nil {
		return err
	}
	w.Say("%s: %s -> %s (token %d)", key(n), m.From, m.To, seq.Token)
	return nil
}

// do is the work of a move, which is the order's first, second, …: as its state
// may come again, that number is in the key, by which whoever does the same
// move again, after a crash or a pause, is known.
func (w *worker) do(ctx context.Context, n, number int, m move) error {
	if m.To == paidState && m.From == newState {
		if err := pay(w.book, fmt.Sprintf("%s/%d", key(n), number)); err != nil {
			return err
		}
	}
	if !fleet.Pause(ctx, w.work) {
		return context.Cause(ctx)
	}
	return nil
}
