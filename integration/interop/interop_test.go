// Package interop_test has Baton stand in queues with other clients: each with
// a process of its own, on real servers.
//
// A pair of parties, Baton and another, contends for one name. Whoever has it
// reads a number from a file, waits, and writes the number that comes next; and
// notes in a journal what the service says of its turn. If two had it at once
// the file would lack some; if somebody was overtaken the journal would not be
// in order. Then the one or the other is killed while it has the name, and the
// other must get it.
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

// callBound is how long anything may take that is not to wait.
const callBound = 60 * time.Second

// The times to live of sessions: brief ones are for those who are killed while
// they hold, and for whom others wait. Whoever is to live has the other, since
// a machine that is busy may keep a process from renewing for a while.
const (
	brief = 4 * time.Second
	long  = 20 * time.Second
)

// settle is how long one is watched who is to wait.
const settle = 300 * time.Millisecond

// party is a process of one client. It is told, in one line each:
//
//	loop RECIPE PATH CONTENDERS TURNS DIR   ready
//	go                                      done
//	take RECIPE PATH                        got ORDER
//	give                                    gone
//
// ORDER is the service's number for the entry: etcd's create revision,
// ZooKeeper's czxid.
type party struct {
	*proc.Child
	t    *testing.T
	name string
}

func (p party) tell(format string, args ...any) { p.Send(fmt.Sprintf(format, args...)) }

// hear waits for a word and returns what comes with it.
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
		return "", fmt.Errorf("said %q, want %q", line, want)
	}
	return rest, nil
}

// got waits until the party has the name, and returns the service's number of
// that.
func (p party) got() int64 {
	p.t.Helper()
	n, err := strconv.ParseInt(p.hear("got"), 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// waits fails the test if the party gets the name within a while.
func (p party) waits() {
	p.t.Helper()
	if rest, err := p.listen("got", settle); err == nil {
		p.t.Fatalf("%s has what another one holds: %s", p.name, rest)
	} else if !strings.Contains(err.Error(), "said nothing") {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// prepare has the party open its sessions for a loop. All begin at once.
func (p party) prepare(recipe, path string, contenders, turns int, dir string) {
	p.t.Helper()
	p.tell("loop %s %s %d %d %s", recipe, path, contenders, turns, dir)
	p.hear("ready")
}

// lap is what one party does in a loop.
type lap struct {
	party      party
	recipe     string
	contenders int
	turns      int
}

// ground is where a loop is played: a counter and a journal.
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

// play has all laps run at once, and returns the journal. The counter must be
// the number of turns of those who write.
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

// note is a queue of the journal.
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
		g.t.Errorf("the counter is %q after %d turns", b, writes)
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
			g.t.Errorf("%s was there together with somebody who should not have been", w[1])
		}
	}
	if turns != writes {
		g.t.Errorf("the journal has %d turns of %d", turns, writes)
	}
	return journal
}

// inOrder checks that turns were in the order of the service's numbers, and
// mixed.
func inOrder(t *testing.T, journal []note, order func(note) int64) {
	t.Helper()
	last, changes := int64(0), 0
	counts := map[string]int{}
	for i, n := range journal {
		o := order(n)
		if o <= last {
			t.Errorf("turn %d, of %s, has number %d after %d", i, n.who, o, last)
		}
		last = o
		counts[n.who]++
		if i > 0 && journal[i-1].who != n.who {
			changes++
		}
	}
	t.Logf("%d turns: %v; the name went from one client to another %d times", len(journal), counts, changes)
	if changes < len(journal)/20 {
		t.Errorf("the name went from one client to another %d times in %d turns: they did not contend", changes, len(journal))
	}
}

// number is the order of a note whose party knows it.
func number(t *testing.T) func(note) int64 {
	return func(n note) int64 {
		v, err := strconv.ParseInt(n.order, 10, 64)
		if err != nil {
			t.Errorf("journal: %v", err)
		}
		return v
	}
}

// killed has one party hold a name and another wait for it, and kills the
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
	waiter.tell("give")
	waiter.hear("gone")
}

// handed has one party hold a name and another wait for it, and the first give
// it back; then the other way round.
func handed(t *testing.T, path string, a party, aRecipe string, b party, bRecipe string) {
	t.Helper()
	for range 2 {
		a.tell("take %s %s", aRecipe, path)
		first := a.got()
		b.tell("take %s %s", bRecipe, path)
		b.waits()
		a.tell("give")
		a.hear("gone")
		if second := b.got(); second <= first {
			t.Errorf("number %d after %d", second, first)
		}
		b.tell("give")
		b.hear("gone")
		a, aRecipe, b, bRecipe = b, bRecipe, a, aRecipe
	}
}

// bounded is a context for one call.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callBound)
	t.Cleanup(cancel)
	return ctx
}
