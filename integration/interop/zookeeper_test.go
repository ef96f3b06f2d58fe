package interop_test

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/curator"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
)

//go:embed testdata/Partner.java
var partnerJava []byte

// zkSite is the ZooKeeper shared by all tests here.
type zkSite struct{ endpoints []string }

func newZKSite(t *testing.T) zkSite { return zkSite{servers.ZooKeeper(t).Endpoints()} }

func (s zkSite) addresses() string { return strings.Join(s.endpoints, ",") }

// starter starts a process of a client.
type starter func(t *testing.T, ttl time.Duration) party

// baton starts processes of Baton with a layout.
func (s zkSite) baton(layout string) starter {
	return func(t *testing.T, ttl time.Duration) party {
		t.Helper()
		return goParty(t, "baton", fmt.Sprintf("zk://%s?ttl=%v&layout=%s", s.addresses(), ttl, layout))
	}
}

func (s zkSite) goZooKeeper(t *testing.T, ttl time.Duration) party {
	t.Helper()
	return goParty(t, "go-zookeeper", s.addresses(), ttl.String())
}

// curator starts a process with Curator.
func (s zkSite) curator(t *testing.T, ttl time.Duration) party {
	t.Helper()
	cmd, err := curator.Command(t.TempDir(), "Partner.java", partnerJava, s.addresses(), strconv.FormatInt(ttl.Milliseconds(), 10))
	if err != nil {
		t.Fatal(err)
	}
	return party{proc.Run(t, "curator", cmd), t, "curator"}
}

// kazoo starts a process with Kazoo, with Debian's Python, or the one that
// BATON_PYTHON names.
func (s zkSite) kazoo(t *testing.T, ttl time.Duration) party {
	t.Helper()
	python := os.Getenv("BATON_PYTHON")
	if python == "" {
		python = "/usr/bin/python3"
	}
	if out, err := exec.Command(python, "-c", "import kazoo").CombinedOutput(); err != nil {
		t.Fatalf("%s has no Kazoo: install python3-kazoo, or set BATON_PYTHON to a Python with Kazoo: %v\n%s", python, err, out)
	}
	program, err := filepath.Abs("testdata/partner.py")
	if err != nil {
		t.Fatal(err)
	}
	return party{proc.Run(t, "kazoo", exec.Command(python, program, s.addresses(), fmt.Sprint(ttl.Seconds()))), t, "kazoo"}
}

// pair makes Baton and another client contend, hand over and be killed.
func pair(t *testing.T, path string, baton starter, recipe string, other starter, otherRecipe string) {
	t.Helper()
	a, b := baton(t, long), other(t, long)
	handed(t, path, a, recipe, b, otherRecipe)
	g := newGround(t)
	inOrder(t, g.play(path, 220, lap{a, recipe, 2, 55}, lap{b, otherRecipe, 2, 55}), number(t))
	killed(t, path, baton(t, brief), recipe, b, otherRecipe)
	killed(t, path, other(t, brief), otherRecipe, a, recipe)
}

// The other clients are Curator, go-zookeeper and Kazoo.
func TestLocksAreSharedWithZooKeeperClients(t *testing.T) {
	s := newZKSite(t)
	for _, c := range []struct {
		name, layout, recipe, otherRecipe string
		other                             starter
	}{
		{"Curator", "curator", "mutex", "mutex", s.curator},
		{"go-zookeeper", "curator", "mutex", "mutex", s.goZooKeeper},
		{"Kazoo", "kazoo", "mutex", "mutex", s.kazoo},
		{"Curator latch", "curator", "election", "latch", s.curator},
		{"Curator selector", "curator&election=selector", "election", "selector", s.curator},
		{"Kazoo election", "kazoo", "election", "election", s.kazoo},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pair(t, "/interop/"+strings.ReplaceAll(c.name, " ", "-"),
				s.baton(c.layout), c.recipe, c.other, c.otherRecipe)
		})
	}
}

// The clients are Curator, go-zookeeper and Baton.
func TestThreeZooKeeperClientsShareALock(t *testing.T) {
	t.Parallel()
	s := newZKSite(t)
	g := newGround(t)
	laps := []lap{{s.baton("curator")(t, long), "mutex", 2, 40}, {s.curator(t, long), "mutex", 2, 40}, {s.goZooKeeper(t, long), "mutex", 2, 40}}
	inOrder(t, g.play("/interop/three", 240, laps...), number(t))
}

// With extra_lock_patterns Kazoo waits for Curator's entries, and for Baton's
// in that layout. Curator would not wait for Kazoo's, so Baton refuses instead
// of ignoring them.
func TestKazooMayWaitForCurator(t *testing.T) {
	t.Parallel()
	s := newZKSite(t)
	const path = "/interop/kazoo-with-curator"
	a, k := s.baton("curator")(t, long), s.kazoo(t, long)
	a.tell("take mutex %s", path)
	a.got()
	k.tell("take with-curator %s", path)
	k.waits()
	a.tell("release")
	a.hear("released")
	k.got()
	a.tell("take mutex %s", path)
	if rest, err := a.listen("error", callBound); err != nil || !strings.Contains(rest, "__lock__") {
		t.Errorf("Baton answers %q, %v", rest, err)
	}
	k.tell("release")
	k.hear("released")
}
