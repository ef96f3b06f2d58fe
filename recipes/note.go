package recipes

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// This file implements the lock-delay. The record of the queue is a note about
// the last holder:
//
//	{token, held}          token holds, or was lost
//	{token, held, seen}    token was lost; a contender has seen that at that time
//	{token}                token has released, or never held
//
//	grant     the first in the queue reads the note. If another token is held,
//	          that holder was lost: its entry was ahead, and is not. The
//	          contender waits until the delay is over, and writes {own, held}
//	release   {own}, and then the entry leaves. If only the entry leaves, the
//	          holder was lost
//	delay     counts from the moment at which a contender first sees the loss as
//	          the first in the queue, so it is never shorter than from the loss.
//	          A contender that cannot wait so long leaves {token, held, seen}
//
// Contenders that give up add up. Those of one Queue compare the monotonic
// clock: the delay is over exactly d after the first of them. Others, perhaps
// of a process that has just begun on another machine, have only wall clocks in
// common. They rely on seen when it is clockSkew older than d. So the delay is
// over for any contender that asks d + clockSkew after the first one. If the
// clocks of two machines differ by more than clockSkew, the delay may be
// shorter by the excess; it is not longer, since a time in the future is
// replaced.

// clockSkew is by how much the wall clocks of contenders may differ.
const clockSkew = time.Minute

// note is the record of a queue with a lock-delay.
type note struct {
	Token driver.Token `json:"token"`
	Held  bool         `json:"held"`              // it has not released
	Delay int64        `json:"delay_ms"`          // how long the next contender waits if it is lost
	Seen  int64        `json:"seen_ms,omitempty"` // when its loss was first seen, in Unix time
}

func (n note) encode() []byte {
	b, _ := json.Marshal(n) // never fails for numbers
	return b
}

// readNote returns the zero note if there is none.
func readNote(
	ctx context.Context, s *engine.Session, queue driver.Queue,
) (note, driver.Version, error) {
	var last note
	r, err := s.Record(ctx, queue, driver.Any)
	if err == nil && r.Version != 0 && json.Unmarshal(r.Value, &last) != nil {
		err = fmt.Errorf("%w: the record at the name is not a note of a holder: %q",
			coordinator.ErrRefused, r.Value)
	}
	return last, r.Version, err
}

// vacancy is when an attempt of the Queue, as the first in the queue, has seen
// the note of a lost holder. While it is that note, no contender has held
// since, so the waits of attempts that end too early add up.
//
// After a loss of data tokens begin anew, so that another holder may have the
// token: what was written as Seen tells their notes apart.
type vacancy struct {
	mu    sync.Mutex
	lost  driver.Token
	seen  int64 // of the note, once it is known to be in the record; or 0
	since time.Time
}

func (v *vacancy) lasts(last note, now time.Time) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost != last.Token || v.seen != 0 && v.seen != last.Seen {
		v.lost, v.since = last.Token, now
	}
	v.seen = last.Seen
	return now.Sub(v.since)
}

// wrote notes that Seen of the note of a token was written.
func (v *vacancy) wrote(lost driver.Token, seen int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost == lost {
		v.seen = seen
	}
}
