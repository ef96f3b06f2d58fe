package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestSecondInLineWatchesItself: it is the first when the other one goes, unless it has gone before.
func TestSecondInLineWatchesItself(t *testing.T) {
	for name, c := range map[string]struct {
		happen func(f *fake, tr *tree, first, second string)
		passed bool
		err    error
	}{
		"the first leaves":      {happen: func(_ *fake, tr *tree, first, _ string) { tr.cutDown(first) }, passed: true},
		"the second is removed": {happen: func(_ *fake, tr *tree, _, second string) { tr.cutDown(second) }, err: driver.ErrGone},
		"a new connection, and the first leaves": {happen: func(f *fake, tr *tree, first, _ string) {
			f.cut()
			eventually(t, "the watches on the next connection", func() bool { return tr.watched() == 2 })
			tr.cutDown(first)
		}, passed: true},
		"the second and then the first, while it is away": {happen: func(f *fake, tr *tree, first, second string) {
			f.cut()
			tr.cutDown(second)
			tr.cutDown(first)
		}, err: driver.ErrGone},
	} {
		t.Run(name, func(t *testing.T) {
			f, tr, a := openTree(t)
			b := openFake(t, f, testTTL)
			first, second := testFollow(t, a, 1), testFollow(t, b, 2)
			told := followAs(soon(t, 10*time.Second), b, second.Place, first.Place, true)
			eventually(t, "watches on both", func() bool { return tr.watched() == 2 })
			c.happen(f, tr, "/app/m/a/"+first.Place.Key, "/app/m/a/"+second.Place.Key)
			if got := <-told; got.passed != c.passed || !errors.Is(got.err, c.err) {
				t.Errorf("told %+v", got)
			}
		})
	}
}

// TestSecondInLineHearsOfItselfFirst: both watches have fired by the time that somebody looks.
func TestSecondInLineHearsOfItselfFirst(t *testing.T) {
	s := openFake(t, newFake(t), testTTL)
	fired := func() *watch {
		c := make(chan zk.Event, 1)
		c <- zk.Event{Type: zk.EventNodeDeleted, State: zk.StateSyncConnected}
		return &watch{fired: c}
	}
	for range 50 { // either may be picked first
		f := &chase{session: s, stage: ownToo, sole: true, main: fired(), self: fired()}
		if _, passed, err := f.attend(t.Context(), nil, time.NewTimer(time.Hour)); passed || err != nil {
			t.Fatalf("attend = %v, %v; want another look", passed, err)
		}
	}
}

// TestSecondInLineBelievesNoHeel: that it is gone does not say that its entry is. And who waits for its word needs no other watch.
func TestSecondInLineBelievesNoHeel(t *testing.T) {
	t.Parallel()
	f, tr, a := openTree(t)
	b := openFake(t, f, testTTL)
	busy(t, tr, a, b)
	first, second := testFollow(t, a, 1), testFollow(t, b, 2)
	told := followAs(soon(t, 10*time.Second), b, second.Place, first.Place, true)
	eventually(t, "the watch on the heel", func() bool { return tr.watched() == 1 })
	time.Sleep(driver.Settle / 4)
	if n := tr.watched(); n != 1 {
		t.Errorf("%d watches at first", n)
	}
	eventually(t, "the watch on its own entry", func() bool { return tr.watched() == 2 })
	n, _ := parseNode(first.Place.Key)
	tr.cutDown("/app/m/a/" + n.heel())
	if got := <-told; got.passed || got.err != nil {
		t.Errorf("told %+v", got)
	}
}
