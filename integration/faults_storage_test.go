package integration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/mutex"
)

// disks is trio with servers that sync to disk.
func disks(t *testing.T, test func(t *testing.T, e *ensemble)) {
	t.Helper()
	t.Parallel()
	tool(t, "strace", "strace")
	t.Run("etcd-3", func(t *testing.T) {
		t.Parallel()
		test(t, ownEtcd(t, etcdserver.Options{Nodes: 3, Fsync: true}))
	})
	t.Run("zookeeper-3", func(t *testing.T) {
		t.Parallel()
		test(t, ownZooKeeper(t, zkserver.Options{Nodes: 3, Fsync: true}))
	})
}

// breakDisk makes the disk of a member slow or broken.
func (e *ensemble) breakDisk(t *testing.T, member int, what string) (heal func()) {
	t.Helper()
	heal, err := child.Inject(e.members[member].PID(), "fdatasync,fsync", what)
	if errors.Is(err, child.ErrNoTrace) {
		servers.CannotRun(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return heal
}

// Every write of the leader takes 0.4 s, then 3 s. Grants become slow, or
// another leader is elected; the order of grants is kept. A hold with a TTL of
// 30 s survives. A hold of 4 s may not; its outcome is only logged.
func TestSlowDiskOfTheLeaderKeepsOrder(t *testing.T) {
	disks(t, func(t *testing.T, e *ensemble) {
		l := lock(t, newMutex(t, e.client(t, 30*time.Second), servers.Name(t)))
		short := lock(t, newMutex(t, e.client(t, 4*time.Second), servers.Name(t)))
		workload := e.workload(t, 3, 30*time.Second)
		for _, delay := range []string{"delay_enter=400ms", "delay_enter=3s"} {
			workload.progresses("before")
			leader := e.leader(t)
			heal := e.breakDisk(t, leader, delay)
			from := workload.grants()
			await.For(t.Context(), 6*time.Second)
			t.Logf("%s: %d grants, the short session: %v", delay, workload.grants()-from, short.Err())
			heal()
			workload.progresses("after")
		}
		workload.finish()
		mustHold(t, l, "over slow disks")
	})
}

// The leader cannot write. An etcd exits; a ZooKeeper steps down, but takes
// part in elections and may win them repeatedly, so after six seconds without
// another leader the disk is repaired. A hold with a TTL of 30 s survives.
func TestHoldsSurviveABrokenDiskOfTheLeader(t *testing.T) {
	disks(t, func(t *testing.T, e *ensemble) {
		l := lock(t, newMutex(t, e.client(t, 30*time.Second), servers.Name(t)))
		workload := e.workload(t, 3, 30*time.Second)
		workload.progresses("before")
		leader := e.leader(t)
		heal := e.breakDisk(t, leader, "error=EIO")
		another := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			i, err := e.leads(ctx)
			return err == nil && i != leader
		}
		for broken := time.Now(); e.members[leader].Running() && !another(); await.For(t.Context(), 100*time.Millisecond) {
			if time.Since(broken) > 6*time.Second {
				t.Log("no other leader yet: the disk is repaired")
				heal()
				break
			}
		}
		workload.progresses("with another leader")
		heal()
		if e.zk != nil {
			// The remaining data may not suffice for a start, even if the
			// member went on: the epochs are in separate files. The others,
			// which then work without the member, have all data.
			e.members[leader].Kill()
			workload.progresses("without the member")
			if err := e.zk.Node(leader).Wipe(); err != nil {
				t.Fatal(err)
			}
		}
		e.start(t, leader)
		workload.progresses("with all members again")
		workload.finish()
		mustHold(t, l, "over the broken disk")
	})
}

// New requests are refused at once; a holder keeps its hold and can release it.
func TestEtcdOverItsQuotaKeepsHoldsAndRefusesNewOnes(t *testing.T) {
	t.Parallel()
	e := ownEtcd(t, etcdserver.Options{Nodes: 1, Args: []string{"--quota-backend-bytes=200000"}})
	const ttl = 10 * time.Second
	name := servers.Name(t)
	m, other := newMutex(t, e.client(t, ttl), name), newMutex(t, e.client(t, ttl), servers.Name(t))
	l := lock(t, m)
	unlock(t, lock(t, other)) // opens the session
	raw := e.etcdClient(t)
	var err error // reported after the backend's next commit, every 100 ms, however many puts there were
	for began := time.Now(); err == nil && time.Since(began) < 20*time.Second; {
		_, err = raw.Put(within(t, 10*time.Second), "filler", strings.Repeat("x", 40_000))
	}
	if err == nil || !strings.Contains(err.Error(), "space") {
		t.Fatalf("the quota is not exceeded: %v", err)
	}
	began := time.Now()
	for what, m := range map[string]*mutex.Mutex{"with a session": other, "without one": newMutex(t, e.client(t, ttl), servers.Name(t))} {
		if _, err := m.Lock(await.Context(t)); !errors.Is(err, coordinator.ErrRefused) || !strings.Contains(err.Error(), "space") {
			t.Errorf("%s: Lock = %v", what, err)
		}
	}
	t.Logf("refused twice in %v", time.Since(began).Round(time.Millisecond))
	mustHold(t, l, "without space")
	unlock(t, l)
	awaitQueue(t, m, 0)
}

// The members block while they are defragmented. The waiter's only member,
// which was down for longer than the log reaches back, receives a snapshot. No
// watch loses its event.
func TestWaiterSurvivesDefragmentationAndSnapshots(t *testing.T) {
	t.Parallel()
	e := ownEtcd(t, etcdserver.Options{Nodes: 3, Args: []string{"--snapshot-count=50", "--snapshot-catchup-entries=10"}})
	name := servers.Name(t)
	away := e.follower(t)
	holder := newMutex(t, e.at(t, e.leader(t), 2*time.Minute), name)
	l := lock(t, holder)
	got := granted(t.Context(), newMutex(t, e.client(t, 2*time.Minute, e.endpoints[away]), name))
	awaitQueue(t, holder, 2)
	e.members[away].Kill()
	raw, err := e.etcd.Client(e.etcd.Node(e.leader(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	ctx := await.Context(t)
	var rev int64
	for range 300 {
		resp, err := raw.Put(ctx, "noise", strings.Repeat("x", 1000))
		if err != nil {
			t.Fatal(err)
		}
		rev = resp.Header.Revision
	}
	if _, err := raw.Compact(ctx, rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	for i, n := range e.etcd.Nodes() {
		if i == away {
			continue
		}
		if _, err := plainEtcd(t, n.Endpoint()).Defragment(ctx, n.Endpoint()); err != nil {
			t.Fatal(err)
		}
	}
	unlock(t, l)
	e.start(t, away)
	l = get(t, got, "after the snapshot")
	mustHold(t, l, "after the snapshot")
	unlock(t, l)
	if n, err := gauge(ctx, e.etcd.Node(away).Endpoint(), "etcd_snap_db_save_total_duration_seconds_count"); err != nil || n == 0 {
		t.Errorf("the member that was down got %d snapshots, %v: the test shows nothing", n, err)
	}
}
