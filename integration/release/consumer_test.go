package release_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const library = "github.com/baton-go/baton"

// consumer is a program of a user: a module with one file.
type consumer struct{ dir string }

// newConsumer makes a module that imports packages, and tidies it.
func newConsumer(t *testing.T, requires string, packages ...string) consumer {
	t.Helper()
	source, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	var main strings.Builder
	main.WriteString("package main\n\n")
	for _, p := range packages {
		fmt.Fprintf(&main, "import _ %q\n", p)
	}
	main.WriteString("\nfunc main() {}\n")
	c := consumer{t.TempDir()}
	for name, text := range map[string]string{
		"go.mod":  fmt.Sprintf("module example.com/service\n\ngo 1.26.0\n\nrequire %s\n\nreplace %s => %s\n", requires, library, source),
		"main.go": main.String(),
	} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.goCommand(t, "mod", "tidy")
	return c
}

func (c consumer) goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %q: %v\n%s", args, err, errs.String())
	}
	return string(out)
}

// modules returns the modules that the consumer's go.mod requires.
func (c consumer) modules(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	out := c.goCommand(t, "mod", "edit", "-print")
	for line := range strings.Lines(out) {
		if f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require ")); len(f) >= 2 && strings.HasPrefix(f[1], "v") && strings.Contains(f[0], "/") {
			all[f[0]] = true
		}
	}
	if len(all) == 0 {
		t.Fatalf("no requirements in\n%s", out)
	}
	return all
}

// packagesWith returns the packages in the program whose paths contain a word.
func (c consumer) packagesWith(t *testing.T, words ...string) (found []string) {
	t.Helper()
	for path := range strings.FieldsSeq(c.goCommand(t, "list", "-deps", ".")) {
		for _, w := range words {
			if strings.Contains(path, w) {
				found = append(found, path)
			}
		}
	}
	return found
}

// TestServicesCompileOneDriver: a service on etcd compiles nothing of
// ZooKeeper, and the reverse, and nothing of the command, the observers and the
// drivers for databases and Redis. Its go.mod requires no more than the
// service's own client does, plus Baton and backoff.
func TestServicesCompileOneDriver(t *testing.T) {
	const unreleased = library + " v0.0.0-00010101000000-000000000000"
	observers := []string{"prometheus", "opentelemetry", "cobra", "jackc", "go-sql-driver", "go-redis"}
	recipes := []string{library + "/coordinator", library + "/mutex", library + "/rwlock", library + "/semaphore", library + "/election", library + "/recipes/multilock"}
	for _, c := range []struct {
		driver, client, requires string
		none                     []string
	}{
		{"etcd", "go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/client/v3", []string{"zookeeper"}},
		{"zookeeper", "github.com/go-zookeeper/zk", "github.com/go-zookeeper/zk", []string{"etcd", "google.golang.org", "go.uber.org"}},
		{"memory", "", "", []string{"zookeeper", "etcd", "google.golang.org", "go.uber.org"}},
	} {
		t.Run(c.driver, func(t *testing.T) {
			service := newConsumer(t, unreleased, append(recipes, library+"/coordinator/"+c.driver)...)
			if found := service.packagesWith(t, append(c.none, observers...)...); len(found) > 0 {
				t.Errorf("a service on %s compiles %q", c.driver, found)
			}
			if found := service.packagesWith(t, library+"/coordinator/"+c.driver); len(found) == 0 {
				t.Error("the service does not compile its driver")
			}
			allowed := map[string]bool{library: true, "github.com/cenkalti/backoff/v4": true}
			if c.client != "" {
				version := newConsumer(t, unreleased, library+"/coordinator").goCommand(t, "list", "-m", "-f", "{{.Version}}", c.requires)
				for m := range newConsumer(t, c.requires+" "+strings.TrimSpace(version), c.client).modules(t) {
					allowed[m] = true
				}
			}
			for m := range service.modules(t) {
				if !allowed[m] {
					t.Errorf("the go.mod of a service on %s requires %s, which its client does not", c.driver, m)
				}
			}
			t.Logf("a service on %s requires %d modules", c.driver, len(service.modules(t)))
		})
	}
}
