package foreign

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
)

func foreignOf(t *testing.T, layout, election string) *Layout {
	t.Helper()
	f, err := LayoutOf(layout, election)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const testSession = 0x1000a2b3c4d5e6f

// decision is what a client does in a queue: hold, or wait for an entry.
type decision struct {
	holds bool
	waits string // for this entry
}

// curatorMutex is StandardLockInternalsDriver: all children, sorted as text by
// the part after the last mark or by the whole name.
func curatorMutex(mark string) func(children []string, own string) decision {
	return func(children []string, own string) decision {
		key := func(name string) string {
			if i := strings.LastIndex(name, mark); i >= 0 {
				return name[i+len(mark):]
			}
			return name
		}
		sorted := slices.Clone(children)
		slices.SortStableFunc(sorted, func(a, b string) int { return strings.Compare(key(a), key(b)) })
		i := slices.Index(sorted, own)
		if i == 0 {
			return decision{holds: true}
		}
		return decision{waits: sorted[i-1]}
	}
}

// curatorRW is InterProcessReadWriteLock: it cuts off either tag; a reader
// holds unless a writer sorts before it.
func curatorRW(children []string, own string) decision {
	key := func(name string) string {
		for _, tag := range []string{"__READ__", "__WRIT__"} {
			if i := strings.LastIndex(name, tag); i >= 0 {
				name = name[i+len(tag):]
			}
		}
		return name
	}
	sorted := slices.Clone(children)
	slices.SortStableFunc(sorted, func(a, b string) int { return strings.Compare(key(a), key(b)) })
	i := slices.Index(sorted, own)
	if strings.Contains(own, "__WRIT__") {
		if i == 0 {
			return decision{holds: true}
		}
		return decision{waits: sorted[i-1]}
	}
	for _, name := range sorted[:i] {
		if strings.Contains(name, "__WRIT__") {
			return decision{} // which entry it waits for does not matter
		}
	}
	return decision{holds: true}
}

// theirKazoo is Lock._get_predecessor of a release with read locks: the nearest
// contender with a smaller number.
func theirKazoo(exclude ...string) func(children []string, own string) decision {
	all := regexp.MustCompile(`__r?lock__(-?\d{10})$`)
	contends := regexp.MustCompile(`(?:` + strings.Join(exclude, "|") + `)(-?\d{10})$`)
	return func(children []string, own string) decision {
		mine, d, last := all.FindStringSubmatch(own)[1], decision{holds: true}, ""
		for _, name := range children {
			if m := contends.FindStringSubmatch(name); m != nil && m[1] < mine && m[1] > last {
				d, last = decision{waits: name}, m[1]
			}
		}
		return d
	}
}

// exclusive and shared are the recipes' rules.
func exclusive(ahead []driver.Place) decision {
	if len(ahead) == 0 {
		return decision{holds: true}
	}
	return decision{waits: ahead[len(ahead)-1].Key}
}

func shared(ahead []driver.Place) decision {
	for i := len(ahead) - 1; i >= 0; i-- {
		if ahead[i].Mode != "r" {
			return decision{waits: ahead[i].Key}
		}
	}
	return decision{holds: true}
}

// TestDecisionsAreThoseOfTheOtherClient, in all queues of up to four entries,
// with sequence numbers of one to ten digits.
func TestDecisionsAreThoseOfTheOtherClient(t *testing.T) {
	entry := func(mark string, seq int) string {
		heads := []string{"_c_5f0c52e1-a0b9-4b6f-8a7f-5f0c52e1a0b9-", "_c_ffffffffffffffffffffffffffffffff-", "_c_00000000-a0b9-4b6f-8a7f-lock-52e1a0b9-"}
		if strings.HasSuffix(mark, "lock__") {
			heads = []string{"5f0c52e1a0b94b6f8a7f5f0c52e1a0b9", "ffffffffffffffffffffffffffffffff", "00000000000000000000000000000000"}
		}
		return fmt.Sprintf("%s%s%010d", heads[seq%len(heads)], mark, seq)
	}
	numbers := []int{9, 10, 999999999, math.MaxInt32 - reserve}
	for _, c := range []struct {
		layout, election, kind string
		marks                  []string
		theirs                 map[string]func([]string, string) decision // by the mode of own
	}{
		{"curator", "", "mutex", []string{"lock-"}, map[string]func([]string, string) decision{"x": curatorMutex("lock-")}},
		{"curator", "", "election", []string{"latch-"}, map[string]func([]string, string) decision{"x": curatorMutex("latch-")}},
		{"curator", "selector", "election", []string{"lock-"}, map[string]func([]string, string) decision{"x": curatorMutex("lock-")}},
		{"curator", "", "rwlock", []string{"__READ__", "__WRIT__"}, map[string]func([]string, string) decision{"r": curatorRW, "w": curatorRW}},
		{"kazoo", "", "mutex", []string{"__lock__"}, map[string]func([]string, string) decision{"x": theirKazoo("__lock__")}},
		{"kazoo", "", "rwlock", []string{"__rlock__", "__lock__"},
			map[string]func([]string, string) decision{"r": theirKazoo("__lock__"), "w": theirKazoo("__lock__", "__rlock__")}},
	} {
		g := foreignOf(t, c.layout, c.election)
		queue, decisions := driver.Queue(c.kind+"/a"), 0
		var try func(children []string, from int)
		try = func(children []string, from int) {
			shuffled := slices.Clone(children)
			slices.Reverse(shuffled)
			places, err := g.places(queue, shuffled)
			if err != nil {
				t.Fatalf("%s: %v", c.kind, err)
			}
			for i, own := range places {
				decisions++
				ahead := places[:i]
				got := exclusive(ahead)
				if own.Mode == "r" {
					got = shared(ahead)
				}
				want := c.theirs[own.Mode](shuffled, own.Key)
				if got.holds != want.holds || want.waits != "" && got.waits != want.waits {
					t.Errorf("%s %s, %q in %q: %+v, the other client %+v", c.layout, c.kind, own.Key, children, got, want)
				}
			}
			for k := from; k < len(numbers); k++ {
				for _, mark := range c.marks {
					try(append(slices.Clone(children), entry(mark, numbers[k])), k+1)
				}
			}
		}
		try(nil, 0)
		if decisions < 30 {
			t.Errorf("%s %s: only %d decisions", c.layout, c.kind, decisions)
		}
	}
}

// TestDowngradeKeepsItsWritersPlace: for a moment Curator has two nodes of one
// number, a writer's and its reader's. Both are ahead of the next entry.
func TestDowngradeKeepsItsWritersPlace(t *testing.T) {
	g := foreignOf(t, "curator", "")
	names := []string{"_c_a-__WRIT__0000000005", "_c_b-__READ__0000000004", "_c_a-__READ__0000000004", "_c_a-__WRIT__0000000004"}
	for _, reversed := range []bool{false, true} {
		if reversed {
			slices.Reverse(names)
		}
		nodes, err := g.places("rwlock/a", names)
		if err != nil {
			t.Fatal(err)
		}
		if nodes[0].Key != "_c_a-__WRIT__0000000004" || nodes[3].Key != "_c_a-__WRIT__0000000005" || nodes[1].Mode != "r" || nodes[2].Mode != "r" {
			t.Errorf("%v", nodes)
		}
	}
}

func TestForeignNames(t *testing.T) {
	for _, id := range []string{"0123456789abcdef", "0123456789abcdef01234567", strings.Repeat("0123456789abcdef", 2)} {
		g := foreignOf(t, "curator", "")
		if !regexp.MustCompile(`^_c_01234567-89ab-cdef-[0-9a-f]{4}-[0-9a-f]{12}-$`).MatchString(g.namePrefix(id, testSession)) {
			t.Errorf("ID %s: %q is not in Curator's form", id, g.namePrefix(id, testSession))
		}
		k := foreignOf(t, "kazoo", "")
		if !regexp.MustCompile(`^0123456789abcdef[0-9a-f]{16}$`).MatchString(k.namePrefix(id, testSession)) {
			t.Errorf("ID %s: %q is not in Kazoo's form", id, k.namePrefix(id, testSession))
		}
		if len(id) < 32 && k.namePrefix(id, 0x7fffffff) == k.namePrefix(id, testSession) {
			t.Errorf("ID %s: two sessions have %s", id, k.namePrefix(id, testSession))
		}
	}
	for queue, path := range map[driver.Queue]string{
		"mutex/a": "/a", "rwlock/a%2Fb%20c%25": "/a/b c%", "semaphore-locks/a": "/a/locks", "semaphore-leases/a": "/a/leases",
	} {
		if got := foreignOf(t, "curator", "").path(queue); got != path {
			t.Errorf("%s is at %s, want %s", queue, got, path)
		}
	}
	if got := foreignOf(t, "kazoo", "").path("semaphore-locks/a"); got != "/a-__lock__" {
		t.Errorf("Kazoo's queue is at %s", got)
	}
}

// TestNamesThatZooKeeperRefusesAreInvalid: on shared layouts a name is a path.
func TestNamesThatZooKeeperRefusesAreInvalid(t *testing.T) {
	d := New(foreignOf(t, "curator", ""), new(nodes.Service))
	for _, name := range []string{"a\U0001F512", "a\uE000", "a\uF8FF", "a\uFFF0", "a\uFFFD"} {
		if _, err := d.SharedName("mutex", name); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "U+") {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"/a/b", "日本", "a\uF900", "a\uFFEF"} {
		if got, err := d.SharedName("mutex", name); err != nil || got != strings.TrimPrefix(name, "/") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}

func TestStrayChildrenAreReportedByName(t *testing.T) {
	for _, c := range []struct{ layout, kind, name string }{
		{"curator", "mutex", "!x"}, {"curator", "mutex", "_c_a-lock-123"}, {"curator", "mutex", "_c_a-lock-00000000012"}, {"curator", "mutex", "_c_a-lock-+000000001"},
		{"curator", "mutex", "5f0c__lock__0000000001"}, {"curator", "mutex", "_c_a-__WRIT__0000000001"}, {"curator", "mutex", "_c_a-lock--2147483648"},
		{"curator", "rwlock", "_c_a-lock-0000000001"}, {"curator", "election", "_c_a-lock-0000000001"}, {"curator", "semaphore-leases", "_c_a-lock-0000000001"},
		{"kazoo", "mutex", "5f0c__rlock__0000000001"}, {"kazoo", "mutex", "_c_a-lock-0000000001"}, {"kazoo", "rwlock", "lease_holder"},
		{"kazoo", "semaphore-leases", "5f0c"}, {"kazoo", "semaphore-leases", "5f0c52e1a0b94b6f8a7f5f0c52e1a0bg"},
	} {
		g := foreignOf(t, c.layout, "")
		queue := driver.Queue(c.kind + "/a")
		_, err := g.places(queue, []string{c.name})
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s %s: %s: %v", c.layout, c.kind, c.name, err)
		}
	}
	g := foreignOf(t, "kazoo", "")
	queue := driver.Queue("semaphore-leases/a")
	if _, err := g.places(queue, []string{"5f0c52e1a0b94b6f8a7f5f0c52e1a0b9"}); err != nil {
		t.Errorf("a lease of Kazoo's: %v", err)
	}
}

func TestRevocationValuesAreRefused(t *testing.T) {
	for _, c := range []struct {
		layout, kind string
		refused      bool
	}{{"curator", "mutex", true}, {"curator", "rwlock", true}, {"curator", "election", false}, {"kazoo", "mutex", false}} {
		h := New(foreignOf(t, c.layout, ""), new(nodes.Service))
		for _, try := range [][2]string{{"me", "__REVOKE__"}, {"__REVOKE__", ""}} {
			_, err := h.SharedValue(c.kind, try[0], []byte(try[1]))
			if errors.Is(err, driver.ErrInvalid) != c.refused {
				t.Errorf("%s %s, %q: %v", c.layout, c.kind, try, err)
			}
		}
		if v, err := h.SharedValue(c.kind, "me", nil); err != nil || string(v) != "me" {
			t.Errorf("%s %s: %q, %v", c.layout, c.kind, v, err)
		}
		if v, err := h.SharedValue(c.kind, "me", []byte("__REVOKE__!")); err != nil || string(v) != "__REVOKE__!" {
			t.Errorf("%s %s: %q, %v", c.layout, c.kind, v, err)
		}
	}
}

// TestRemoveOnSharedQueues: reused names identify no grant, and no node shows
// that it is a queue.
func TestRemoveOnSharedQueues(t *testing.T) {
	g := &session{Session: &nodes.Session{Tree: new(nodes.Tree)}, layout: foreignOf(t, kazoo, "")}
	for queue, want := range map[driver.Queue]string{"semaphore-leases/a": "reused", "other/a": "not supported"} {
		if err := g.Remove(t.Context(), queue, strings.Repeat("0", 32), 1); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Remove in %s = %v", queue, err)
		}
	}
	if _, err := g.Queues(t.Context()); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), kazoo) {
		t.Errorf("Queues = %v", err)
	}
}
