package zookeeper

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestQueuesHaveEntries: successor nodes, records, strays (unless below a
// recipe's kind) and nodes above queues make no queue.
func TestQueuesHaveEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		for _, node := range []string{
			"/app/~/m/queued", "/app/~/m/queued/x_00000000000000aa_1_0000000007", "/app/~/m/queued/successor_0000000008",
			"/app/~/m/converted", "/app/~/m/converted/x_00000000000000aa_1_0000000000000002_1_0000000007",
			"/app/~/m/successor nodes", "/app/~/m/successor nodes/successor_0000000008",
			"/app/~/m/empty", "/app/~/m/recorded+record",
			"/app/~/m/strays", "/app/~/m/strays/config", "/app/~/mutex", "/app/~/mutex/blocked", "/app/~/mutex/blocked/config",
			"/app/~/other", "/app/~/other/y", "/app/~/other/y/x_00000000000000aa_1_0000000007",
			"/app/~/leaf", "/app/mutex", "/app/mutex/y", "/app/mutex/y/x_00000000000000aa_1_0000000007",
		} {
			tr.put(node, "")
		}
		queues, err := s.Queues(soon(t, 10*time.Second))
		ok(t, err)
		slices.Sort(queues)
		if want := []driver.Queue{"m/converted", "m/queued", "mutex/blocked", "other/y"}; !slices.Equal(queues, want) {
			t.Errorf("queues %q, want %q", queues, want)
		}
	})
}

func TestUnreadableQueuesAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, node := range []string{"/app/~", "/app/~/m", "/app/~/m/secret"} {
			_, tr, s := openTree(t)
			tr.put("/app/~/m/secret", "")
			tr.on(func(op int32, of string) treeFate {
				if of == node && op != opSync {
					return treeFate{code: zk.ErrCode(-102)} // no permission
				}
				return treeFate{}
			})
			_, err := s.Queues(soon(t, 10*time.Second))
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), node+":") {
				t.Errorf("Queues = %v, want ErrRefused that names %s", err, node)
			}
		}
	})
}

// TestRemoveDeletesTheSuccessorNode, for which the follower waits.
func TestRemoveDeletesTheSuccessorNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		other := openFake(t, f, testTTL)
		contend(t, tr, s, other)
		first, second := joinFollowing(t, s, 1), joinFollowing(t, other, 2)
		successor := func() bool {
			return slices.ContainsFunc(tr.list("/app/~/m/a"), func(node string) bool { return strings.HasSuffix(node, nodeOf(t, first).successor()) })
		}
		if !successor() {
			t.Fatalf("no successor node of %+v in %q", first, tr.list("/app/~/m/a"))
		}
		done := follow(t.Context(), other, second.Place, first.Place)
		ok(t, other.Remove(soon(t, 10*time.Second), "m/a", first.Place.Key, first.Token))
		select {
		case got := <-done:
			if got.passed || got.err != nil {
				t.Errorf("Follow: %+v", got)
			}
		case <-time.After(20 * time.Second):
			t.Error("the follower still waits")
		}
		if successor() {
			t.Errorf("left behind: %q", tr.list("/app/~/m/a"))
		}
	})
}

func nodeOf(t *testing.T, j driver.Joined) node {
	t.Helper()
	n, ok := parseNode(j.Place.Key)
	if !ok {
		t.Fatalf("no node: %+v", j)
	}
	return n
}
