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
//
// While nobody receives, for instance while the command starts, several signals
// of one number become one, as in the kernel; each number has a channel of its
// own, so that none is lost because others came before.
func listen() (<-chan os.Signal, func()) {
	c, over := make(chan os.Signal), make(chan struct{})
	var wg sync.WaitGroup
	var stops []func()
	for _, sig := range slices.Concat(ward.Ending, ward.Others) {
		if signal.Ignored(sig) {
			continue
		}
		one := make(chan os.Signal, 1)
		signal.Notify(one, sig)
		stops = append(stops, func() { signal.Stop(one) })
		wg.Go(func() { // stop waits for it
			for {
				select {
				case <-one:
				case <-over:
					return
				}
				select {
				case c <- sig:
				case <-over:
					return
				}
			}
		})
	}
	return c, func() {
		for _, stop := range stops {
			stop()
		}
		close(over)
		wg.Wait()
	}
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
// the context's cause or still comes from the channel.
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
