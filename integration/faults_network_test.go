package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
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

// Packets are lost for nearly as long as docs/ttl.md says.
func TestShortPartitionIsSurvived(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second
	together(t, func(t *testing.T, s site) {
		c := s.link(t, ttl)
		l := lock(t, newMutex(t, c.Client, servers.Name(t)))
		began := time.Now()
		c.proxy.Cut()
		await.For(t.Context(), s.survives(ttl)*8/10)
		c.proxy.Heal()
		if cut := time.Since(began); cut > s.survives(ttl) {
			servers.Skip(t, fmt.Sprintf("the cut took %v on this machine, longer than a hold has to survive", cut))
		}
		mustHold(t, l, "over the cut")
		unlock(t, l)
	})
}

// The waiter is granted the lock after the cut if its session survives, else it
// returns the loss.
func TestWaiterIsCutOffWhileItsPredecessorLeaves(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		for _, c := range []struct {
			name  string
			ttl   time.Duration
			lives bool
		}{{"shortly", 20 * time.Second, true}, {"for longer than the TTL", 5 * time.Second, false}} {
			t.Run(c.name, func(t *testing.T) {
				far, name := s.link(t, c.ttl), servers.Name(t)
				near := newMutex(t, s.client(t, 20*time.Second), name)
				l := lock(t, near)
				got := granted(t.Context(), newMutex(t, far.Client, name))
				awaitQueue(t, near, 2)
				far.proxy.Cut()
				unlock(t, l)
				if c.lives {
					await.For(t.Context(), time.Second)
					far.proxy.Heal()
					unlock(t, get(t, got, "after the cut"))
					return
				}
				if g := <-got; !errors.Is(g.err, coordinator.ErrSessionLost) {
					t.Errorf("Lock = %v, %v", g.lock, g.err)
				}
				far.proxy.Heal()
				unlock(t, lock(t, near))
				awaitQueue(t, near, 0)
			})
		}
	})
}

// The requests of a lock and of its release are lost once each, or their
// replies are.
func TestLostRequestsAndReplies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		c, name := s.link(t, 20*time.Second), servers.Name(t)
		m, probe := newMutex(t, c.Client, name), newMutex(t, s.client(t, 20*time.Second), name)
		unlock(t, lock(t, m))
		for _, lost := range []struct {
			name        string
			join, leave func(netproxy.Match) *netproxy.Trap
		}{
			{"request to join", c.proxy.LoseRequest, nil},
			{"request to leave", nil, c.proxy.LoseRequest},
			{"reply to leave", nil, c.proxy.LoseReply},
		} {
			t.Run(lost.name, func(t *testing.T) {
				var trap *netproxy.Trap
				if lost.join != nil {
					trap = lost.join(c.join)
				}
				l := lock(t, m)
				awaitQueue(t, probe, 1)
				next := granted(t.Context(), probe)
				awaitQueue(t, probe, 2)
				if lost.leave != nil {
					trap = lost.leave(c.leave)
				}
				unlock(t, l)
				if err := trap.Wait(await.Context(t)); err != nil {
					t.Fatal(err)
				}
				n := get(t, next, "after the release")
				awaitQueue(t, probe, 1)
				if n.Err() != nil {
					t.Errorf("the next hold ended: %v", n.Err())
				}
				unlock(t, n)
			})
		}
	})
}

// Every connection is reset every 50 ms.
func TestConstantResetsKeepExclusion(t *testing.T) {
	t.Parallel()
	long := 4 * time.Second
	if wholeMatrix() {
		long = 20 * time.Second
	}
	each(t, func(t *testing.T, s site) {
		proxy := servers.Proxy(t, s.endpoints)
		workload := site{s.service, []string{proxy.Addr()}}.workload(t, 4, 30*time.Second)
		workload.progresses("before")
		from := workload.grants()
		began, hangs := time.Now(), await.Hang(t)
		for time.Since(began) < long || workload.grants() == from {
			proxy.Reset()
			await.For(t.Context(), 50*time.Millisecond)
			if time.Now().After(hangs) {
				t.Fatal("nothing was granted during the resets")
			}
		}
		t.Logf("%d grants in %v of resets", workload.grants()-from, time.Since(began).Round(time.Millisecond))
		workload.finish()
	})
}

// The client pauses between its attempts.
func TestConnectionsAreRefusedForTheTTL(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	each(t, func(t *testing.T, s site) {
		c := s.link(t, ttl)
		m := newMutex(t, c.Client, servers.Name(t))
		l := lock(t, m)
		before := c.proxy.Stats()
		c.proxy.Reject()
		c.proxy.Reset()
		await.For(t.Context(), ttl)
		tries := c.proxy.Stats().TurnedAway - before.TurnedAway
		t.Logf("%d attempts in %v", tries, ttl)
		if tries == 0 || tries > 200 {
			t.Errorf("%d attempts to connect in %v", tries, ttl)
		}
		if l.Err() == nil {
			t.Error("the holder was not notified")
		}
		if err := c.proxy.Admit(); err != nil {
			t.Fatal(err)
		}
		unlock(t, lock(t, m))
	})
}

// The delay changes between 0 and 400 ms, for replies or in both directions.
func TestSlowLinks(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second
	together(t, func(t *testing.T, s site) {
		for _, ways := range [][]netproxy.Direction{{netproxy.Up, netproxy.Down}, {netproxy.Down}} {
			if len(ways) == 1 && !wholeMatrix() {
				continue // left to make faults
			}
			c, near := s.link(t, ttl), s.client(t, ttl)
			name := servers.Name(t)
			l := lock(t, newMutex(t, c.Client, servers.Name(t)))
			m, other := newMutex(t, c.Client, name), newMutex(t, near, name)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for ctx.Err() == nil {
					for _, way := range ways {
						c.proxy.Delay(way, time.Duration(rand.IntN(400))*time.Millisecond)
					}
					await.For(ctx, 50*time.Millisecond)
				}
			}()
			for end := time.Now().Add(ttl); time.Now().Before(end); {
				unlock(t, lock(t, m))
				unlock(t, lock(t, other))
			}
			if err := l.Err(); err != nil {
				t.Errorf("%d way(s): %v", len(ways), err)
			}
			stop()
			<-done
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
