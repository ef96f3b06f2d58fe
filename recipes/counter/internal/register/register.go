// Package register is a number in the record of a queue, which many clients
// change, each change exactly once. Package counter documents its guarantees.
package register

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// Register is the number. It is safe for concurrent use.
type Register struct {
	batch
	queue *recipes.Queue

	// of the call that leads
	writer     string    // identifies the writes of this Register in the record
	wrote      int64     // the number of its latest write; 0 before the first; or none
	queueUntil time.Time // until then, writes go through the queue
}

// New returns the register in the record of a queue.
func New(q *recipes.Queue) *Register { return &Register{queue: q, wrote: none} }

const none = -1 // the next write needs another writer

// State is a state of the register.
type State struct {
	record
	version driver.Version
	bad     error // the record is not a number
}

// Latest returns the state after all writes that any client has finished. The
// error is coordinator.ErrRefused if it is not a number.
func (r *Register) Latest(ctx context.Context) (State, error) {
	s, err := r.read(ctx, true)
	if err == nil {
		err = s.bad
	}
	return s, err
}

// read returns the state, which without latest may be older than writes of
// other clients: a write over it is then refused.
func (r *Register) read(ctx context.Context, latest bool) (State, error) {
	read := r.queue.Record
	if latest {
		read = r.queue.LatestRecord
	}
	stored, err := read(ctx)
	return decode(stored), err
}

// Next waits for another state than the last one. A new session may show an
// older one. The number of its latest write reveals that, as it reveals a
// record that was overwritten: then the latest decides, and also if the last
// state was no record, which has no number.
func (r *Register) Next(ctx context.Context, last State) (State, error) {
	stored, err := r.queue.NextRecord(ctx, last.version)
	if err != nil {
		return last, err
	}
	if s := decode(stored); s.bad == nil && last.version != 0 && s.Writes > last.Writes {
		return s, nil
	}
	return r.Latest(ctx)
}
