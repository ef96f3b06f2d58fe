package zookeeper

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestAttemptThatEndsBeforeItsJoinLeavesNoQueue: ZooKeeper removes no container
// that never had a child.
func TestAttemptThatEndsBeforeItsJoinLeavesNoQueue(t *testing.T) {
	for what, x := range map[string]struct {
		missing string // besides the queue
		op      int32  // the attempt ends during the first of these requests
		node    string // to this node
		fate    treeFate
		other   bool // another client joins then
		left    string
		closes  bool // the session ends right after the attempt
	}{
		"before the join":        {op: opMulti, fate: treeFate{lost: true}},
		"at a refused join":      {op: opMulti, fate: treeFate{code: noAuth}},
		"without a reply":        {op: opCreateContainer, node: "/app/~/m/a", fate: treeFate{mute: true}},
		"on a lost connection":   {op: opCreateContainer, node: "/app/~/m/a", fate: treeFate{mute: true, cut: true}},
		"before the queue's own": {missing: "/app/~/m", op: opCreateContainer, node: "/app/~/m", fate: treeFate{mute: true}},
		"before the end":         {op: opMulti, fate: treeFate{lost: true}, closes: true},
		"beside another's join":  {op: opMulti, fate: treeFate{lost: true}, other: true, left: "/app/~/m/a"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newPipes(t)
			tr := plant(f)
			delete(tr.nodes, x.missing)
			s := openFake(t, f, testTTL)
			ctx, cancel := context.WithCancel(t.Context())
			made := false
			tr.on(func(op int32, node string) treeFate {
				switch {
				case op == opMulti && !made: // it shows that the queue is missing
					made = true
				case op == x.op && (x.node == "" || x.node == node):
					if x.other {
						tr.put("/app/~/m/a/other", "")
					}
					cancel()
					x.op = 0
					return x.fate
				}
				return treeFate{}
			})
			_, err := s.Join(ctx, "m/a", driver.Contender{ID: testID, Mode: "x"})
			if err == nil || x.fate.code == 0 && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: Join = %v", what, err)
			}
			if x.closes {
				ok(t, s.Close(t.Context()))
			}
			time.Sleep(testTTL)
			tr.mu.Lock()
			defer tr.mu.Unlock()
			for _, node := range []string{"/app/~/m", "/app/~/m/a"} {
				want := node == "/app/~/m" && x.missing == "" || strings.HasPrefix(x.left, node)
				if _, is := tr.nodes[node]; is != want {
					t.Errorf("%s: %s is there: %v", what, node, is)
				}
			}
		})
	}
}

// TestCloseLeavesTimeToEndTheSession: the server of the connection answers
// nothing, so the container that an attempt has made cannot be deleted. Another
// server ends the session, though the caller of Close has just a second.
func TestCloseLeavesTimeToEndTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		held, err := s.Join(t.Context(), "m/held", driver.Contender{ID: testID, Mode: "x"})
		ok(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		tr.on(func(op int32, _ string) treeFate {
			if op == opCreateContainer {
				cancel()
				return treeFate{silent: true}
			}
			return treeFate{}
		})
		if _, err := s.Join(ctx, "m/a", driver.Contender{ID: testID, Mode: "x"}); !errors.Is(err, context.Canceled) {
			t.Errorf("Join = %v", err)
		}
		within, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if err := s.Close(within); err != nil || f.count(opCloseSession) != 1 {
			t.Errorf("Close = %v, %d sessions were ended", err, f.count(opCloseSession))
		}
		tr.mu.Lock()
		defer tr.mu.Unlock()
		if _, there := tr.nodes["/app/~/m/held/"+held.Place.Key]; there {
			t.Error("the entry is left")
		}
	})
}
