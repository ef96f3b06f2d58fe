package examples_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/child"
)

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
	var found string
	await.State(t, fmt.Sprintf("output that matches %q", pattern), func() (string, bool) {
		running := p.Running() // if not, the output is complete
		text, err := os.ReadFile(p.out)
		m := expr.FindSubmatch(text)
		if m != nil {
			found = string(m[1])
		} else if err != nil || !running {
			t.Fatalf("the output does not match %q: %v\n%s", pattern, err, text)
		}
		return string(text), m != nil
	})
	return found
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
	await.State(t, fmt.Sprintf("%d of %s", want, path), func() (string, bool) {
		got := p.status(path)
		return strconv.Itoa(got), got == want
	})
}
