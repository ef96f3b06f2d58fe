// Package examples_test runs the examples, as programs, on real servers.
package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/baton-go/baton/integration/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// each runs a test against both services, on a namespace of its own.
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

// TestExamplesRunOnRealServices as their comments say, and end with what they have found.
func TestExamplesRunOnRealServices(t *testing.T) {
	programs := build(t, "cron", "orders", "consumer", "cache", "limiter", "quickstart")
	for _, c := range []struct {
		name, want string // a pattern
		args       []string
	}{
		{"cron", `(\d{1,2}) periods; the job was begun (\d+) times and done (\d+) times`, []string{"-replicas=3", "-every=500ms", "-for=3s"}},
		{"orders", "6 of 6 orders are shipped, in 22 moves; 6 payments were asked for and 6 made", []string{"-workers=3"}},
		{"consumer", "6 messages of 10 each: the balance is 60; the costly part was done 6 times", []string{"-consumers=3"}},
		{"consumer", "6 messages of 10 each: the balance is 60; ", []string{"-consumers=12", "-lock=false"}},
		{"cache", "a half-written cache was seen 0 times", []string{"-for=2s"}},
		{"cache", "a half-written cache was seen 0 times", []string{"-for=2s", "-stale=1s"}},
		{"limiter", "of 3 allowed", []string{"-replicas=3"}},
		{"quickstart", "worker 3 has turn 3", nil},
	} {
		t.Run(strings.Join(append([]string{c.name}, c.args...), " "), func(t *testing.T) {
			each(t, func(t *testing.T, url string) {
				cmd := exec.CommandContext(t.Context(), filepath.Join(programs, c.name), append(c.args, "-url="+url)...)
				cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
				out, err := cmd.CombinedOutput()
				found := regexp.MustCompile(c.want).FindStringSubmatch(string(out))
				if err != nil || found == nil {
					t.Fatalf("%v; want %q in\n%s", err, c.want, out)
				}
				if numbers := slices.Compact(found[1:]); len(numbers) > 1 { // of the counts that have to be the same
					t.Errorf("%v\n%s", numbers, out)
				}
			})
		})
	}
}

// TestRunThatCrashedIsRunAgain: a replica of cron is killed in the middle of the job, and another one runs it again.
func TestRunThatCrashedIsRunAgain(t *testing.T) {
	program := filepath.Join(build(t, "cron"), "cron")
	each(t, func(t *testing.T, url string) {
		args := []string{"-url=" + url + "?ttl=4s", "-dir=" + t.TempDir(), "-every=24h", "-for=1m", "-work"}
		first := start(t, exec.Command(program, append(args, "1m")...))
		run := first.awaitQueue(t, `(runs nightly of .*) \(token`)
		second := start(t, exec.Command(program, append(args, "10ms")...))
		first.Kill()
		if again := second.awaitQueue(t, `(runs nightly of .*) \(token`); again != run {
			t.Errorf("after %q: %q", run, again)
		}
		second.awaitQueue(t, `(has run) nightly`)
		if err := second.Interrupt(); err != nil {
			t.Fatal(err)
		}
		if line := second.awaitQueue(t, `\d periods; the job was (begun 2 times and done 1) times`); line == "" || second.Wait() != nil {
			t.Error(line, second.Wait())
		}
	})
}
