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
	Since    time.Time         // when it joined, by its own wall clock; zero if unknown
	Token    coordinator.Token // the fencing token that it has or will have
	Session  string            // the ID of its session
	ID       string            // unique; empty for a foreign entry
	Key      string            // its entry at the service
	Mode     string            // the recipe's mode
	Payload  []byte            // from WithPayload, or the value of a foreign entry
	Holding  bool              // the rule admits it
	Stray    string            // unless empty: no session owns it, and how to remove it
}

// info is the value of an entry, as JSON: operators can read it with the
// service's own tools, and other versions of Baton ignore unknown fields.
type info struct {
	Identity string    `json:"identity"`
	Since    time.Time `json:"since"`
	Payload  []byte    `json:"payload,omitempty"`
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
}

func (e *TakenError) Error() string {
	s := fmt.Sprintf("baton: %s %q: %v", e.Op, e.Name, coordinator.ErrTaken)
	if e.Delay > 0 {
		s += fmt.Sprintf(": the last holder was lost; lock-delay of up to %v", e.Delay)
	}
	switch h := e.Holder; {
	case h.Stray != "":
		s += ": " + engine.Printable(h.Stray)
	case h.Identity != "":
		since := h.Since.Format(time.RFC3339)
		s += fmt.Sprintf(" by %s, in the queue since %s (token %d)", engine.Printable(h.Identity), since, h.Token)
	}
	return s
}

// Unwrap returns [coordinator.ErrTaken].
func (e *TakenError) Unwrap() error { return coordinator.ErrTaken }
