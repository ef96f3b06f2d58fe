package tlsfiles_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/internal/tlsfiles"
	"github.com/baton-go/baton/internal/tlsfiles/tlstest"
)

// TestFileThatHangsHoldsUpNoCall: a pipe without a writer is like a file on a
// server that does not answer. One read waits for it, and no call.
func TestFileThatHangsHoldsUpNoCall(t *testing.T) {
	authority := tlstest.NewAuthority()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, authority.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := tlsfiles.Files{CA: file}.For(&url.URL{Scheme: "s"}, "s")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := source.Config(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v, want a timeout", err)
		}
		cancel()
	}
	stacks := make([]byte, 1<<20)
	if n := strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "tlsfiles.read[...].func1("); n != 1 {
		t.Errorf("%d reads wait for the file, want one", n)
	}
	if err := os.WriteFile(file, authority.PEM, 0o600); err != nil { // the read returns
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file), os.WriteFile(file, authority.PEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Config(t.Context()); err != nil {
		t.Error(err)
	}
}
