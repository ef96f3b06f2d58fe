// Package batonbin builds the command baton for tests that run it.
package batonbin

import (
	"errors"
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
	source, err := sources()
	if err != nil {
		return "", err
	}
	// `make clean` deletes it.
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

// ErrNoHistory means that the sources are not a clone, as an unpacked archive.
var ErrNoHistory = errors.New("batonbin: no git repository: earlier versions cannot be built")

// Earlier returns the path of the program built from an earlier version, which
// it names: BATON_EARLIER, a commit or tag, or else what the next release is
// compared with (.ci/base), which before the first release is the last commit.
func Earlier(t testing.TB) (path, version string, err error) {
	t.Helper()
	source, err := sources()
	if err != nil {
		t.Fatalf("batonbin: %v", err)
	}
	if exec.Command("git", "-C", source, "rev-parse", "--git-dir").Run() != nil {
		return "", "", ErrNoHistory
	}
	version = os.Getenv("BATON_EARLIER")
	if version == "" {
		out, err := exec.Command(filepath.Join(source, ".ci", "base")).Output()
		if err != nil {
			t.Fatalf("batonbin: .ci/base: %v", err)
		}
		version = strings.TrimSpace(string(out))
	}
	dir := t.TempDir()
	const script = `git -C "$1" archive "$3" | tar -x -C "$2" && cd "$2/cmd/baton" &&
		go mod edit -replace "$4=$2" -replace "$4/coordinator/redis=$2/coordinator/redis" \
			-replace "$4/coordinator/sql=$2/coordinator/sql" && go build -buildvcs=false -o "$2/baton-earlier" .`
	build := exec.Command("bash", "-o", "pipefail", "-c", script, "bash", source, dir, version, module)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("batonbin: building %s: %v\n%s", version, err, out)
	}
	return filepath.Join(dir, "baton-earlier"), version, nil
}

// sources returns the root of the repository.
func sources() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("where is %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

const module = "github.com/baton-go/baton"
