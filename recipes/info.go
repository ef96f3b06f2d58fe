package recipes

import (
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/internal/engine"
)

// MaxPayload is the size of the largest payload, in bytes.
const MaxPayload = 4096

// Contender is an entry of a queue in a listing.
type Contender struct {
	Identity string            // of the client, or from WithIdentity
	Since    time.Time         // when its call began, by its own wall clock; zero if unknown
	Token    coordinator.Token // the fencing token that it has or will have
	Session  string            // the ID of its session
	ID       string            // unique; empty for a foreign entry
	Key      string            // its entry at the service
	Mode     string            // the recipe's mode
	Payload  []byte            // from WithPayload, or the value of a foreign entry
	Holding  bool              // the rule admits it
	// Retains: it may keep its place although nobody works under it: see
	// WithRetain
	Retains bool
	Stray   string // unless empty: no session owns it, and how to remove it
	// Stale: it may be out of date, since the service does not answer. Only
	// observers set it.
	Stale bool

	// Under are the holds that the context carried with which it was called,
	// the innermost first, at most 8. It had them when it joined; each may have
	// been released since.
	Under        []OuterHold
	UnderLeftOut int // how many holds more
}

// info is the value of an entry, as JSON: operators can read it with the
// service's own tools, and other versions of Baton ignore unknown fields.
type info struct {
	Identity string     `json:"identity"`
	Since    time.Time  `json:"since"`
	Payload  []byte     `json:"payload,omitempty"`
	Retains  bool       `json:"retains,omitempty"`
	Nest     *outerInfo `json:"nest,omitempty"`
}

// TakenError is the error of a Try call that would have to wait:
// errors.Is(err, coordinator.ErrTaken) is true.
type TakenError struct {
	Op, Name string
	// Holder was the first in the queue right after the call. Its Identity is
	// empty if the queue was empty again, or could not be read.
	Holder Contender
	// Delay is how much is left of a lock-delay at most: see WithLockDelay.
	// It is 0 if the name is held.
	Delay time.Duration

	alone bool // nobody waits behind Holder
}

func (e *TakenError) Error() string {
	text := fmt.Sprintf("baton: %s %q: %v", e.Op, e.Name, coordinator.ErrTaken)
	if e.Delay > 0 {
		text += fmt.Sprintf(": the last holder was lost; lock-delay of up to %v", e.Delay)
	}
	switch h := e.Holder; {
	case h.Stray != "":
		text += ": " + engine.Printable(h.Stray)
	case h.Identity != "":
		since := h.Since.Format(time.RFC3339)
		text += fmt.Sprintf(" by %s, in the queue since %s (token %d)", engine.Printable(h.Identity), since, h.Token)
		if h.Retains {
			text += ", perhaps idle"
		}
	}
	return text
}

// Unwrap returns [coordinator.ErrTaken].
func (e *TakenError) Unwrap() error { return coordinator.ErrTaken }
