package sql_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/baton-go/baton/integration/internal/batonbin"
)

// TestCommandWorksOnADatabase: from an empty database to a lock; what the
// driver lacks is refused in words that say so.
func TestCommandWorksOnADatabase(t *testing.T) {
	t.Parallel()
	program := batonbin.Path(t) // builds it
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			db := k.empty(t, k.shared(t))
			url := db.URL(db.Addr())
			baton := func(code int, says string, args ...string) {
				t.Helper()
				cmd := exec.CommandContext(soon(t), program, args...)
				cmd.Env = append(os.Environ(), "BATON_URL="+url)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				err := cmd.Run()
				if cmd.ProcessState.ExitCode() != code || !strings.Contains(out.String(), says) {
					t.Errorf("baton %q: %v: %s\nwant code %d and %q", args, err, out.String(), code, says)
				}
			}
			baton(125, "baton migrate creates Baton's tables", "lock", "job", "--", "true")
			baton(0, "created: Baton's tables in "+string(k.dialect), "migrate")
			baton(0, "nothing to do", "migrate", url)
			baton(0, "token 1.", "lock", "job", "--", "sh", "-c", "echo token $BATON_TOKEN.")
			baton(0, "1 holding, 0 waiting", "lock", "job", "--", program, "inspect", "job")
			baton(0, "holds:", "lock", "job", "--", "sh", "-c", program+` check "$BATON_SEQUENCER"`)
			// With a TTL for which no machine is too slow.
			patient := url + "?ttl=60s"
			if strings.Contains(url, "?") {
				patient = url + "&ttl=60s"
			}
			baton(0, "ok       acquire and release", "doctor", "--url", patient)
			baton(2, "queues cannot be listed on this service", "list")
			baton(2, "the entry of another session cannot be removed on this service",
				"lock", "job", "--", program, "break", "job", "--token", "4")
		})
	}
}
