package redis_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/batonbin"
	"github.com/baton-go/baton/integration/internal/redisserver"
)

// TestCommandWorksOnRedis: what the driver lacks is refused in words that say
// so. go-redis, which logs each failure to connect, does not write to standard
// error.
func TestCommandWorksOnRedis(t *testing.T) {
	t.Parallel()
	program := batonbin.Path(t) // builds it
	baton := func(url string, code int, says string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(await.Context(t), program, args...)
		cmd.Env = append(os.Environ(), "BATON_URL="+url)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		text := out.String()
		if cmd.ProcessState.ExitCode() != code || !strings.Contains(text, says) || strings.Contains(text, ".go:") {
			t.Errorf("baton %q: %v: %s\nwant code %d and %q", args, err, text, code, says)
		}
	}
	url := "redis://" + start(t, redisserver.Options{}).Addr() + "/tests"
	baton(url, 0, "1 holding, 0 waiting", "lock", "job", "--", program, "inspect", "job")
	baton(url+"?ttl=60s", 0, "ok       acquire and release", "doctor") // for which no machine is too slow
	baton(url, 2, "queues cannot be listed on this service", "list")
	baton(url, 2, "needs no tables", "migrate")
	baton("redis://127.0.0.1:1/tests", 125, "connection refused", "lock", "-w", "1", "job", "--", "true")
}
