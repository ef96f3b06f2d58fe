package driver

import "fmt"

// OpError is what failed calls of Baton return: the operation, the name it was
// about, and why. Drivers return bare errors, which the engine puts into one.
type OpError struct {
	Op   string // "lock", "unlock", "session", …
	Name string // the recipe's name or the service
	Err  error  // one of Baton's errors, with the service's own error behind it

	// Maybe is true when the call may have changed the service nevertheless. What it
	// changed is undone (a join) or finished (a release) in the background.
	Maybe bool
}

func (e *OpError) Error() string {
	s := fmt.Sprintf("baton: %s %q: %v", e.Op, e.Name, e.Err)
	if e.Maybe {
		s += " (may have been applied)"
	}
	return s
}

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }
