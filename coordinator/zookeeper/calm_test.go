package zookeeper

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// pairs joins and leaves the line "m/a" n times, and returns the last one's outcome.
func pairs(t *testing.T, s *session, n int) (j driver.Joined) {
	t.Helper()
	for range n {
		j = testFollow(t, s, 1)
		if !j.First {
			t.Fatalf("not first in an empty line: %+v", j)
		}
		ok(t, s.Leave(soon(t, time.Second), "m/a", j.Place))
	}
	return j
}

// becalmed is a session for which the line "m/a" is calm.
func becalmed(t *testing.T) (*fake, *tree, *session) {
	t.Helper()
	f, tr, s := openTree(t)
	pairs(t, s, calmAfter)
	multis := f.count(opMulti)
	pairs(t, s, 1)
	if n := f.count(opMulti) - multis; n != 0 || tr.watched() != 1 {
		t.Fatalf("after %d pairs one more takes %d transactions; %d watches", calmAfter, n, tr.watched())
	}
	return f, tr, s
}

func TestPairInACalmLineMakesAndDeletesOneNode(t *testing.T) {
	f, tr, s := becalmed(t)
	before := []int{f.count(opCreate2), f.count(opDelete), f.count(opMulti), f.count(opGet), f.count(opChildren)}
	last := driver.Token(0)
	const n = 5
	for range n {
		j := pairs(t, s, 1)
		if j.Token <= last {
			t.Errorf("token %d after %d", j.Token, last)
		}
		last = j.Token
	}
	after := []int{f.count(opCreate2), f.count(opDelete), f.count(opMulti), f.count(opGet), f.count(opChildren)}
	for i, want := range []int{n, n, 0, 0, 0} {
		if after[i]-before[i] != want {
			t.Errorf("requests %v, then %v", before, after)
		}
	}
	if tr.told() != 0 || tr.watched() != 1 {
		t.Errorf("%d notices, %d watches", tr.told(), tr.watched())
	}
}

// TestJoinOfACalmLineSeesWhoCame: by any way of joining, its own session included.
func TestJoinOfACalmLineSeesWhoCame(t *testing.T) {
	for name, come := range map[string]func(f *fake, tr *tree, s *session){
		"another session":      func(f *fake, _ *tree, _ *session) { testFollow(t, openFake(t, f, testTTL), 2) },
		"the same session":     func(_ *fake, _ *tree, s *session) { testFollow(t, s, 2) },
		"without a word to it": func(_ *fake, tr *tree, _ *session) { tr.put("/app/m/a/lock-0000000000", "") },
	} {
		f, tr, s := becalmed(t)
		come(f, tr, s)
		j := testFollow(t, s, 1)
		if j.First {
			t.Errorf("%s: first although somebody is there", name)
		}
		view, err := s.Ahead(t.Context(), "m/a", j.Place)
		if err != nil || len(view.Ahead) != 1 {
			t.Errorf("%s: %+v, %v", name, view, err)
		}
		if _, calm := s.calms.next("m/a"); calm {
			t.Errorf("%s: the line is calm", name)
		}
	}
}

// TestJoinOfACalmLineThatWasMadeAgain: its numbers are those of before, and say nothing.
func TestJoinOfACalmLineThatWasMadeAgain(t *testing.T) {
	_, tr, s := becalmed(t)
	expected, _ := s.calms.next("m/a")
	var made atomic.Bool
	tr.on(func(op int32, _ string) treeFate {
		if op == opCreate2 && made.CompareAndSwap(false, true) { // when the request is on its way
			tr.cutDown("/app/m/a")
			tr.put("/app/m/a", "")
			for i := range expected.next {
				node := "/app/m/a/lock-" + fmt.Sprintf("%010d", i)
				tr.put(node, "")
				if i > 0 {
					tr.cutDown(node)
				}
			}
		}
		return treeFate{}
	})
	j := testFollow(t, s, 1)
	if n, _ := parseNode(j.Place.Key); n.seq != expected.next || !made.Load() {
		t.Fatalf("number %d; want %d", n.seq, expected.next)
	}
	if j.First {
		t.Error("first although somebody is there")
	}
}

// TestCalmLineThatWentIsMade: the next join makes it, and has its node in it.
func TestCalmLineThatWentIsMade(t *testing.T) {
	f, tr, s := becalmed(t)
	var gone atomic.Bool
	tr.on(func(op int32, _ string) treeFate {
		if op == opCreate2 && gone.CompareAndSwap(false, true) {
			tr.cutDown("/app/m/a")
		}
		return treeFate{}
	})
	pairs(t, s, 1)
	tr.cutDown("/app/m/a")
	pairs(t, s, calmAfter)
	creates := f.count(opCreate2)
	pairs(t, s, 1)
	if f.count(opCreate2) != creates+1 {
		t.Error("not calm again")
	}
}

// TestCalmEndsWithTheConnection: the watch that it rests on went with that.
func TestCalmEndsWithTheConnection(t *testing.T) {
	f, _, s := becalmed(t)
	f.cut()
	eventually(t, "the connection is back", func() bool { return s.presence.number() == 2 && s.presence.now() })
	creates := f.count(opCreate2)
	pairs(t, s, 1)
	if f.count(opCreate2) != creates {
		t.Error("joined by a number on another connection than that of the watch")
	}
}

// TestLostReplyInACalmLine: the node is found, and is not made twice.
func TestLostReplyInACalmLine(t *testing.T) {
	_, tr, s := becalmed(t)
	tr.on(func(op int32, _ string) treeFate { return treeFate{cut: op == opCreate2} })
	c := driver.Contender{ID: testID, Mode: "x", Follows: true}
	if _, err := s.Join(soon(t, 5*time.Second), "m/a", c); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	tr.on(nil)
	c.Again = true
	j, err := s.Join(soon(t, 5*time.Second), "m/a", c)
	if err != nil || len(tr.below("/app/m/a")) != 1 {
		t.Fatalf("%v; %q", err, tr.below("/app/m/a"))
	}
	ok(t, s.Leave(soon(t, time.Second), "m/a", j.Place))
}

// TestServerWithoutCreate2 is one that lacks the request.
func TestServerWithoutCreate2(t *testing.T) {
	f, tr, s := openTree(t)
	pairs(t, s, calmAfter)
	tr.on(func(op int32, _ string) (fate treeFate) {
		if op == opCreate2 {
			fate.code = codeUnimplemented
		}
		return fate
	})
	pairs(t, s, 3*calmAfter)
	if n := f.count(opCreate2); n != 1 {
		t.Errorf("asked %d times", n)
	}
}
