//go:build unix && !solaris && !illumos && !aix

package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// forwarded are the signals that are passed on to the command.
var forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
}

// listen has signals sent to a channel. One that is ignored stays so, for the
// command as well: nohup means it.
func listen() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 16)
	signal.Notify(c, slices.DeleteFunc(slices.Clone(forwarded), signal.Ignored)...)
	return c, func() { signal.Stop(c) }
}

// signalError is the cause of a context that a signal has ended.
type signalError struct{ number int }

func (e *signalError) Error() string { return fmt.Sprintf("signal: %v", syscall.Signal(e.number)) }

// untilSignal ends a context when a signal comes that asks to end: there is no
// command yet that it could be meant for.
func untilSignal(ctx context.Context, signals <-chan os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() { // stop waits for it
		defer close(done)
		for {
			select {
			case s := <-signals:
				if slices.Contains(forwarded[:4], s) {
					cancel(&signalError{int(s.(syscall.Signal))})
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

const guarding = `
The command has a process group of its own. If baton itself is killed, or stopped until after the deadline, a
small process beside it kills the group. What the command leaves running when it ends is ended as well, before
the hold is given back; start with setsid what shall live on. --on-lost=run does none of this.
`
