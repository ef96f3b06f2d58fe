//go:build unix

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/memory"
)

// systemd stops a service while the loss of the hold ends its command.
func TestSignalDuringALossEndsTheCampaigns(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		// Under nohup this process has inherited that it ignores SIGHUP. Then
		// baton would ignore it, too.
		signal.Notify(make(chan os.Signal, 1), sig)
		dir, service := t.TempDir(), fmt.Sprintf("again-%d", sig)
		stages.Store(service, memory.NewService())
		at := func(file string) string { return filepath.Join(dir, file) }
		shows := func(file, want string) {
			t.Helper()
			for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
				if got, _ := os.ReadFile(at(file)); strings.Contains(string(got), want) {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("%s does not contain %q", file, want)
				}
			}
		}
		env := Env{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "admin://" + service },
			Environ: func() []string { return append(os.Environ(), "DIR="+dir) }}
		ended := make(chan error, 1)
		go func() {
			root := newApp(env).root()
			root.SetArgs([]string{"elect", "--again", "--ttl=10m", "--grace=4m", "name", "--", "sh", "-c", `cd "$DIR"; echo run >>runs
				trap 'echo told >>told' TERM HUP; echo "$BATON_TOKEN" >token; while [ ! -e over ]; do sleep 0.02; done`})
			ended <- root.ExecuteContext(t.Context())
		}()
		shows("token", "\n")
		token, _ := os.ReadFile(at("token"))
		if code := Main(t.Context(), []string{"break", "--kind=election", "name", "--token", strings.TrimSpace(string(token))}, env); code != 0 {
			t.Fatalf("baton break exits with %d", code)
		}
		shows("told", "told\n")
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		shows("told", "told\ntold\n")
		if err := os.WriteFile(at("over"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var exit *exitError
		if err := <-ended; !errors.As(err, &exit) || exit.signal != sig {
			t.Errorf("%v: baton ends with %v", sig, err)
		}
		if runs, _ := os.ReadFile(at("runs")); string(runs) != "run\n" {
			t.Errorf("%v: the command ran %d times", sig, strings.Count(string(runs), "run"))
		}
	}
}
