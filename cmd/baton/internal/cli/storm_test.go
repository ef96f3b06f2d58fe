//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// TestSignalThatAsksToEndIsNotLostBehindOthers: while the command starts nobody
// receives signals, and the user resizes the terminal.
func TestSignalThatAsksToEndIsNotLostBehindOthers(t *testing.T) {
	// The runtime delivers a signal to all its receivers before the next one.
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, syscall.SIGWINCH, syscall.SIGHUP, syscall.SIGTERM)
	defer signal.Stop(arrived)
	send := func(sig syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		<-arrived
	}
	signals, stop := listen()
	defer stop()
	for range 100 {
		send(syscall.SIGWINCH)
		send(syscall.SIGHUP) // a daemon reads its configuration again
	}
	send(syscall.SIGTERM)
	for {
		select {
		case sig := <-signals:
			if sig == syscall.SIGTERM {
				return
			}
		case <-time.After(10 * time.Second):
			t.Fatal("SIGTERM is lost")
		}
	}
}
