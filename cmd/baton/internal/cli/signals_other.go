//go:build !unix || solaris || illumos || aix

package cli

import (
	"context"
	"os"
	"os/signal"
)

// listen has the one signal that there is sent to a channel.
func listen() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	return c, func() { signal.Stop(c) }
}

// signalError is the cause of a context that a signal has ended.
type signalError struct{ number int }

func (e *signalError) Error() string { return "interrupted" }

// untilSignal ends a context when the user interrupts.
func untilSignal(ctx context.Context, signals <-chan os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() { // stop waits for it
		defer close(done)
		select {
		case <-signals:
			cancel(&signalError{2})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

const guarding = `
On this system there are no process groups and no signals: when the hold is lost the command itself is killed at
once, and not what it has started; and it runs on if baton itself is killed.
`
