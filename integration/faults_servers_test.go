package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/mutex"
)

// The service's leader dies while each request or reply is in flight. The call
// succeeds once there is another leader, with one entry, and other holds
// survive.
func TestLeaderKilledAtEachStepOfALock(t *testing.T) {
	const ttl = 20 * time.Second
	trio(t, func(t *testing.T, e *ensemble) {
		bystander := lock(t, newMutex(t, e.client(t, ttl), servers.Name(t)))
		for _, step := range leaderSteps {
			t.Run(step.name, func(t *testing.T) {
				name, killed := servers.Name(t), -1
				s := stepper{t: t, far: e.link(t, ttl), near: newMutex(t, e.client(t, ttl), name)}
				s.m = newMutex(t, s.far.Client, name)
				s.kill = func() { killed = e.leader(t); e.members[killed].Kill() }
				unlock(t, lock(t, s.near))
				unlock(t, lock(t, s.m))
				step.run(s)
				e.start(t, killed)
				unlock(t, lock(t, s.near))
				awaitQueue(t, s.near, 0)
			})
		}
		mustHold(t, bystander, "over all kills")
	})
}

// stepper is the state of one step of TestLeaderKilledAtEachStepOfALock.
type stepper struct {
	t    *testing.T
	far  link
	m    *mutex.Mutex // of far
	near *mutex.Mutex // the same mutex, of another client
	kill func()
}

// held waits until a request of the far client is held up.
func (s stepper) held() {
	s.t.Helper()
	await.Until(s.t, "a request is held", func() bool { return s.far.proxy.Stats().HeldUp > 0 })
	await.Steady(s.t, "the whole request to be held", func() int64 { return s.far.proxy.Stats().HeldUp })
}

func (s stepper) sprung(trap interface{ Wait(context.Context) error }) {
	s.t.Helper()
	if err := trap.Wait(await.Context(s.t)); err != nil {
		s.t.Fatal(err)
	}
}

// alone ends a step that granted the lock.
func (s stepper) alone(l *mutex.Lock) {
	s.t.Helper()
	awaitQueue(s.t, s.near, 1)
	unlock(s.t, l)
}

func (s stepper) release(l *mutex.Lock) <-chan error {
	released := make(chan error, 1)
	go func() { released <- l.Unlock(await.Context(s.t)) }()
	return released
}

var leaderSteps = []struct {
	name string
	run  func(stepper)
}{
	{"join is on its way", func(s stepper) {
		s.far.proxy.CutUp()
		got := granted(s.t.Context(), s.m)
		s.held()
		s.kill()
		s.far.proxy.Heal()
		s.alone(get(s.t, got, "join"))
	}},
	{"reply to join is on its way", func(s stepper) {
		trap := s.far.proxy.HoldReply(s.far.join)
		got := granted(s.t.Context(), s.m)
		s.sprung(trap)
		s.kill()
		s.far.proxy.DropHeld()
		s.alone(get(s.t, got, "join"))
	}},
	{"waiting", func(s stepper) {
		l := lock(s.t, s.near)
		got := granted(s.t.Context(), s.m)
		awaitQueue(s.t, s.near, 2)
		s.kill()
		unlock(s.t, l)
		s.alone(get(s.t, got, "wait"))
	}},
	{"wake-up is on its way", func(s stepper) {
		l := lock(s.t, s.near)
		got := granted(s.t.Context(), s.m)
		awaitQueue(s.t, s.near, 2)
		s.far.proxy.CutDown()
		unlock(s.t, l)
		s.kill()
		s.far.proxy.DropHeld()
		s.alone(get(s.t, got, "grant"))
	}},
	{"leave is on its way", func(s stepper) {
		l := lock(s.t, s.m)
		s.far.proxy.CutUp()
		released := s.release(l)
		s.held()
		s.kill()
		s.far.proxy.Heal()
		if err := <-released; err != nil {
			s.t.Errorf("Unlock = %v", err)
		}
	}},
	{"reply to leave is on its way", func(s stepper) {
		l := lock(s.t, s.m)
		trap := s.far.proxy.HoldReply(s.far.leave)
		released := s.release(l)
		s.sprung(trap)
		s.kill()
		s.far.proxy.DropHeld()
		if err := <-released; err != nil {
			s.t.Errorf("Unlock = %v", err)
		}
	}},
}

// The others elect another leader, and clients of the paused leader move. When
// it resumes, still believing that it leads, it admits no contender.
func TestLeaderPausedPastItsElection(t *testing.T) {
	trio(t, func(t *testing.T, e *ensemble) {
		leader := e.leader(t)
		c := e.at(t, leader, 20*time.Second)
		l := lock(t, newMutex(t, c, servers.Name(t)))
		workload := e.workload(t, 3, 20*time.Second)
		workload.progresses("before")
		e.pause(t, leader)
		workload.progresses("while the leader is paused")
		mustHold(t, l, "on the paused leader")
		m := newMutex(t, c, servers.Name(t))
		unlock(t, lock(t, m))
		e.resume(t, leader)
		workload.progresses("after")
		workload.finish()
		mustHold(t, l, "after the pause")
		unlock(t, l)
	})
}

// The member that has the waiter's watch is killed, or hangs with open
// connections, while the holder releases.
func TestWaiterSurvivesTheLossOfItsMember(t *testing.T) {
	trio(t, func(t *testing.T, e *ensemble) {
		for _, lever := range []struct {
			name     string
			down, up func(t testing.TB, i int)
		}{
			{"killed", func(_ testing.TB, i int) { e.members[i].Kill() }, e.start},
			{"paused", e.pause, e.resume},
		} {
			t.Run(lever.name, func(t *testing.T) {
				name := servers.Name(t)
				holder := newMutex(t, e.at(t, e.leader(t), 20*time.Second), name)
				follower := e.follower(t)
				waiting := e.at(t, follower, 20*time.Second)
				waiter := newMutex(t, waiting, name)
				l := lock(t, holder)
				got := granted(t.Context(), waiter)
				awaitQueue(t, holder, 2)
				e.settle(t, waiting) // its watch is set
				lever.down(t, follower)
				unlock(t, l)
				l = get(t, got, "while its member is "+lever.name)
				lever.up(t, follower)
				mustHold(t, l, "after its member is back")
				unlock(t, l)
			})
		}
	})
}

// survives is the longest outage that holders survive, according to docs/ttl.md
// at a TTL of 10 s or more. ZooKeeper's tick is not given.
func (s site) survives(ttl time.Duration) time.Duration {
	if s.service == "etcd" {
		return ttl * 75 / 100
	}
	return ttl * 45 / 100
}

// leaderless measures the longest time without a leader, until it is called.
// Elections and starts take as long as the servers and the machine need, which
// decides what the test has tested.
func (e *ensemble) leaderless(t *testing.T) (longest func() time.Duration) {
	ctx, stop := context.WithCancel(t.Context())
	result := make(chan time.Duration, 1)
	go func() {
		var longest time.Duration
		last := time.Now()
		for ctx.Err() == nil {
			probe, cancel := context.WithTimeout(ctx, 30*time.Second)
			var err error
			if e.etcd != nil {
				_, err = e.etcd.Leader(probe)
			} else {
				_, err = e.zk.Leader(probe)
			}
			cancel()
			if now := time.Now(); err == nil {
				longest = max(longest, now.Sub(last))
				last = now
			}
			await.For(ctx, 50*time.Millisecond)
		}
		result <- longest
	}()
	return func() time.Duration { stop(); return <-result }
}

// One member after the other is killed and started, among them the leader,
// while locks are held and others are contended for.
func TestRollingRestartLosesNoHolder(t *testing.T) {
	ttl := 20 * time.Second
	if wholeMatrix() {
		ttl = 5 * time.Second // enough on a machine that is not busy
	}
	trio(t, func(t *testing.T, e *ensemble) {
		var holds []*mutex.Lock
		for i := range e.members {
			holds = append(holds, lock(t, newMutex(t, e.at(t, i, ttl), servers.Name(t))))
		}
		workload := e.workload(t, 3, ttl)
		longest := e.leaderless(t)
		for i := range e.members {
			workload.progresses("with all members")
			e.members[i].Kill()
			workload.progresses("with one member down")
			e.start(t, i)
		}
		workload.progresses("after the restarts")
		away := longest()
		workload.finish()
		t.Logf("at a TTL of %v, with no leader for %v at the longest", ttl, away.Round(time.Millisecond))
		if away > e.survives(ttl)*2/3 { // clients need time to find the other members
			servers.Skip(t, "the servers took too long to elect for a rolling restart to be a short outage")
		}
		for _, l := range holds {
			mustHold(t, l, "over the rolling restart")
		}
	})
}

// The outage is as long as docs/ttl.md allows.
func TestHoldsSurviveAShortLossOfQuorum(t *testing.T) {
	const ttl = 24 * time.Second
	expensive(t)
	trio(t, func(t *testing.T, e *ensemble) {
		l := lock(t, newMutex(t, e.client(t, ttl), servers.Name(t)))
		m := newMutex(t, e.client(t, ttl), servers.Name(t))
		busy := lock(t, m)
		got := granted(t.Context(), m)
		awaitQueue(t, m, 2)
		leader := e.leader(t)
		down := []int{leader, (leader + 1) % len(e.members)}
		began := time.Now()
		for _, i := range down {
			e.members[i].Kill()
		}
		await.For(t.Context(), e.survives(ttl)/3)
		for _, i := range down {
			if err := e.members[i].Launch(); err != nil {
				t.Fatal(err)
			}
		}
		for _, i := range down {
			if err := e.members[i].AwaitReady(await.Context(t)); err != nil {
				t.Fatal(err)
			}
		}
		outage := time.Since(began)
		t.Logf("%v without a quorum, at a TTL of %v", outage.Round(time.Millisecond), ttl)
		if outage > e.survives(ttl)-time.Second {
			servers.Skip(t, "the servers took too long to come back for the outage to be a short one")
		}
		mustHold(t, l, "over the short outage")
		unlock(t, busy)
		unlock(t, get(t, got, "after the short outage"))
	})
}

// Holders and waiters notice at their own deadline, although no server can
// notify them, and nothing is granted until the quorum is back.
func TestHoldsEndAtTheDeadlineWithoutAQuorum(t *testing.T) {
	const ttl = 8 * time.Second
	trio(t, func(t *testing.T, e *ensemble) {
		c, name := e.client(t, ttl), servers.Name(t)
		m := newMutex(t, c, name)
		l := lock(t, m)
		waiter := granted(t.Context(), newMutex(t, e.client(t, ttl), name))
		awaitQueue(t, m, 2)
		telling := awaitTelling(t, l.Context(), l.Deadline)
		leader := e.leader(t)
		down := []int{leader, (leader + 1) % len(e.members)}
		for _, i := range down {
			e.members[i].Kill()
		}
		began := time.Now()
		told := telling.wait()
		t.Logf("notified %v after the outage began", told.Sub(began).Round(time.Millisecond))
		telling.before(began.Add(ttl), "the TTL of the outage") // from then on another could be granted the lock
		if cause := context.Cause(l.Context()); !errors.Is(cause, coordinator.ErrSessionLost) {
			t.Errorf("cause %v", cause)
		}
		if g := <-waiter; !errors.Is(g.err, coordinator.ErrSessionLost) {
			t.Errorf("the waiter got %v", g.err)
		}
		late := granted(t.Context(), newMutex(t, e.client(t, 40*time.Second), name)) // a contender that arrives during the outage
		await.For(t.Context(), time.Until(began.Add(2*ttl)))
		select {
		case g := <-late:
			t.Fatalf("Lock = %v, %v without a quorum", g.lock, g.err)
		default:
		}
		for _, i := range down {
			if err := e.members[i].Launch(); err != nil {
				t.Fatal(err)
			}
		}
		next := get(t, late, "after the outage")
		if next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
		awaitQueue(t, newMutex(t, c, name), 1)
		if next.Err() != nil {
			t.Errorf("the next holder: %v", next.Err())
		}
		unlock(t, next)
		unlock(t, lock(t, m)) // on a new session
	})
}

// Every holder and waiter is notified of the loss, by the deadline at the
// latest, and nothing is granted on an entry that no longer exists. Tokens
// restart, as documented.
func TestHoldsEndWhenTheServerLosesItsData(t *testing.T) {
	const ttl = 10 * time.Second
	single(t, func(t *testing.T, e *ensemble) {
		name := servers.Name(t)
		m := newMutex(t, e.client(t, ttl), name)
		l := lock(t, m)
		waiter := granted(t.Context(), newMutex(t, e.client(t, ttl), name))
		awaitQueue(t, m, 2)
		var err error
		if e.etcd != nil {
			err = e.etcd.Node(0).Wipe()
		} else {
			err = e.zk.Node(0).Wipe()
		}
		if err != nil {
			t.Fatal(err)
		}
		began, told := time.Now(), make(chan time.Time, 1)
		context.AfterFunc(l.Context(), func() { told <- time.Now() })
		e.start(t, 0)
		t.Logf("notified %v after the data was lost", (<-told).Sub(began).Round(time.Millisecond))
		// The client may notice the removal of the entry before the end of the
		// session.
		loss := func(err error) bool {
			return errors.Is(err, coordinator.ErrSessionLost) || errors.Is(err, coordinator.ErrRemoved)
		}
		if cause := context.Cause(l.Context()); !loss(cause) {
			t.Errorf("cause %v", cause)
		}
		if g := <-waiter; !loss(g.err) {
			t.Errorf("the waiter got %v, %v", g.lock, g.err)
		}
		next := lock(t, m)
		t.Logf("token %d, after %d in the lost data", next.Token(), l.Token())
		unlock(t, next)
	})
}

// etcd's leadership is transferred from member to member.
func TestLeaderTransferLosesNoHold(t *testing.T) {
	t.Parallel()
	e := ownEtcd(t, etcdserver.Options{Nodes: 3})
	l := lock(t, newMutex(t, e.client(t, 20*time.Second), servers.Name(t)))
	workload := e.workload(t, 3, 20*time.Second)
	clients := map[string]*clientv3.Client{}
	for _, n := range e.etcd.Nodes() {
		clients[n.Endpoint()] = plainEtcd(t, n.Endpoint())
	}
	for range 6 {
		workload.progresses("between two moves")
		var err error
		await.Until(t, "the leader to change", func() bool { // an election may run at the same time
			leader := e.leader(t)
			to := e.etcd.Node((leader + 1) % len(e.members)).Endpoint()
			status, serr := clients[to].Status(within(t, 10*time.Second), to)
			if serr != nil {
				err = serr
				return false
			}
			_, err = clients[e.etcd.Node(leader).Endpoint()].MoveLeader(within(t, 10*time.Second), status.Header.MemberId)
			return err == nil
		})
	}
	workload.progresses("after the last move")
	workload.finish()
	mustHold(t, l, "over the moves")
}

// oldEtcd returns the path of etcd 3.4, the oldest supported version.
func oldEtcd(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("BATON_OLD_ETCD"); path != "" {
		return path
	}
	if cache, err := os.UserCacheDir(); err == nil { // where .ci/deps unpacks it
		if path, err := exec.LookPath(filepath.Join(cache, "baton-integration", "etcd-debian", "usr", "bin", "etcd")); err == nil {
			return path
		}
	}
	return tool(t, "etcd", "etcd-server")
}

// etcd 3.4 is the oldest supported version. The newer ones run the suite in CI,
// from container images (make servers), as do those of ZooKeeper.
func TestConformanceOfTheOldestEtcd(t *testing.T) {
	expensive(t)
	t.Parallel()
	memory := "" // etcd 3.4 cannot disable fsync; in memory it is fast
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		memory = "/dev/shm"
	}
	o := etcdserver.Options{
		Nodes: 1, Binary: oldEtcd(t), Dir: memory,
		Args: []string{"--heartbeat-interval=100", "--election-timeout=1000"},
	}
	e := etcdLevers{Cluster: servers.NewEtcd(t, o)}
	t.Logf("etcd %s", e.Version())
	coordinatortest.Run(t, coordinatortest.Harness{
		Start: e.start, TTL: 3 * time.Second,
		OddTTL: time.Second, GrantedTTL: 2 * time.Second, Lacks: elsewhere,
	})
}

func TestHoldsSurviveALeaderKillOnTheOldestEtcd(t *testing.T) {
	t.Parallel()
	e := ownEtcd(t, etcdserver.Options{Nodes: 3, Binary: oldEtcd(t)})
	l := lock(t, newMutex(t, e.client(t, 20*time.Second), servers.Name(t)))
	workload := e.workload(t, 3, 20*time.Second)
	workload.progresses("with all members")
	leader := e.leader(t)
	e.members[leader].Kill()
	workload.progresses("with another leader")
	e.start(t, leader)
	workload.finish()
	mustHold(t, l, "over the kill")
}

// The leader is removed from the cluster and added again, on etcd without its
// data.
func TestHoldsSurviveTheReplacementOfTheLeader(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, e *ensemble, remove, add func(t *testing.T, leader int)) {
		leader := e.leader(t)
		l := lock(t, newMutex(t, e.at(t, leader, 20*time.Second), servers.Name(t)))
		workload := e.workload(t, 3, 20*time.Second)
		workload.progresses("with all members")
		remove(t, leader)
		workload.progresses("without the old leader")
		add(t, leader)
		workload.progresses("with a new member")
		workload.finish()
		mustHold(t, l, "over the replacement")
	}
	t.Run("etcd-3", func(t *testing.T) {
		t.Parallel()
		e := ownEtcd(t, etcdserver.Options{Nodes: 3})
		do := func(change func(context.Context, *etcdserver.Node) error) func(*testing.T, int) {
			return func(t *testing.T, i int) {
				t.Helper()
				var err error
				await.Until(t, "the change of members", func() bool { // refused while the members are still connecting
					err = change(await.Context(t), e.etcd.Node(i))
					return err == nil
				})
			}
		}
		run(t, e, do(e.etcd.Remove), do(e.etcd.Add))
	})
	t.Run("zookeeper-3", func(t *testing.T) {
		t.Parallel()
		e := ownZooKeeper(t, zkserver.Options{
			Nodes: 3, Config: []string{"reconfigEnabled=true"}, JVM: []string{"-Dzookeeper.skipACL=yes"},
		})
		conn := e.zkConn(t, 30*time.Second)
		line := func(i int) string { // of the configuration, for one member
			config, _, err := conn.Get("/zookeeper/config")
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(config)) {
				if strings.HasPrefix(line, fmt.Sprintf("server.%d=", i+1)) {
					return strings.TrimSpace(line)
				}
			}
			t.Fatalf("member %d is not in the configuration: %s", i, config)
			return ""
		}
		saved := ""
		reconfigure := func(t *testing.T, joining, leaving []string) {
			t.Helper()
			var err error
			await.Until(t, "the change of members", func() bool {
				_, err = conn.IncrementalReconfig(joining, leaving, -1)
				return err == nil
			})
		}
		run(t, e, func(t *testing.T, i int) {
			saved = line(i) + ";" + e.endpoints[i]
			reconfigure(t, nil, []string{strconv.Itoa(i + 1)})
		}, func(t *testing.T, _ int) { reconfigure(t, []string{saved}, nil) })
	})
}
