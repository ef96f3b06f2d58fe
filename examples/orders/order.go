package main

import (
	"fmt"
	"slices"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/examples/internal/records"
)

// state is where an order is.
type state string

const (
	newState     state = "new"
	paidState    state = "paid"
	packedState  state = "packed"
	shippedState state = "shipped" // nothing follows
)

// allowed are the moves. One of them goes back.
var allowed = map[state][]state{
	newState:    {paidState},
	paidState:   {packedState},
	packedState: {shippedState, paidState},
}

// order is a record: a row of a table, in a real service.
type order struct {
	records.Guard
	Moves []move
}

// move is one transition.
type move struct {
	From, To state
	Worker   string
	Token    coordinator.Token
}

func key(n int) string { return fmt.Sprintf("order-%d", n) }

// state is that of the last move; an order that nobody has touched is new.
func (o order) state() state {
	if len(o.Moves) == 0 {
		return newState
	}
	return o.Moves[len(o.Moves)-1].To
}

// next is where an order should go: every third one has to be packed twice.
func (o order) next(n int) state {
	options := allowed[o.state()]
	if len(options) == 2 && n%3 == 0 && len(o.Moves) < 3 {
		return options[1]
	}
	return options[0]
}

// look reads an order, for a worker that has its lock, and keeps out all that had it before.
func look(book records.Store, n int, seq fence.Sequencer) (found order, err error) {
	err = records.Update(book, key(n), func(o *order) error {
		found = *o
		return o.Admit(seq)
	})
	return found, err
}

// advance makes a move, unless it is late or the order is elsewhere.
func advance(book records.Store, n int, seq fence.Sequencer, m move) error {
	m.Token = seq.Token
	return records.Update(book, key(n), func(o *order) error {
		if err := o.Admit(seq); err != nil {
			return err
		}
		if now := o.state(); now != m.From || !slices.Contains(allowed[now], m.To) {
			return fmt.Errorf("%s is %s: it does not go from %s to %s", key(n), now, m.From, m.To)
		}
		o.Moves = append(o.Moves, m)
		return nil
	})
}

const paymentsKey = "payments"

// payments are what another company keeps: it knows nothing of our locks.
type payments struct {
	Asked int
	Made  map[string]bool // by idempotency key
}

// pay asks for a payment. Asked twice with one key, it is made once.
func pay(book records.Store, idempotencyKey string) error {
	return records.Update(book, paymentsKey, func(p *payments) error {
		if p.Made == nil {
			p.Made = map[string]bool{}
		}
		p.Asked++
		p.Made[idempotencyKey] = true
		return nil
	})
}
