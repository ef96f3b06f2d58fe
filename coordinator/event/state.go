package event

import "fmt"

// State is what a client knows of its session.
type State int

// The states of a session. StateLost is final.
const (
	StateConnected State = iota + 1 // renewals are acknowledged
	StateSuspended                  // none was for a quarter of the TTL; holds last until the deadline
	StateLost                       // the service, the clock or Close ended it
)

func (s State) String() string {
	switch s {
	case StateConnected:
		return "connected"
	case StateSuspended:
		return "suspended"
	case StateLost:
		return "lost"
	}
	return fmt.Sprintf("State(%d)", int(s))
}
