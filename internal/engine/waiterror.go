package engine

import (
	"fmt"
	"time"
)

// WaitError is recipes.WaitError.
type WaitError struct {
	Queued time.Duration
	Err    error
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("after %v in the queue: %v", e.Queued.Round(time.Millisecond), e.Err)
}

func (e *WaitError) Unwrap() error { return e.Err }

// bareWait returns the cause that a wait in the queue ended with, or err.
func bareWait(err error) error {
	if said, ok := err.(*Error); ok { //nolint:errorlint // itself, not what a cause wraps
		if wait, ok := said.Err.(*WaitError); ok { //nolint:errorlint // as above
			return wait.Err
		}
	}
	return err
}
