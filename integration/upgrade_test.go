package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/batonbin"
	"github.com/baton-go/baton/integration/internal/servers"
)

// upgradeTTL is long enough that a stall of the machine loses no session, and
// so no place in a queue. The killed programs' sessions last for it.
const upgradeTTL = 10 * time.Second

// versions are two programs, this version and an earlier one, that share
// queues as they do while a deployment rolls from one to the other.
type versions struct {
	site
	paths [2]string
	names [2]string // in identities
}

// TestVersionsShareQueues runs programs of the last release beside those of
// this version. Before the first release both are built from the same commit,
// unless BATON_EARLIER names an older one.
func TestVersionsShareQueues(t *testing.T) {
	earlier, version, err := batonbin.Earlier(t)
	if errors.Is(err, batonbin.ErrNoHistory) {
		t.Skipf("cannot run here: %v", err)
	}
	t.Logf("beside %s", version)
	own := batonbin.Path(t)
	eachOne(t, func(t *testing.T, s site) {
		for _, v := range []versions{
			{s, [2]string{earlier, own}, [2]string{"earlier", "own"}},
			{s, [2]string{own, earlier}, [2]string{"own", "earlier"}},
		} {
			for kind, args := range map[string][]string{"mutex": {"lock"}, "rwlock": {"wlock"}, "semaphore": {"sem", "--limit", "1"}, "election": {"elect"}} {
				t.Run(v.names[0]+"-"+kind, func(t *testing.T) {
					t.Parallel()
					v.takeTurns(t, kind, args)
				})
			}
			for kind, args := range map[string][2][]string{
				"rwlock":    {{"wlock"}, {"rlock"}},
				"semaphore": {{"sem", "--limit", "2", "--permits", "2"}, {"sem", "--limit", "2"}},
			} {
				t.Run(v.names[0]+"-shared-"+kind, func(t *testing.T) {
					t.Parallel()
					v.share(t, kind, args[0], args[1])
				})
			}
		}
	})
}

// turns are the contenders of one queue and the file into which their commands
// write.
type turns struct {
	versions
	t          *testing.T
	kind, name string
	dir        string
	running    []*command
	queued     []string // identities, in order
}

func (v versions) turns(t *testing.T, kind string) *turns {
	return &turns{versions: v, t: t, kind: kind, name: servers.Name(t), dir: t.TempDir()}
}

// enqueue starts a program of one version, and waits until both versions list
// it. Its command notes when it starts and ends; between, it waits until a file
// exists.
func (q *turns) enqueue(version int, until string, args ...string) {
	q.t.Helper()
	identity := fmt.Sprintf("%d-%s", len(q.queued), q.names[version])
	script := fmt.Sprintf(`cd %s && echo enter "$BATON_IDENTITY" "$BATON_TOKEN" >>log &&
		while [ ! -e %s ]; do sleep 0.02; done && echo leave "$BATON_IDENTITY" "$BATON_TOKEN" >>log`, q.dir, until)
	q.begin(version, identity, script, args...)
}

func (q *turns) begin(version int, identity, script string, args ...string) {
	q.t.Helper()
	args = slices.Concat(args, []string{"--identity", identity, q.name, "--", "sh", "-c", script})
	q.running = append(q.running, startBaton(q.t, q.paths[version], q.url(upgradeTTL), "", args...))
	q.queued = append(q.queued, identity)
	var listed [2][]string
	await.Until(q.t, "both versions to list "+identity, func() bool {
		for i, path := range q.paths {
			listed[i] = q.listed(path)
		}
		return slices.Equal(listed[0], q.queued) && slices.Equal(listed[1], q.queued)
	})
}

// listed returns the identities that a program's inspect shows.
func (q *turns) listed(path string) (identities []string) {
	q.t.Helper()
	c := startBaton(q.t, path, q.url(upgradeTTL), "", "inspect", "--kind", q.kind, q.name, "-o", "json")
	if code := c.code(); code != 0 {
		q.t.Fatalf("inspect exited with %d: %s", code, c.err.String())
	}
	var shown struct{ Queues []shownQueue }
	if err := json.Unmarshal([]byte(c.out.String()), &shown); err != nil {
		q.t.Fatalf("%v: %s", err, c.out.String())
	}
	for _, queue := range shown.Queues {
		for _, contender := range queue.Contenders {
			identities = append(identities, contender.Identity)
		}
	}
	return identities
}

func (q *turns) create(file string) {
	q.t.Helper()
	if err := os.WriteFile(filepath.Join(q.dir, file), nil, 0o600); err != nil {
		q.t.Fatal(err)
	}
}

// note is a line of the commands' log.
type note struct {
	what, who string
	token     coordinator.Token
}

func (q *turns) notes() (notes []note) {
	q.t.Helper()
	text, err := os.ReadFile(filepath.Join(q.dir, "log"))
	if err != nil {
		q.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var n note
		if _, err := fmt.Sscan(line, &n.what, &n.who, &n.token); err != nil {
			q.t.Fatalf("%q: %v", line, err)
		}
		notes = append(notes, n)
	}
	return notes
}

// finish waits for the programs that were not killed, and checks that both
// versions then list an empty queue.
func (q *turns) finish(killed ...int) {
	q.t.Helper()
	for i, c := range q.running {
		if code := c.code(); code != 0 && !slices.Contains(killed, i) {
			q.t.Errorf("%s exited with %d: %s", q.queued[i], code, c.err.String())
		}
	}
	for i, path := range q.paths {
		if left := q.listed(path); len(left) > 0 {
			q.t.Errorf("%s lists %v at the end", q.names[i], left)
		}
	}
}

// takeTurns queues programs of both versions, kills the holder and a waiter,
// and checks that the others hold in the order of the queue, one at a time.
// Releases hand over from each version to the other and to its own, and so do
// the ends of the killed programs' sessions.
func (v versions) takeTurns(t *testing.T, kind string, args []string) {
	q := v.turns(t, kind)
	q.enqueue(0, "never", args...) // killed while it holds
	for _, version := range []int{1, 0, 1 /* killed while it waits */, 0, 1, 1, 0, 0} {
		q.enqueue(version, "go", args...)
	}
	killed := []int{0, 3}
	q.create("go")
	for _, i := range killed {
		if err := q.running[i].cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	q.finish(killed...)

	want := []string{"enter " + q.queued[0]} // its command was killed
	for i, who := range q.queued {
		if !slices.Contains(killed, i) {
			want = append(want, "enter "+who, "leave "+who)
		}
	}
	var got []string
	var last note
	for _, n := range q.notes() {
		got = append(got, n.what+" "+n.who)
		if n.what == "enter" && n.token <= last.token {
			t.Errorf("%s has token %d after %d of %s", n.who, n.token, last.token, last.who)
		}
		last = n
	}
	if !slices.Equal(got, want) {
		t.Errorf("the commands ran as %q, want %q", got, want)
	}
}

// share queues two programs, one of each version, that may hold together,
// between two that may not, and checks that those two do hold together.
func (v versions) share(t *testing.T, kind string, alone, together []string) {
	q := v.turns(t, kind)
	q.enqueue(0, "go", alone...)
	for version := range 2 {
		// Each waits until the other runs, too.
		q.enqueue(version, "both", together...)
	}
	q.enqueue(1, "go", alone...)
	q.create("go")
	await.Until(t, "both versions to hold at the same time", func() bool { return len(q.notes()) >= 4 })
	q.create("both")
	q.finish()

	notes := q.notes()
	if len(notes) != 8 {
		t.Fatalf("the commands ran as %v", notes)
	}
	for i, want := range []string{"enter 0", "leave 0", "enter", "enter", "leave", "leave", "enter 3", "leave 3"} {
		if got := notes[i].what + " " + notes[i].who; !strings.HasPrefix(got, want) {
			t.Errorf("step %d is %q, want %q: %v", i, got, want, notes)
		}
	}
	if who := []string{notes[2].who, notes[3].who}; !slices.Contains(who, q.queued[1]) || !slices.Contains(who, q.queued[2]) {
		t.Errorf("%q held together, want %q", who, q.queued[1:3])
	}
}
