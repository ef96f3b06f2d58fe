package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/netns"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

// remote is an ensemble whose members are on separate hosts.
type remote struct {
	*ensemble
	network *netns.Network
}

// remotes runs a test against three members of each service on three hosts. Its
// caller has entered a network namespace.
func remotes(t *testing.T, test func(t *testing.T, r remote)) {
	t.Helper()
	network := netns.New(t, 3)
	t.Run("etcd-3", func(t *testing.T) {
		test(t, remote{ownEtcd(t, etcdserver.Options{Nodes: 3, Hosts: network.Hosts(), Wrap: network.Wrap}), network})
	})
	t.Run("zookeeper-3", func(t *testing.T) {
		test(t, remote{ownZooKeeper(t, zkserver.Options{Nodes: 3, Hosts: network.Hosts(), Wrap: network.Wrap}), network})
	})
}

// The leader is isolated from the other members, not from its clients. A holder
// that reaches no other member is notified before the majority admits a waiter;
// a holder that reaches one keeps its hold.
func TestHolderAtAnIsolatedLeaderIsNotifiedFirst(t *testing.T) {
	t.Parallel()
	if !netns.Enter(t) {
		return
	}
	remotes(t, func(t *testing.T, r remote) {
		n := r.network
		for _, cut := range []struct {
			name      string
			cut, mend func(host int)
		}{
			{"both ways", n.Isolate, n.Rejoin},
			{"nothing gets out", n.Mute, n.Unmute},
			{"nothing gets in", n.Deafen, n.Undeafen},
		} {
			t.Run(cut.name, func(t *testing.T) {
				if cut.name == "nothing gets in" {
					expensive(t)
				}
				leader := r.leader(t)
				name := servers.Name(t)
				pinned := newMutex(t, r.client(t, 8*time.Second, r.endpoints[leader]), name)
				l := lock(t, pinned)
				told := awaitTelling(t, l.Context(), l.Deadline)
				free := lock(t, newMutex(t, r.at(t, leader, 30*time.Second), servers.Name(t)))
				waiter := newMutex(t, r.at(t, r.follower(t), 30*time.Second), name)
				got := granted(t.Context(), waiter)
				awaitQueue(t, waiter, 2)
				cut.cut(leader)
				g := await.Receive(t, "a grant by the majority", got)
				if g.err != nil {
					t.Fatal(g.err)
				}
				told.before(g.at, "the holder at the isolated leader")
				mustHold(t, free, "the holder that can move to the majority")
				cut.mend(leader)
				unlock(t, g.lock)
				unlock(t, lock(t, pinned)) // on a new session
			})
		}
	})
}

// The leader is isolated repeatedly, each time for longer than its service
// takes to notice.
func TestRepeatedPartitionsKeepExclusion(t *testing.T) {
	const ttl, phase = 12 * time.Second, 3 * time.Second
	t.Parallel()
	if !netns.Enter(t) {
		return
	}
	times := 3
	if wholeMatrix() {
		times = 15
	}
	remotes(t, func(t *testing.T, r remote) {
		workload := r.workload(t, 4, ttl)
		workload.progresses("before")
		moved := 0
		for i := 0; i < times || moved == 0 && i < times+6; i++ {
			leader := r.leader(t)
			r.network.Isolate(leader)
			await.For(t.Context(), phase)
			if i >= times {
				await.For(t.Context(), phase) // elections may take long here
			}
			r.network.Rejoin(leader)
			await.For(t.Context(), phase)
			if r.leader(t) != leader {
				moved++
			}
		}
		workload.progresses("after")
		t.Logf("the leader changed %d times", moved)
		if moved == 0 {
			t.Error("no cut was long enough for a change of leader: the test shows nothing")
		}
		workload.finish()
	})
}

// The link of the client's member goes down, without a FIN or RST. The client
// notices, and moves to another member.
func TestClientLeavesAMemberThatVanishes(t *testing.T) {
	t.Parallel()
	if !netns.Enter(t) {
		return
	}
	remotes(t, func(t *testing.T, r remote) {
		for _, who := range []string{"follower", "leader"} {
			t.Run(who, func(t *testing.T) {
				if who == "leader" {
					expensive(t)
				}
				member := map[string]func(testing.TB) int{"follower": r.follower, "leader": r.leader}[who](t)
				c, name := r.at(t, member, 20*time.Second), servers.Name(t)
				l := lock(t, newMutex(t, c, servers.Name(t)))
				holder := newMutex(t, r.at(t, (member+1)%3, 20*time.Second), name)
				h := lock(t, holder)
				got := granted(t.Context(), newMutex(t, c, name))
				awaitQueue(t, holder, 2)
				r.network.Unplug(member)
				unlock(t, h)
				unlock(t, get(t, got, "while its member is gone"))
				mustHold(t, l, "while its member is gone")
				r.network.Plug(member)
				mustHold(t, l, "after its member is back")
				unlock(t, l)
			})
		}
	})
}

// The URL lists dead, wrong and duplicate addresses beside a good one.
func TestListsOfBadAddresses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		dead, silent, other := servers.Proxy(t, s.endpoints), servers.Proxy(t, s.endpoints), servers.Etcd(t).Endpoints()[0]
		dead.Refuse()
		silent.Reject()
		if s.service == "etcd" {
			other = servers.ZooKeeper(t).Endpoints()[0]
		}
		good := s.endpoints[0]
		for i, addrs := range [][]string{
			{dead.Addr(), good}, {other, good}, {good, good, good}, {silent.Addr(), dead.Addr(), other, good, good},
		} {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				m := newMutex(t, s.client(t, 10*time.Second, addrs...), servers.Name(t))
				began := time.Now()
				unlock(t, lock(t, m))
				first := time.Since(began)
				began = time.Now()
				for range 50 { // each may take as long as a call may
					unlock(t, lock(t, m))
				}
				t.Logf("the first in %v, fifty more in %v", first.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
			})
		}
	})
}
