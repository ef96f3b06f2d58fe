package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/baton-go/baton/cmd/baton/internal/ward"
)

// listen delivers the signals that concern a command to a channel. An ignored
// signal stays ignored, for the command as well, as nohup requires.
func listen() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 16)
	signal.Notify(c, slices.DeleteFunc(slices.Concat(ward.Ending, ward.Others), signal.Ignored)...)
	return c, func() { signal.Stop(c) }
}

// survivePipes catches SIGPIPE and drops it. Otherwise a message to a closed
// standard error would end baton, and with it the command, without a SIGTERM.
// The command has the signal's default action, since a caught signal is not
// inherited.
func survivePipes() (stop func()) {
	if signal.Ignored(syscall.SIGPIPE) {
		return func() {}
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("signal: %v", e.signal) }
func (e *signalError) exit() error {
	return &exitError{code: exitSignal + int(e.signal), signal: e.signal}
}

// signalOf returns the signal that ended a context, or nil.
func signalOf(ctx context.Context) *signalError {
	var sig *signalError
	errors.As(context.Cause(ctx), &sig)
	return sig
}

// untilSignal ends a context at a signal that asks to end. It is for the times
// at which no command runs to receive the signal. After stop a signal either is
// the context's cause or is still in the channel.
func untilSignal(ctx context.Context, signals <-chan os.Signal) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	go func() { // stop waits for it
		defer close(done)
		for {
			select {
			case s := <-signals:
				if slices.Contains(ward.Ending, s) {
					cancel(&signalError{s.(syscall.Signal)})
				}
			case <-over:
				return
			}
		}
	}()
	return ctx, sync.OnceFunc(func() {
		close(over)
		<-done // the context must not end before: the first cause counts
		cancel(nil)
	})
}
