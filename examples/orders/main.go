// Orders has many workers that move orders through a state machine. With a lock
// per order, one worker at a time moves it, and a worker that was paused moves
// nothing.
//
//	go run ./examples/orders                              # no server: three workers in memory
//	go run ./examples/orders -url etcd://127.0.0.1:2379
//	go run ./examples/orders -url zk://127.0.0.1:2181
//
// Workers try the lock: without it they take the next order. The lock saves
// work; the order's record decides. It accepts a move if the token shows that
// no later holder of the lock has accessed the order, and if the order is in
// the state where the move begins. The state alone is not enough, because
// states recur: a packed order may become paid again, as a worker saw it long
// ago.
//
// The effects of a move elsewhere, here a payment, are outside the record, and
// a worker that was paused may repeat them. So each has an idempotency key: the
// order and the number of the move.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/examples/internal/demo"
	"github.com/baton-go/baton/mutex"
)

// state is the state of an order.
type state string

// allowed are the moves from each state. Workers make the first one.
var allowed = map[state][]state{
	"new":     {"paid"},
	"paid":    {"packed"},
	"packed":  {"shipped", "paid"},
	"shipped": nil,
}

// order represents a row in a database, where package sqlfence replaces the
// gate. read and move are one transaction each.
type order struct {
	id    string
	gate  *fence.Gate
	state state
	moves int
}

func newOrder(id string) *order {
	scope := fence.Scope{Kind: "mutex", Name: "orders/" + id}
	return &order{id: id, gate: fence.NewGate(scope), state: "new"}
}

// read returns the state and the number of moves. It also makes the gate refuse
// all earlier holders of the lock.
func (o *order) read(ctx context.Context, seq fence.Sequencer) (at state, moves int, err error) {
	err = o.gate.Do(ctx, seq, func(context.Context) error {
		at, moves = o.state, o.moves
		return nil
	})
	return at, moves, err
}

// move changes the state. The gate refuses a late caller.
func (o *order) move(ctx context.Context, seq fence.Sequencer, from, to state) error {
	return o.gate.Do(ctx, seq, func(context.Context) error {
		if o.state != from || !slices.Contains(allowed[from], to) {
			return fmt.Errorf("%s is %s: no move from %s to %s", o.id, o.state, from, to)
		}
		o.state = to
		o.moves++
		return nil
	})
}

// worker moves orders until all are shipped.
type worker struct {
	orders []*order
	work   func(ctx context.Context, to state, idempotencyKey string) error
	out    *log.Logger
}

func (w worker) run(ctx context.Context, client *coordinator.Client) error {
	open := slices.Clone(w.orders)
	for len(open) > 0 {
		var left []*order
		for _, o := range open {
			shipped, err := w.try(ctx, client, o)
			if !shipped {
				left = append(left, o)
			}
			if ctx.Err() != nil {
				return err
			}
			// ErrTaken: another worker is moving it.
			if err != nil && !errors.Is(err, coordinator.ErrTaken) {
				w.out.Printf("%s continues after: %v", client.Identity(), err)
			}
		}
		open = left
		if err := demo.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// try makes one move if no other worker is moving the order.
func (w worker) try(
	ctx context.Context, client *coordinator.Client, o *order,
) (shipped bool, err error) {
	m, err := mutex.New(client, "orders/"+o.id)
	if err != nil {
		return false, err
	}
	lock, err := m.TryLock(ctx)
	if err != nil {
		return false, err
	}
	shipped, err = w.move(lock, o)
	return shipped, errors.Join(err, lock.Unlock(ctx))
}

func (w worker) move(lock *mutex.Lock, o *order) (shipped bool, err error) {
	ctx := lock.Context() // ends when the lock is lost
	seq, err := lock.Sequencer(ctx)
	if err != nil {
		return false, err
	}
	from, moves, err := o.read(ctx, seq)
	if err != nil || len(allowed[from]) == 0 {
		return err == nil, err
	}
	to := allowed[from][0]
	if err := w.work(ctx, to, fmt.Sprintf("%s/%d", o.id, moves+1)); err != nil {
		return false, err
	}
	if err := o.move(ctx, seq, from, to); err != nil {
		return false, err
	}
	w.out.Printf("%s: %s -> %s (token %d)", o.id, from, to, seq.Token)
	return len(allowed[to]) == 0, nil
}

func main() {
	url := demo.URL()
	count := flag.Int("orders", 6, "how many orders there are")
	demo.Main(func(ctx context.Context, out *log.Logger) error {
		w := worker{out: out, work: func(ctx context.Context, _ state, _ string) error {
			return demo.Sleep(ctx, 100*time.Millisecond)
		}}
		for n := range *count {
			w.orders = append(w.orders, newOrder(fmt.Sprintf("order-%d", n+1)))
		}
		err := demo.Run(ctx, *url, 3, w.run)
		moves := 0
		for _, o := range w.orders {
			moves += o.moves
		}
		out.Printf("%d orders made %d moves", *count, moves)
		return err
	})
}
