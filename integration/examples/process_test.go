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

// patience bounds the waits.
const patience = 30 * time.Second

// process is a running example. Its output goes to a file.
type process struct {
	*child.Process
	out  string
	addr string // address for probes, if any
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

// awaitOutput waits until the output matches a pattern, and returns its first
// group.
func (p *process) awaitOutput(t *testing.T, pattern string) string {
	t.Helper()
	expr := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		running := p.Running() // if not, the output is complete
		text, err := os.ReadFile(p.out)
		if m := expr.FindSubmatch(text); m != nil {
			return string(m[1])
		}
		if err != nil || !running || time.Now().After(deadline) {
			t.Fatalf("the output does not match %q: %v\n%s", pattern, err, text)
		}
	}
}

// status returns the status of a probe, 0 without an answer.
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
