package integration_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/batonbin"
	"github.com/baton-go/baton/integration/internal/servers"
)

// testdata/newcomer.sh runs on the server that `make serve` starts, and on
// ZooKeeper.
func TestNewcomerScript(t *testing.T) {
	t.Parallel()
	t.Run("etcd", func(t *testing.T) { newcomer(t, serve(t)) })
	t.Run("zookeeper", func(t *testing.T) {
		newcomer(t, "zk://"+strings.Join(servers.ZooKeeper(t).Endpoints(), ",")+"/newcomer")
	})
}

func newcomer(t *testing.T, url string) {
	t.Helper()
	script := exec.CommandContext(await.Context(t), "sh", "testdata/newcomer.sh")
	script.Env = append(os.Environ(), "BATON="+batonbin.Path(t), "BATON_URL="+url)
	// Its children are killed with it if it fails.
	script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	script.Cancel = func() error { return syscall.Kill(-script.Process.Pid, syscall.SIGKILL) }
	script.WaitDelay = time.Second
	out, err := script.CombinedOutput()
	if err != nil {
		_ = syscall.Kill(-script.Process.Pid, syscall.SIGKILL)
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// serve runs `make serve`'s program, and checks at the end of the test that it
// leaves nothing behind.
func serve(t *testing.T) (url string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "serve")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/serve").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data := t.TempDir()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "TMPDIR="+data)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	url, found := strings.CutPrefix(strings.TrimSpace(line), "export BATON_URL=")
	if err != nil || !found {
		_ = cmd.Process.Kill()
		t.Fatalf("serve prints %q, %v", line, err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("serve ended with %v", err)
		}
		if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
			t.Errorf("serve left %v, %v", left, err)
		}
		if c, err := net.Dial("tcp", strings.TrimPrefix(url, "etcd://")); err == nil {
			_ = c.Close()
			t.Error("a process still listens on the port")
		}
	})
	return url
}
