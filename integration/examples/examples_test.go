// Package examples_test runs the examples, as programs, on real servers.
package examples_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/baton-go/baton/integration/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// each runs a test against both services, in its own namespace.
func each(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	for _, c := range []struct {
		name, scheme string
		endpoints    func(testing.TB) []string
	}{
		{"etcd", "etcd", func(t testing.TB) []string { return servers.Etcd(t).Endpoints() }},
		{"zookeeper", "zk", func(t testing.TB) []string { return servers.ZooKeeper(t).Endpoints() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			test(t, fmt.Sprintf("%s://%s/%s", c.scheme, strings.Join(c.endpoints(t), ","), servers.Name(t)))
		})
	}
}

// build compiles examples into a directory.
func build(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, name := range names {
		args = append(args, "./examples/"+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// The examples behave as their comments say. Their last line has counts; groups
// of the pattern must be equal.
func TestExamplesRunOnRealServices(t *testing.T) {
	programs := build(t, "cache", "consumers", "cron", "fencing", "limiter", "orders", "quickstart")
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"cache", `serves the entry of token`, []string{"-for=2s"}},
		{"cache", `serves the entry of token`, []string{"-for=2s", "-stale=0"}},
		{"consumers", `60 files done by 4 replicas`, nil},
		{"cron", `the job was begun (\d+) times and done (\d+) times`, []string{"-every=500ms", "-for=3s"}},
		{"fencing", `the ledger refuses it: fence: stale token`, nil},
		{"limiter", `40 calls, at most (3) at a time of (3) allowed`, nil},
		{"orders", `6 orders made 18 moves`, nil},
		{"quickstart", `worker 3 has turn 3`, nil},
	} {
		t.Run(strings.Join(append([]string{c.name}, c.args...), " "), func(t *testing.T) {
			each(t, func(t *testing.T, url string) {
				args := append(c.args, "-url="+url)
				out, err := exec.CommandContext(t.Context(), filepath.Join(programs, c.name), args...).CombinedOutput()
				found := regexp.MustCompile(c.want).FindStringSubmatch(string(out))
				if err != nil || found == nil {
					t.Fatalf("%v; want %q in\n%s", err, c.want, out)
				}
				if numbers := slices.Compact(found[1:]); len(numbers) > 1 {
					t.Errorf("%v\n%s", numbers, out)
				}
			})
		})
	}
}

// Its two systems are on two services.
func TestNightlyJobLocksTwoServices(t *testing.T) {
	program := filepath.Join(build(t, "nightly"), "nightly")
	shop := fmt.Sprintf("etcd://%s/%s", strings.Join(servers.Etcd(t).Endpoints(), ","), servers.Name(t))
	warehouse := fmt.Sprintf("zk://%s/%s", strings.Join(servers.ZooKeeper(t).Endpoints(), ","), servers.Name(t))
	out, err := exec.CommandContext(t.Context(), program, "-shop="+shop, "-warehouse="+warehouse).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`shop: (\d+) items sold, (\d+) in the ledger`, `warehouse: (\d+) items delivered, (\d+) in the ledger`,
		`after 3 nights: (\d+) items booked in the shop, (\d+) in the warehouse`,
	} {
		if found := regexp.MustCompile(want).FindStringSubmatch(string(out)); found == nil || found[1] != found[2] || found[1] == "0" {
			t.Errorf("want equal numbers in %q:\n%s", want, out)
		}
	}
}
