package examples_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/child"
)

// patience is for what is waited for.
const patience = 30 * time.Second

// process is an example that runs. What it prints is in a file.
type process struct {
	*child.Process
	out  string
	addr string // where it answers probes, if it does
}

// start starts a program. It is killed at the end of the test.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	p := &process{out: out.Name()}
	if p.Process, err = child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// awaitOutput waits until the process has printed what fits a pattern, and
// returns what its first group found.
func (p *process) awaitOutput(t *testing.T, pattern string) string {
	t.Helper()
	expr := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		running := p.Running() // if not, all that it says is there
		text, err := os.ReadFile(p.out)
		if m := expr.FindSubmatch(text); m != nil {
			return string(m[1])
		}
		if err != nil || !running || time.Now().After(deadline) {
			t.Fatalf("it does not say %q: %v\n%s", pattern, err, text)
		}
	}
}

// status is what it answers to a probe, 0 if nothing.
func (p *process) status(path string) int {
	resp, err := http.Get("http://" + p.addr + path)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func (p *process) await(t *testing.T, path string, want int) {
	t.Helper()
	for deadline := time.Now().Add(patience); p.status(path) != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s answers %d, want %d", path, p.status(path), want)
		}
	}
}
