package recipes

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// MaxPayload is the size of the largest payload, in bytes.
const MaxPayload = 4096

// Contender is one entry of a queue, as listings show it.
type Contender struct {
	Identity string            // who: the client's identity, or the recipe's
	Since    time.Time         // when it joined, by its own wall clock; zero if unknown
	Token    coordinator.Token // the fencing token it has or will have
	Session  string            // the session it belongs to
	ID       string            // its own; empty for an entry that Baton did not write
	Key      string            // its entry at the service
	Mode     string            // the recipe's mark
	Payload  []byte            // what it chose to show
	Holding  bool              // admitted, by the rule and the list as it was read
	Stray    string            // unless empty: no session owns it, and how to remove it
}

// info is what a contender writes into its entry, as JSON: people read it with
// the service's own tools, and other versions of Baton ignore fields they do
// not know.
type info struct {
	Identity string    `json:"identity"`
	Since    time.Time `json:"since"`
	Payload  []byte    `json:"payload,omitempty"`
}

// encode is what an entry of the queue shows. On a queue that is shared with
// other clients it is what they would show.
func (l *Queue) encode(i info) ([]byte, error) {
	if l.shared == nil {
		b, _ := json.Marshal(i) // strings, bytes and the present time always can be
		return b, nil
	}
	b, err := l.shared.SharedValue(l.kind, i.Identity, i.Payload)
	if err != nil {
		return nil, fmt.Errorf("baton: %s %q: %w", l.kind, l.name, err)
	}
	return b, nil
}

// contender turns an entry into what listings show. A value that Baton did not
// write leaves identity and time empty, and is itself shown as the payload.
func (l *Queue) contender(e driver.Entry) Contender {
	c := Contender{Token: e.Token, Session: e.Session, ID: e.ID, Key: e.Key, Mode: e.Mode,
		Stray: e.Stray}
	var i info
	if l.shared != nil || json.Unmarshal(e.Value, &i) != nil || i.Identity == "" {
		c.Payload = e.Value
		return c
	}
	c.Identity, c.Since, c.Payload = i.Identity, i.Since, i.Payload
	return c
}

// TakenError says why a Try call did not get the name: who has it, or for how
// long it is kept free after a loss. It is a coordinator.ErrTaken.
type TakenError struct {
	Op, Name string
	// Holder was the first in the queue when the call had failed. Its Identity
	// is empty when the queue was empty again by then, or could not be read.
	Holder Contender
	// Delay is for how long at most the name stays free because its last holder
	// was lost: see WithLockDelay. Then nobody holds.
	Delay time.Duration
}

func (e *TakenError) Error() string {
	s := fmt.Sprintf("baton: %s %q: %v", e.Op, e.Name, coordinator.ErrTaken)
	if e.Delay > 0 {
		s += fmt.Sprintf(": the last holder was lost, and the name rests for up to %v", e.Delay)
	}
	switch h := e.Holder; {
	case h.Stray != "":
		s += ": " + h.Stray
	case h.Identity != "":
		since := h.Since.Format(time.RFC3339)
		s += fmt.Sprintf(" by %s since %s (token %d)", h.Identity, since, h.Token)
	}
	return s
}

// Unwrap returns [coordinator.ErrTaken].
func (e *TakenError) Unwrap() error { return coordinator.ErrTaken }
