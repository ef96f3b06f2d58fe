package recipes

import (
	"context"
	"slices"
	"unicode/utf8"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// This file stores with the entry of a contender what it holds while it waits:
// the holds that its context carries. See deadlock.go for what that is good
// for. The entry has it from the join on, so it costs no request, and a
// contender whose context carries no hold stores nothing.

// Bounds of what an entry says about its outer holds: some 100 bytes each, and
// less than 20 KiB for eight of the longest names.
const (
	mostUnder   = 8
	mostService = 255 // bytes of the name of another service
)

// Waits says for which entries ahead a contender waits. It is what others can
// rely on: each of those entries must leave before the contender is admitted,
// and the caller does nothing else meanwhile.
type Waits uint8

// What a contender waits for. Its zero value promises nothing: one that counts
// permits, or that may go on without the name.
const (
	WaitsForAll    Waits = iota + 1 // exclusive: the first in the queue holds
	WaitsForOthers                  // the rule is Shared: those of other modes
)

var waitsNames = [...]string{WaitsForAll: "all", WaitsForOthers: "others"}

// MarshalText implements encoding.TextMarshaler.
func (w Waits) MarshalText() ([]byte, error) { return []byte(waitsNames[w]), nil }

// UnmarshalText implements encoding.TextUnmarshaler. Unknown words, of later
// versions, promise nothing.
func (w *Waits) UnmarshalText(text []byte) error {
	*w = Waits(max(0, slices.Index(waitsNames[:], string(text))))
	return nil
}

// OuterHold is a hold with whose context a contender was called.
type OuterHold struct {
	Queue driver.Queue      `json:"queue"` // the recipe's kind and the name
	ID    string            `json:"id"`    // of its entry
	Token coordinator.Token `json:"token"`
	// Service names the service, as the contender's URL does, if the hold is of
	// another client than the contender.
	Service string `json:"service,omitempty"`
}

// outerInfo is what an entry says about the holds under which it was made.
type outerInfo struct {
	Under   []OuterHold `json:"under"`              // the innermost first
	LeftOut int         `json:"left_out,omitempty"` // more of them than fit
	Waits   Waits       `json:"waits,omitempty"`
	Yields  bool        `json:"yields,omitempty"` // WithDeadlockError

	sessions []*engine.Session // of Under, in this process
}

// outerHolds returns what the entry of a contender called with ctx says of its
// outer holds, or nil if ctx carries no hold. Then it allocates nothing.
func (q *Queue) outerHolds(ctx context.Context, waits Waits) *outerInfo {
	h := engine.HolderOf(ctx)
	if h == nil || q.foreign != nil { // the entry has another format
		return nil
	}
	// In a function of its own, whose closure would be allocated for each lock.
	return q.outerHoldsIn(h, waits)
}

func (q *Queue) outerHoldsIn(h engine.Holder, waits Waits) *outerInfo {
	n := &outerInfo{Waits: waits, Yields: q.yields && waits != 0}
	for ; h != nil; h = engine.HolderOf(h.Beyond()) {
		h.EachHeld(func(held engine.Held) { n.add(q, held) })
	}
	if len(n.Under) == 0 { // they are over
		return nil
	}
	return n
}

// add adds a hold, once: a re-entry is in the context again.
func (n *outerInfo) add(queue *Queue, held engine.Held) {
	o := OuterHold{Queue: held.Queue, ID: held.ID, Token: held.Token}
	for i, known := range n.Under {
		if known.ID == o.ID && known.Queue == o.Queue && n.sessions[i] == held.Session {
			return
		}
	}
	if len(n.Under) == mostUnder {
		n.LeftOut++
		return
	}
	if held.Session.Client() != queue.client {
		o.Service = shortened(held.Session.Client().String(), mostService)
	}
	n.Under, n.sessions = append(n.Under, o), append(n.sessions, held.Session)
}

// shortened returns s with at most so many bytes, cut between characters.
func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// checked returns what an entry of anyone says, without what Baton would not
// have written.
func (n *outerInfo) checked() *outerInfo {
	if n == nil {
		return nil
	}
	n.Under = slices.DeleteFunc(n.Under, func(o OuterHold) bool {
		_, _, ok := o.Queue.Split()
		return !ok || o.ID == "" || o.Token <= 0 || len(o.Service) > mostService
	})
	n.Under = n.Under[:min(len(n.Under), mostUnder)]
	n.LeftOut = max(0, n.LeftOut)
	return n
}
