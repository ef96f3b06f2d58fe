package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/redisserver"
	"github.com/baton-go/baton/integration/internal/servers"
)

// TestConformanceInACluster restarts all members in many cases, which takes
// minutes. TestRecipes has a cluster that stays up.
func TestConformanceInACluster(t *testing.T) {
	t.Parallel()
	h := levers{nodes: startCluster(t, 3).Masters, cluster: true}.harness()
	h.TTL = 8 * time.Second // a restarted member waits for some seconds before it serves
	h.OddTTL, h.GrantedTTL = h.TTL+1, h.TTL
	coordinatortest.Run(t, h)
}

// TestHoldSurvivesAFailoverOfACluster: the master that has the namespace is
// killed, and its replica is elected. Clients find it soon, since a request
// without an answer makes them ask for the members.
func TestHoldSurvivesAFailoverOfACluster(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	cluster := startCluster(t, 3)
	addrs := strings.Join(cluster.Addrs(), ",")
	a, b := newMutex(t, open(t, addrs, "ttl=30s&cluster=true"), name), newMutex(t, open(t, addrs, "ttl=30s&cluster=true"), name)
	l, err := a.Lock(ctx)
	ok(t, err)
	master := homeOf(t, cluster, "baton:{/tests}:")
	replica, err := cluster.Replicate(ctx, master)
	ok(t, err)
	next := startLock(ctx, t, b)
	awaitContenders(t, a, 2)
	written, err := master.Info(ctx, "master_repl_offset")
	ok(t, err)
	await.State(t, "the replica to have both entries", func() (string, bool) {
		has, err := replica.Info(ctx, "slave_repl_offset")
		return fmt.Sprintf("%q of %s, %v", has, written, err), err == nil && number(t, has) >= number(t, written)
	})
	master.Kill()
	killed := time.Now()
	awaitInfo(t, replica, "role", "master")
	elected := time.Now()
	awaitContenders(t, a, 2)
	t.Logf("elected after %v, found after %v", elected.Sub(killed), time.Since(killed))
	ok(t, l.Unlock(ctx))
	n := next()
	if n.Token() <= l.Token() {
		t.Errorf("token %d after %d", n.Token(), l.Token())
	}
	ok(t, n.Unlock(ctx))
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	ok(t, err)
	return n
}

// homeOf returns the master that has a namespace.
func homeOf(t *testing.T, c *redisserver.Cluster, prefix string) (home *redisserver.Server) {
	t.Helper()
	l := levers{nodes: c.Masters, cluster: true}
	ok(t, l.home(t.Context(), prefix, func(client *goredis.Client) error {
		for _, s := range c.Masters {
			if s.Addr() == client.Options().Addr {
				home = s
			}
		}
		return nil
	}))
	if home == nil {
		t.Fatalf("no master has %s", prefix)
	}
	return home
}

// TestHoldSurvivesAMoveToAnotherMaster: clients follow the redirects.
func TestHoldSurvivesAMoveToAnotherMaster(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	cluster := startCluster(t, 3)
	addrs := strings.Join(cluster.Addrs(), ",")
	a, b := newMutex(t, open(t, addrs, "ttl=30s&cluster=true"), name), newMutex(t, open(t, addrs, "ttl=30s&cluster=true"), name)
	l, err := a.Lock(ctx)
	ok(t, err)
	next := startLock(ctx, t, b)
	awaitContenders(t, a, 2)
	moveSlot(t, cluster, "baton:{/tests}:", func() { await.For(ctx, 200*time.Millisecond) })
	awaitContenders(t, a, 2)
	ok(t, l.Unlock(ctx))
	n := next()
	if n.Token() <= l.Token() {
		t.Errorf("token %d after %d", n.Token(), l.Token())
	}
	ok(t, n.Unlock(ctx))
}

// TestSessionSurvivesASlowMoveToAnotherMaster: the keys are on two masters for
// longer than the TTL, in each combination that moving one after the other has.
func TestSessionSurvivesASlowMoveToAnotherMaster(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	cluster := startCluster(t, 3)
	c := open(t, strings.Join(cluster.Addrs(), ","), "ttl=8s&cluster=true")
	m := newMutex(t, c, name)
	l, err := m.Lock(ctx)
	ok(t, err)
	renewed := func() {
		t.Helper()
		for range 2 { // the first may have been under way
			before := l.Deadline()
			await.State(t, "the server", func() (string, bool) {
				ok(t, l.Err())
				return "the session is not renewed while its namespace moves", l.Deadline().After(before)
			})
		}
	}
	moveSlot(t, cluster, "baton:{/tests}:", renewed)
	ok(t, l.Err())
	ok(t, l.Unlock(ctx))
	l, err = m.Lock(ctx)
	ok(t, err)
	ok(t, l.Unlock(ctx))
}

// moveSlot moves a namespace's keys to another master, one at a time: in
// between, requests that need both masters fail, and others are redirected. It
// calls pause before each key.
func moveSlot(t *testing.T, c *redisserver.Cluster, prefix string, pause func()) {
	t.Helper()
	ctx, from := await.Context(t), homeOf(t, c, prefix)
	to := c.Masters[0]
	if to == from {
		to = c.Masters[1]
	}
	do := func(s *redisserver.Server, args ...any) any {
		t.Helper()
		reply, err := s.Do(ctx, args...)
		ok(t, err)
		return reply
	}
	slot := do(from, "CLUSTER", "KEYSLOT", prefix)
	source, target := do(from, "CLUSTER", "MYID"), do(to, "CLUSTER", "MYID")
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	for {
		pause()
		keys, some := do(from, "CLUSTER", "GETKEYSINSLOT", slot, 1).([]any)
		if !some || len(keys) == 0 {
			break
		}
		do(from, "MIGRATE", "127.0.0.1", to.Port(), keys[0], 0, 5000)
	}
	for _, s := range append([]*redisserver.Server{to, from}, c.Masters...) {
		do(s, "CLUSTER", "SETSLOT", slot, "NODE", target)
	}
}
