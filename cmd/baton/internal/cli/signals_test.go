package cli

import (
	"os"
	"syscall"
	"testing"
)

// The command starts when the wait has ended, and gets the signals that follow.
func TestSignalAtTheEndOfTheWaitIsNotLost(t *testing.T) {
	for range 2000 {
		signals := make(chan os.Signal, 1)
		ctx, stop := untilSignal(t.Context(), signals)
		signals <- syscall.SIGTERM
		stop()
		stop() // is allowed
		if got := signalOf(ctx); (got == nil) == (len(signals) == 0) {
			t.Fatalf("the cause is %v, and %d signals are left", got, len(signals))
		}
	}
}
