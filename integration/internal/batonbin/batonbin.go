// Package batonbin builds the command baton for tests that run it.
package batonbin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Path returns the path of the program, built from the sources beside this
// module. The first call in a process builds it, which is quick if Go's cache
// has its packages.
func Path(t testing.TB) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatalf("batonbin: %v", err)
	}
	return path
}

var program = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("where is %s: %w", module, err)
	}
	// `make clean` deletes it.
	source := strings.TrimSpace(string(out))
	dir := filepath.Join(source, "build")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	// The tests of several packages build concurrently. A rename does not
	// disturb a process that runs the old file.
	partial, err := os.MkdirTemp(dir, "partial-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(partial)
	built := filepath.Join(partial, "baton")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", built, ".")
	build.Dir = filepath.Join(source, "cmd", "baton") // a module of its own
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	path := filepath.Join(dir, "baton-under-test")
	return path, os.Rename(built, path)
})

const module = "github.com/baton-go/baton"
