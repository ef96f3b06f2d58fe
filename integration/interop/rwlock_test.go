package interop_test

import "testing"

// The other clients are Curator and Kazoo.
func TestReadWriteLockIsSharedWithCuratorAndKazoo(t *testing.T) {
	s := newZKSite(t)
	for _, c := range []struct {
		name, layout string
		other        starter
	}{{"Curator", "curator", s.curator}, {"Kazoo", "kazoo", s.kazoo}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := "/interop/rw-" + c.name
			baton := s.baton(c.layout)
			a, b := baton(t, long), baton(t, long)     // a writer and a reader
			x, y := c.other(t, long), c.other(t, long) // likewise
			handed(t, path, a, "write", x, "write")
			handed(t, path, a, "read", x, "write")
			handed(t, path, a, "write", y, "read")
			shares(t, path, b, "read", y, "read", a)
			shares(t, path, b, "read", y, "read", x)
			shares(t, path, a, "downgrade", y, "read", x)
			if c.name == "Curator" { // Kazoo has no downgrade
				shares(t, path, x, "downgrade", b, "read", a)
			}
			g := newGround(t)
			journal := g.play(path, 120, lap{a, "write", 2, 30}, lap{x, "write", 2, 30}, lap{b, "read", 2, 30}, lap{y, "read", 2, 30})
			inOrderOfNumbers(t, journal)
			killed(t, path, baton(t, brief), "read", x, "write")
			killed(t, path, c.other(t, brief), "read", a, "write")
			killed(t, path, baton(t, brief), "write", y, "read")
			killed(t, path, c.other(t, brief), "write", b, "read")
		})
	}
}

// shares makes two parties hold a name together, and a writer wait until both
// have released it.
func shares(t *testing.T, path string, a party, aRecipe string, b party, bRecipe string, writer party) {
	t.Helper()
	a.tell("take %s %s", aRecipe, path)
	a.got()
	b.tell("take %s %s", bRecipe, path)
	b.got()
	writer.tell("take write %s", path)
	writer.waits()
	for _, p := range []party{a, b} {
		writer.waits()
		p.tell("release")
		p.hear("released")
	}
	writer.got()
	writer.tell("release")
	writer.hear("released")
}

// inOrderOfNumbers checks that writers held in the order of the service's
// numbers, readers between the writers next to them in the queue, and that all
// took part.
func inOrderOfNumbers(t *testing.T, journal []note) {
	t.Helper()
	order := number(t)
	var last, writer int64 // the greatest numbers so far
	counts := map[string]int{}
	for i, n := range journal {
		o := order(n)
		if n.kind == "w" && o <= last || o <= writer {
			t.Errorf("hold %d, %s of %s, has number %d after %d, and after a writer's %d", i, n.kind, n.who, o, last, writer)
		}
		if last = max(last, o); n.kind == "w" {
			writer = o
		}
		counts[n.kind+" "+n.who]++
	}
	t.Logf("%d holds: %v", len(journal), counts)
	if len(journal) < 200 || len(counts) != 4 {
		t.Errorf("%d holds: %v", len(journal), counts)
	}
}
