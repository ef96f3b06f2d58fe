// Package interop_test shares queues between Baton and other clients, each in a
// process of its own, on real servers.
//
// Two parties, Baton and another client, contend for one name. The holder reads
// a number from a file, waits, and writes the next number; and it appends the
// service's number of its entry to a journal. If two held at once, counts would
// be lost; if a contender was overtaken, the journal would not be in order.
// Then either party is killed while it holds, and the other must acquire the
// name.
package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// callBound bounds calls that do not wait.
const callBound = 60 * time.Second

// The TTLs of sessions: brief for holders that are killed while others wait,
// long for all others, since on a loaded machine a process may not renew for a
// while.
const (
	brief = 8 * time.Second
	long  = 20 * time.Second
)

// settle is how long a waiter is observed.
const settle = 300 * time.Millisecond

// party is a process of one client. Its commands and answers are one line each:
//
//	loop RECIPE PATH CONTENDERS TURNS DIR   ready
//	go                                      done
//	take RECIPE PATH                        got ORDER
//	release                                 released
//
// ORDER is the service's number for the entry: etcd's create revision,
// ZooKeeper's czxid.
type party struct {
	*proc.Child
	t    *testing.T
	name string
}

func (p party) tell(format string, args ...any) { p.Send(fmt.Sprintf(format, args...)) }

// hear waits for an answer and returns its arguments.
func (p party) hear(want string) string {
	p.t.Helper()
	rest, err := p.listen(want, callBound)
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	return rest
}

func (p party) listen(want string, within time.Duration) (string, error) {
	var line string
	if err := p.TryRecv(&line, within); err != nil {
		return "", err
	}
	word, rest, _ := strings.Cut(line, " ")
	if word != want {
		return "", fmt.Errorf("answered %q, want %q", line, want)
	}
	return rest, nil
}

// got waits until the party holds the name, and returns the service's number of
// its entry.
func (p party) got() int64 {
	p.t.Helper()
	n, err := strconv.ParseInt(p.hear("got"), 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// waits fails the test if the party acquires the name within settle.
func (p party) waits() {
	p.t.Helper()
	if rest, err := p.listen("got", settle); err == nil {
		p.t.Fatalf("%s holds beside another party: %s", p.name, rest)
	} else if !strings.Contains(err.Error(), "sent nothing") {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// prepare makes the party open its sessions for a loop, so that all parties
// begin at once.
func (p party) prepare(recipe, path string, contenders, turns int, dir string) {
	p.t.Helper()
	p.tell("loop %s %s %d %d %s", recipe, path, contenders, turns, dir)
	p.hear("ready")
}

// lap is one party's part of a loop.
type lap struct {
	party      party
	recipe     string
	contenders int
	turns      int
}

// ground has a loop's counter and journal.
type ground struct {
	t   *testing.T
	dir string
}

func newGround(t *testing.T) ground {
	t.Helper()
	g := ground{t, t.TempDir()}
	if err := os.WriteFile(g.file("counter"), []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g ground) file(name string) string { return filepath.Join(g.dir, name) }

// play runs all laps at once, and returns the journal. The counter must equal
// the writers' number of holds.
func (g ground) play(path string, writes int, laps ...lap) (journal []note) {
	g.t.Helper()
	for _, l := range laps {
		l.party.prepare(l.recipe, path, l.contenders, l.turns, g.dir)
	}
	for _, l := range laps {
		l.party.tell("go")
	}
	for _, l := range laps {
		if _, err := l.party.listen("done", 4*time.Minute); err != nil {
			g.t.Fatalf("%s: %v", l.party.name, err)
		}
	}
	return g.check(writes)
}

// note is a line of the journal.
type note struct {
	kind, who string // kind is w or r
	order     string
}

func (g ground) check(writes int) (journal []note) {
	g.t.Helper()
	b, err := os.ReadFile(g.file("counter"))
	if err != nil {
		g.t.Fatal(err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err != nil || n != writes {
		g.t.Errorf("the counter is %q after %d holds", b, writes)
	}
	f, err := os.Open(g.file("journal"))
	if err != nil {
		g.t.Fatal(err)
	}
	defer f.Close()
	turns := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		w := strings.Fields(s.Text())
		if len(w) != 3 {
			g.t.Fatalf("journal: %q", s.Text())
		}
		journal = append(journal, note{w[0], w[1], w[2]})
		if w[0] == "w" {
			turns++
		}
		if w[0] == "torn" {
			g.t.Errorf("%s held together with a conflicting holder", w[1])
		}
	}
	if turns != writes {
		g.t.Errorf("the journal has %d of %d holds", turns, writes)
	}
	return journal
}

// inOrder checks that holds were in the order of the service's numbers, and
// alternated between clients.
func inOrder(t *testing.T, journal []note, order func(note) int64) {
	t.Helper()
	last, changes := int64(0), 0
	counts := map[string]int{}
	for i, n := range journal {
		o := order(n)
		if o <= last {
			t.Errorf("hold %d, of %s, has number %d after %d", i, n.who, o, last)
		}
		last = o
		counts[n.who]++
		if i > 0 && journal[i-1].who != n.who {
			changes++
		}
	}
	t.Logf("%d holds: %v; the name changed from one client to another %d times", len(journal), counts, changes)
	if changes < len(journal)/20 {
		t.Errorf("the name changed from one client to another %d times in %d holds: they did not contend", changes, len(journal))
	}
}

// number is the order of a note that contains it.
func number(t *testing.T) func(note) int64 {
	return func(n note) int64 {
		v, err := strconv.ParseInt(n.order, 10, 64)
		if err != nil {
			t.Errorf("journal: %v", err)
		}
		return v
	}
}

// killed makes one party hold a name and another wait for it, and kills the
// first.
func killed(t *testing.T, path string, holder party, recipe string, waiter party, waiterRecipe string) {
	t.Helper()
	holder.tell("take %s %s", recipe, path)
	first := holder.got()
	waiter.tell("take %s %s", waiterRecipe, path)
	waiter.waits()
	holder.Kill()
	if second := waiter.got(); second <= first {
		t.Errorf("number %d after %d", second, first)
	}
	waiter.tell("release")
	waiter.hear("released")
}

// handed makes one party hold a name and another wait for it, and the first
// release it; then the other way round.
func handed(t *testing.T, path string, a party, aRecipe string, b party, bRecipe string) {
	t.Helper()
	for range 2 {
		a.tell("take %s %s", aRecipe, path)
		first := a.got()
		b.tell("take %s %s", bRecipe, path)
		b.waits()
		a.tell("release")
		a.hear("released")
		if second := b.got(); second <= first {
			t.Errorf("number %d after %d", second, first)
		}
		b.tell("release")
		b.hear("released")
		a, aRecipe, b, bRecipe = b, bRecipe, a, aRecipe
	}
}

// bounded returns a context for one call.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callBound)
	t.Cleanup(cancel)
	return ctx
}
