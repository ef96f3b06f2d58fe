package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/redis"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/pauses"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/redisserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/semaphore"
)

const ttl = 4 * time.Second

func init() { proc.Register("redis-holder", holder) }

// grant is what a worker reports of its lock.
type grant struct {
	Token coordinator.Token
	Lost  bool
}

// holder locks a name, reports its token, and then, for each line that it
// receives, whether it still has the lock.
func holder(ctx context.Context, io *proc.IO, args []string) error {
	c, err := coordinator.Open("redis://" + args[0] + "/tests?ttl=" + ttl.String())
	if err != nil {
		return err
	}
	m, err := mutex.New(c, args[1])
	if err != nil {
		return err
	}
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	for {
		if err := io.Send(grant{l.Token(), l.Err() != nil}); err != nil {
			return err
		}
		var line string
		if err := io.Recv(ctx, &line); err != nil {
			return err
		}
	}
}

// TestNextIsGrantedWhenHolderIsKilled also bounds how long that takes.
func TestNextIsGrantedWhenHolderIsKilled(t *testing.T) {
	t.Parallel()
	s, name := start(t, redisserver.Options{}), servers.Name(t)
	w := proc.Start(t, "redis-holder", s.Addr(), name)
	var dead grant
	w.Recv(&dead)
	m := newMutex(t, open(t, s.Addr(), "ttl=4s"), name)
	w.Kill()
	killed := time.Now()
	l, err := m.Lock(await.Context(t))
	ok(t, err)
	took := time.Since(killed)
	t.Logf("granted %v after the kill; the TTL is %v", took.Round(time.Millisecond), ttl)
	if l.Token() <= dead.Token {
		t.Errorf("token %d after %d", l.Token(), dead.Token)
	}
	ok(t, l.Unlock(t.Context()))
}

// TestManyHoldsOfADeadSessionAreFreed: 300 waiters get their locks when the
// session that held them is over.
func TestManyHoldsOfADeadSessionAreFreed(t *testing.T) {
	t.Parallel()
	const locks = 300
	s, name := start(t, redisserver.Options{}), servers.Name(t)
	link := netproxy.NewNetwork(t, []string{s.Addr()})
	dead, alive := open(t, link.Addrs()[0], "ttl=4s"), open(t, s.Addr(), "ttl=4s")
	ctx := await.Context(t)
	for i := range locks {
		_, err := newMutex(t, dead, fmt.Sprint(name, i)).Lock(ctx)
		ok(t, err)
	}
	link.Each((*netproxy.Proxy).Cut)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range locks {
		m := newMutex(t, alive, fmt.Sprint(name, i))
		wg.Go(func() {
			if _, err := m.Lock(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d locks of a lost session were granted %v after it was cut off", locks, time.Since(began).Round(time.Millisecond))
}

// TestStoppedHolderIsRefusedByTheGate: a stopped process goes on after its TTL,
// when another holds.
func TestStoppedHolderIsRefusedByTheGate(t *testing.T) {
	t.Parallel()
	s, name := start(t, redisserver.Options{}), servers.Name(t)
	w := proc.Start(t, "redis-holder", s.Addr(), name)
	var old grant
	w.Recv(&old)
	ok(t, w.Pause())
	l, err := newMutex(t, open(t, s.Addr(), "ttl=4s"), name).Lock(await.Context(t))
	ok(t, err)
	seq, err := l.Sequencer(t.Context())
	ok(t, err)
	gate := fence.NewGate(seq.Scope)
	ok(t, gate.Check(t.Context(), seq))
	ok(t, w.Resume())
	late := seq
	late.Token = old.Token
	if err := gate.Check(t.Context(), late); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the gate on the late token %d after %d: %v", old.Token, seq.Token, err)
	}
	w.Send("still?")
	var now grant
	if w.Recv(&now); !now.Lost {
		t.Error("the holder that was stopped for longer than its TTL still has its lock")
	}
	ok(t, l.Err())
	ok(t, l.Unlock(t.Context()))
}

// TestPausedWritersLoseNoUpdate: the register checks tokens.
func TestPausedWritersLoseNoUpdate(t *testing.T) {
	t.Parallel()
	s := start(t, redisserver.Options{})
	pauses.LoseNoUpdate(t, "redis://"+s.Addr()+"/tests", servers.Name(t))
}

// TestHoldSurvivesAKilledServer: a server with appendonly is killed and comes
// back within the TTL. The holder and the queue behind it are as before, and
// the token rises.
func TestHoldSurvivesAKilledServer(t *testing.T) {
	t.Parallel()
	s, name := start(t, redisserver.Options{AppendOnly: true}), servers.Name(t)
	ca, cb := open(t, s.Addr(), "ttl=20s"), open(t, s.Addr(), "ttl=20s")
	a, b := newMutex(t, ca, name), newMutex(t, cb, name)
	ctx := await.Context(t)
	l, err := a.Lock(ctx)
	ok(t, err)
	next := make(chan *mutex.Lock, 1)
	go func() {
		n, err := b.Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		next <- n
	}()
	awaitContenders(t, a, 2)
	ok(t, s.Restart(ctx))
	ok(t, l.Err())
	awaitContenders(t, a, 2)
	settle(t, ca, cb)
	select {
	case n := <-next:
		t.Fatalf("granted %v beside the holder", n)
	default:
	}
	ok(t, l.Unlock(ctx))
	n := <-next
	if n.Token() <= l.Token() {
		t.Errorf("token %d after %d", n.Token(), l.Token())
	}
	ok(t, n.Unlock(ctx))
}

// TestTokensRiseThoughTheServerForgot: a server without appendonly comes back
// empty, and the lost holder's token is below the next.
func TestTokensRiseThoughTheServerForgot(t *testing.T) {
	t.Parallel()
	s, name := start(t, redisserver.Options{}), servers.Name(t)
	ctx := await.Context(t)
	l, err := newMutex(t, open(t, s.Addr(), "ttl=4s"), name).Lock(ctx)
	ok(t, err)
	ok(t, s.Restart(ctx))
	n, err := newMutex(t, open(t, s.Addr(), "ttl=4s"), name).Lock(ctx)
	ok(t, err)
	if n.Token() <= l.Token() {
		t.Errorf("token %d after %d", n.Token(), l.Token())
	}
	select {
	case <-l.Context().Done():
		if !errors.Is(context.Cause(l.Context()), coordinator.ErrSessionLost) {
			t.Error(context.Cause(l.Context()))
		}
	case <-ctx.Done():
		t.Error("the holder was not notified")
	}
	ok(t, n.Unlock(ctx))
}

// settle waits until a client has handled what the server sent it before: a
// release of another name is sent to it later.
func settle(t *testing.T, from, to *coordinator.Client) {
	t.Helper()
	ctx, name := await.Context(t), servers.Name(t)
	before, behind := newMutex(t, from, name), newMutex(t, to, name)
	for range 2 {
		l, err := before.Lock(ctx)
		ok(t, err)
		next := startLock(ctx, t, behind)
		awaitContenders(t, before, 2)
		ok(t, l.Unlock(ctx))
		ok(t, next().Unlock(ctx))
	}
}

// startLock locks in the background, and returns what waits for the grant.
func startLock(ctx context.Context, t *testing.T, m *mutex.Mutex) (granted func() *mutex.Lock) {
	t.Helper()
	var l *mutex.Lock
	over := make(chan error, 1)
	go func() {
		var err error
		l, err = m.Lock(ctx)
		over <- err
	}()
	return func() *mutex.Lock {
		t.Helper()
		ok(t, <-over)
		return l
	}
}

func awaitContenders(t *testing.T, m *mutex.Mutex, n int) {
	t.Helper()
	await.State(t, fmt.Sprintf("%d contenders", n), func() (string, bool) {
		all, err := m.Contenders(t.Context())
		return fmt.Sprintf("%d, %v", len(all), err), err == nil && len(all) == n
	})
}

// TestPartitionedHolderIsNotifiedBeforeTheNextGrant cuts holders off in random
// phases of their renewals. BATON_PARTITIONS says how many.
func TestPartitionedHolderIsNotifiedBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	runs, err := strconv.Atoi(os.Getenv("BATON_PARTITIONS"))
	if err != nil {
		runs = 6
	}
	s := start(t, redisserver.Options{})
	var wg sync.WaitGroup
	slots := make(chan struct{}, 10)
	for i := range runs {
		c, name := netproxy.NewNetwork(t, []string{s.Addr()}), servers.Name(t)
		held, next := open(t, c.Addrs()[0], "ttl="+ttl.String()), open(t, s.Addr(), "ttl=20s")
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := partition(t.Context(), t, c, i, held, next, name); err != nil {
				t.Errorf("run %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func partition(ctx context.Context, t *testing.T, c *netproxy.Network, i int, held, next *coordinator.Client, name string) error {
	h, err := mutex.New(held, name)
	if err != nil {
		return err
	}
	n, err := mutex.New(next, name)
	if err != nil {
		return err
	}
	l, err := h.Lock(ctx)
	if err != nil {
		return err
	}
	told := make(chan time.Time, 1)
	context.AfterFunc(l.Context(), func() { told <- time.Now() })
	granted := make(chan error, 1)
	go func() {
		n, err := n.Lock(ctx)
		select {
		case <-l.Context().Done():
		default:
			err = errors.Join(err, fmt.Errorf("LATE: granted %v before the holder was notified", n))
		}
		granted <- err
	}()
	await.For(ctx, ttl/4+time.Duration(rand.Int64N(int64(ttl/4))))
	[]func(){func() { c.Each((*netproxy.Proxy).Cut) }, c.HoldRequests, c.HoldReplies}[i%3]()
	err = <-granted
	at := time.Now()
	select {
	case when := <-told:
		t.Logf("run %d: notified %v before the next grant", i, at.Sub(when).Round(time.Millisecond))
	case <-ctx.Done():
		return errors.New("the holder was never notified")
	}
	c.Heal()
	if e := l.Unlock(ctx); !errors.Is(e, coordinator.ErrSessionLost) {
		err = errors.Join(err, fmt.Errorf("unlock of the lost lock: %w", e))
	}
	return err
}

// TestFailoverThatForgetsAGrant shows what package redis says first: a lagging
// replica is promoted, and two hold. The holders' tokens are in the right
// order, and the register refuses the late one.
func TestFailoverThatForgetsAGrant(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	master := start(t, redisserver.Options{})
	replication, service := netproxy.NewNetwork(t, []string{master.Addr()}), netproxy.NewNetwork(t, []string{master.Addr()})
	replica := start(t, redisserver.Options{Config: []string{
		"replicaof 127.0.0.1 " + strconv.Itoa(portOf(t, replication.Addrs()[0])),
	}})
	awaitInfo(t, replica, "master_link_status", "up")

	a, b := newMutex(t, open(t, service.Addrs()[0], "ttl=20s"), name), newMutex(t, open(t, replica.Addr(), "ttl=20s"), name)
	first, err := a.Lock(ctx) // the session, and this lock, reach the replica
	ok(t, err)
	awaitKey(t, replica, "baton:{/tests}:q:mutex/"+name, 1)
	ok(t, first.Unlock(ctx))
	awaitKey(t, replica, "baton:{/tests}:q:mutex/"+name, 0)

	replication.Each((*netproxy.Proxy).Cut) // the replica lags
	forgotten, err := a.Lock(ctx)
	ok(t, err)
	_, err = replica.Do(ctx, "REPLICAOF", "NO", "ONE")
	ok(t, err)
	second, err := b.Lock(ctx)
	ok(t, err)

	if forgotten.Err() != nil || second.Err() != nil {
		t.Fatalf("no two holders: %v, %v: the test shows nothing", forgotten.Err(), second.Err())
	}
	t.Logf("two holders, with tokens %d and %d", forgotten.Token(), second.Token())
	if second.Token() <= forgotten.Token() {
		t.Errorf("the second holder's token %d is not above %d", second.Token(), forgotten.Token())
	}
	r := &register{}
	for _, l := range []*mutex.Lock{forgotten, second} {
		seq, err := l.Sequencer(ctx)
		ok(t, err)
		ok(t, r.write(ctx, seq, fmt.Sprint("of ", l.Token())))
	}
	late, err := forgotten.Sequencer(ctx) // it believes that it holds
	ok(t, err)
	if err := r.write(ctx, late, "late"); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the late write: %v", err)
	}
	if r.value != fmt.Sprint("of ", second.Token()) {
		t.Errorf("the register has %q", r.value)
	}

	// The first holder learns of its loss when it reaches the new master, which
	// has its session but not its entry.
	for _, p := range service.Proxies() {
		p.Use(replica.Addr())
		p.Reset()
	}
	select {
	case <-forgotten.Context().Done():
		t.Logf("the first holder was notified: %v", context.Cause(forgotten.Context()))
	case <-ctx.Done():
		t.Error("the first holder was not notified")
	}
	if err := forgotten.Unlock(ctx); err == nil {
		t.Error("the forgotten lock was unlocked")
	}
	ok(t, second.Err())
	ok(t, second.Unlock(ctx))
}

// TestFailoverThatForgetsAReleaseFreesTheName: the promoted replica still has
// the entry, and its session lives. The session notices that it has left, and
// removes the entry; its other locks stay.
func TestFailoverThatForgetsAReleaseFreesTheName(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	master := start(t, redisserver.Options{})
	replication, service := netproxy.NewNetwork(t, []string{master.Addr()}), netproxy.NewNetwork(t, []string{master.Addr()})
	replica := start(t, redisserver.Options{Config: []string{
		"replicaof 127.0.0.1 " + strconv.Itoa(portOf(t, replication.Addrs()[0])),
	}})
	awaitInfo(t, replica, "master_link_status", "up")
	c := open(t, service.Addrs()[0], "ttl=10s")
	kept, err := newMutex(t, c, name+"-kept").Lock(ctx)
	ok(t, err)
	l, err := newMutex(t, c, name).Lock(ctx)
	ok(t, err)
	again, err := newMutex(t, c, name+"-again").Lock(ctx)
	ok(t, err)
	awaitKey(t, replica, "baton:{/tests}:q:mutex/"+name+"-again", 1)
	replication.Each((*netproxy.Proxy).Cut) // the replica lags
	ok(t, l.Unlock(ctx))
	awaitKey(t, replica, "baton:{/tests}:q:mutex/"+name, 1)
	_, err = replica.Do(ctx, "REPLICAOF", "NO", "ONE")
	ok(t, err)
	for _, p := range service.Proxies() {
		p.Use(replica.Addr())
		p.Reset()
	}
	ok(t, again.Unlock(ctx)) // one more release hides none
	next, err := newMutex(t, open(t, replica.Addr(), "ttl=20s"), name).Lock(ctx)
	ok(t, err)
	ok(t, next.Unlock(ctx))
	ok(t, kept.Err())
	ok(t, kept.Unlock(ctx))
}

// register is a resource that refuses late writes. Its gate knows tokens alone,
// as the two holders name different servers.
type register struct {
	mu    sync.Mutex
	gate  *fence.Gate
	scope fence.Scope
	value string
}

func (r *register) write(ctx context.Context, s fence.Sequencer, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate == nil {
		r.gate, r.scope = fence.NewGate(s.Scope), s.Scope
	}
	s.Scope = r.scope
	return r.gate.Do(ctx, s, func(context.Context) error {
		r.value = value
		return nil
	})
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	u, err := url.Parse("redis://" + addr)
	ok(t, err)
	port, err := strconv.Atoi(u.Port())
	ok(t, err)
	return port
}

func awaitInfo(t *testing.T, s *redisserver.Server, name, want string) {
	t.Helper()
	await.State(t, "the server", func() (string, bool) {
		got, err := s.Info(t.Context(), name)
		return fmt.Sprintf("%s of %s is %q, %v; want %q", name, s.Addr(), got, err, want), got == want
	})
}

// awaitKey waits until a server has a key (1) or does not (0).
func awaitKey(t *testing.T, s *redisserver.Server, key string, want int64) {
	t.Helper()
	await.State(t, "the server", func() (string, bool) {
		n, err := s.Do(t.Context(), "EXISTS", key)
		return fmt.Sprintf("%v keys %q at %s, %v; want %d", n, key, s.Addr(), err, want), n == want
	})
}

// TestSentinelFailover: the master is killed, Sentinel promotes its replica,
// and a client that knows the Sentinel goes on there.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	master := start(t, redisserver.Options{})
	replica := start(t, redisserver.Options{Config: []string{
		"replicaof 127.0.0.1 " + strconv.Itoa(master.Port()),
	}})
	awaitInfo(t, replica, "master_link_status", "up")
	sentinel := start(t, redisserver.Options{Sentinel: true, Config: []string{
		"sentinel monitor main 127.0.0.1 " + strconv.Itoa(master.Port()) + " 1",
		"sentinel down-after-milliseconds main 1000",
		"sentinel failover-timeout main 5000",
	}})
	await.State(t, "the server", func() (string, bool) {
		text, err := sentinel.Info(ctx, "master0")
		return fmt.Sprintf("sentinel knows %q, %v", text, err), err == nil && strings.Contains(text, "slaves=1")
	})
	a, b := newMutex(t, open(t, sentinel.Addr(), "master=main&ttl=20s"), name), newMutex(t, open(t, sentinel.Addr(), "master=main&ttl=20s"), name)
	l, err := a.Lock(ctx)
	ok(t, err)
	next := startLock(ctx, t, b)
	awaitContenders(t, a, 2)
	awaitKey(t, replica, "baton:{/tests}:q:mutex/"+name, 1)
	await.State(t, "the server", func() (string, bool) { // both entries have arrived
		count, err := replica.Do(ctx, "ZCARD", "baton:{/tests}:q:mutex/"+name)
		return fmt.Sprintf("%v entries, %v", count, err), count == int64(2)
	})
	master.Kill()
	awaitInfo(t, replica, "role", "master")
	ok(t, l.Err()) // the failover took less than the TTL
	ok(t, l.Unlock(ctx))
	n := next()
	if n.Token() <= l.Token() {
		t.Errorf("token %d after %d", n.Token(), l.Token())
	}
	ok(t, n.Unlock(ctx))
}

// TestWaiterIsWokenThoughItsSubscriptionBroke: the message is lost with its
// connection.
func TestWaiterIsWokenThoughItsSubscriptionBroke(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	s := start(t, redisserver.Options{})
	c, asked := counted(t, s)
	a, b := newMutex(t, open(t, s.Addr(), "ttl=20s"), name), newMutex(t, c, name)
	for range 5 {
		l, err := a.Lock(ctx)
		ok(t, err)
		next := startLock(ctx, t, b)
		awaitWatches(t, s, name, l.Token(), 1)
		requests := int64(0)
		await.Steady(t, "the waiter to rely on its subscription", func() int64 {
			requests += int64(asked.since())
			return requests
		})
		_, err = s.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub")
		ok(t, err)
		ok(t, l.Unlock(ctx))
		n := next()
		ok(t, n.Unlock(ctx))
	}
}

// awaitWatches waits until an entry of a mutex is watched by n subscribed
// sessions of others than its own, and returns all that watch it.
func awaitWatches(t *testing.T, s *redisserver.Server, name string, token coordinator.Token, n int) (sessions []string) {
	t.Helper()
	c := s.Client()
	defer c.Close()
	const prefix = "baton:{/tests}:"
	queue := prefix + "q:mutex/" + name
	key := fmt.Sprint(queue, ":", token)
	await.State(t, "the server", func() (string, bool) {
		own, err := c.ZRangeArgs(t.Context(), goredis.ZRangeArgs{Key: queue, ByScore: true, Start: token.String(), Stop: token.String()}).Result()
		all, e := c.ZRangeArgs(t.Context(), goredis.ZRangeArgs{Key: prefix + "index", ByLex: true, Start: "[" + key + " ", Stop: "(" + key + "!"}).Result()
		sessions = nil
		others := 0
		for _, w := range all {
			_, session, _ := strings.Cut(w, " ")
			sessions = append(sessions, session)
			channel := prefix + "sessions:" + session
			up, _ := c.PubSubNumSub(t.Context(), channel).Result()
			if up[channel] == 1 && !strings.Contains(strings.Join(own, ""), " "+session+"\n") {
				others++
			}
		}
		return fmt.Sprintf("%s is watched by %v, %v", key, all, errors.Join(err, e)), err == nil && e == nil && others == n
	})
	return sessions
}

// TestRightsToANamespaceSuffice: without a right to channels, as Redis 7 makes
// a new user, waiters poll.
func TestRightsToANamespaceSuffice(t *testing.T) {
	t.Parallel()
	for _, channels := range []string{"resetchannels", "&baton:{/tests}:*"} {
		t.Run(channels, func(t *testing.T) { rightsSuffice(t, channels) })
	}
}

func rightsSuffice(t *testing.T, channels string) {
	ctx, name := await.Context(t), servers.Name(t)
	s := start(t, redisserver.Options{})
	_, err := s.Do(ctx, "ACL", "SETUSER", "app", "on", ">secret", "resetkeys", "resetchannels", channels,
		"~baton:{/tests}:*", "+@all", "-@dangerous")
	ok(t, err)
	a, b := newMutex(t, open(t, "app:secret@"+s.Addr(), "ttl=20s"), name), newMutex(t, open(t, "app:secret@"+s.Addr(), "ttl=20s"), name)
	l, err := a.Lock(ctx)
	ok(t, err)
	next := make(chan error, 1)
	go func() {
		n, err := b.Lock(ctx)
		if err == nil {
			err = n.Unlock(ctx)
		}
		next <- err
	}()
	awaitContenders(t, a, 2)
	if channels != "resetchannels" {
		awaitWatches(t, s, name, l.Token(), 1) // by a session that is subscribed
	}
	ok(t, l.Unlock(ctx))
	ok(t, <-next)
}

// TestHoldSurvivesAFullServer: over its maxmemory Redis refuses joins, and the
// error says so. Sessions are renewed, locks released, and waiters wait.
func TestHoldSurvivesAFullServer(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	s := start(t, redisserver.Options{})
	c := open(t, s.Addr(), "ttl=8s")
	l, err := newMutex(t, c, name).Lock(ctx)
	ok(t, err)
	next := make(chan error, 1)
	go func() {
		_, err := newMutex(t, open(t, s.Addr(), "ttl=20s"), name).Lock(ctx)
		next <- err
	}()
	awaitWatches(t, s, name, l.Token(), 1)
	_, err = s.Do(ctx, "CONFIG", "SET", "maxmemory", "1")
	ok(t, err)
	_, err = s.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub") // the waiter watches again
	ok(t, err)
	before := l.Deadline()
	_, err = newMutex(t, c, name+"-other").Lock(ctx)
	if !errors.Is(err, coordinator.ErrRefused) || !strings.Contains(err.Error(), "maxmemory") {
		t.Errorf("a join of a full server: %v", err)
	}
	await.State(t, "the server", func() (string, bool) {
		return "the session is not renewed", l.Deadline().After(before.Add(2 * time.Second))
	})
	select {
	case err := <-next:
		t.Fatalf("a waiter on a full server: %v", err)
	default:
	}
	ok(t, l.Unlock(ctx))
	ok(t, <-next)
	ok(t, c.Close(ctx))
}

// counting counts the commands that a client sends.
type counting struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *counting) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (c *counting) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (c *counting) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		c.mu.Lock()
		c.counts[cmd.Name()]++
		c.mu.Unlock()
		return next(ctx, cmd)
	}
}

// since returns how many scripts were run, and starts again at zero.
func (c *counting) since() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.counts["evalsha"]
	c.counts = map[string]int{}
	return n
}

// counted makes a client whose requests are counted.
func counted(t *testing.T, s *redisserver.Server) (*coordinator.Client, *counting) {
	t.Helper()
	r := s.Client()
	count := &counting{counts: map[string]int{}}
	r.AddHook(count)
	d, err := redis.FromClient(r, "tests")
	ok(t, err)
	c, err := coordinator.New(d, coordinator.WithTTL(10*time.Minute))
	ok(t, err)
	t.Cleanup(func() {
		_ = c.Close(context.Background())
		_ = r.Close()
	})
	return c, count
}

// TestAcquireBesideAHolderIsTwoRequests: its view shows that the limit which it
// joined with was in force.
func TestAcquireBesideAHolderIsTwoRequests(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	s := start(t, redisserver.Options{})
	c, count := counted(t, s)
	mine, err := semaphore.New(c, name, 3)
	ok(t, err)
	other, err := semaphore.New(open(t, s.Addr(), "ttl=10m"), name, 3)
	ok(t, err)
	_, err = other.Acquire(ctx, 1)
	ok(t, err)
	var took []int
	for range 11 {
		p, err := mine.Acquire(ctx, 1)
		ok(t, err)
		took = append(took, count.since())
		ok(t, p.Release(ctx))
		count.since()
	}
	took = took[1:] // the first opens a session
	slices.Sort(took)
	if took[0] != 2 || took[5] != 2 {
		t.Errorf("requests of an Acquire: %v; want 2", took)
	}
	ok(t, other.SetLimit(ctx, 1))
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	stored, err := semaphore.New(c, name, semaphore.Stored)
	ok(t, err)
	if p, err := stored.Acquire(short, 1); err == nil {
		t.Errorf("a permit beside another at the limit 1: %v", p.Token())
	}
}

func TestUncontendedPairIsTwoRequests(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	c, count := counted(t, start(t, redisserver.Options{}))
	m := newMutex(t, c, name)
	var took []int
	for range 11 {
		l, err := m.Lock(ctx)
		ok(t, err)
		ok(t, l.Unlock(ctx))
		took = append(took, count.since())
	}
	took = took[1:] // the first opens a session
	slices.Sort(took)
	if took[0] != 2 || took[5] != 2 { // a hold of a second is watched, on a slow machine
		t.Errorf("pairs took %v requests, want 2", took)
	}
}

// TestReleaseWakesOneWaiter: each waiter has a subscription to its predecessor
// alone, so a release is one message to one client, which holds after one
// request, and the others send nothing.
func TestReleaseWakesOneWaiter(t *testing.T) {
	t.Parallel()
	const waiters = 8
	ctx, name := await.Context(t), servers.Name(t)
	s := start(t, redisserver.Options{})
	c, _ := counted(t, s)
	m := newMutex(t, c, name)
	l, err := m.Lock(ctx)
	ok(t, err)
	counts, granted := make([]*counting, waiters), make(chan *mutex.Lock, waiters)
	for i := range waiters {
		var w *coordinator.Client
		w, counts[i] = counted(t, s)
		next := newMutex(t, w, name)
		go func() {
			if l, err := next.Lock(ctx); err == nil {
				granted <- l
			}
		}()
		awaitContenders(t, m, i+2)
	}
	r := s.Client()
	defer r.Close()
	await.State(t, "the server", func() (string, bool) { // after a while each contender watches its own entry too
		n, err := r.ZLexCount(ctx, "baton:{/tests}:index", "[baton:", "(baton;").Result()
		return fmt.Sprintf("%d watches, %v", n, err), n == 2*waiters+1
	})
	entries, err := m.Contenders(ctx)
	ok(t, err)
	for i, e := range entries[:waiters] {
		for _, session := range awaitWatches(t, s, name, e.Token, 1) {
			if session != e.Session && session != entries[i+1].Session {
				t.Errorf("entry %d is watched by %v", i, session)
			}
		}
	}
	requests := int64(0)
	await.Steady(t, "the answers to the last subscriptions", func() int64 {
		for _, c := range counts {
			requests += int64(c.since())
		}
		return requests
	})
	awake, asked := 0, 0
	for turn := range waiters {
		for _, c := range counts {
			c.since()
		}
		ok(t, l.Unlock(ctx))
		l = <-granted
		asked += counts[turn].since()
		for i, c := range counts[turn+1:] {
			if n := c.since(); n > 1 { // a waiter may poll meanwhile
				t.Errorf("waiter %d sent %d requests while another was admitted", turn+1+i, n)
			} else {
				awake += n
			}
		}
	}
	if asked > waiters+waiters/2 {
		t.Errorf("%d admitted waiters sent %d requests", waiters, asked)
	}
	if awake > waiters/2 {
		t.Errorf("waiters that were not admitted sent %d requests in %d handoffs", awake, waiters)
	}
	ok(t, l.Unlock(ctx))
}

// TestReadsOfAReplicaAreRefused: connections stay when their server becomes a
// replica. It lags, and would show an old queue or record.
func TestReadsOfAReplicaAreRefused(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	server := start(t, redisserver.Options{})
	d, err := redis.Open(&url.URL{Scheme: "redis", Host: server.Addr(), Path: "/tests"})
	ok(t, err)
	defer d.Close(ctx)
	s, err := d.Open(ctx, time.Minute)
	ok(t, err)
	queue := driver.NewQueue("mutex", name)
	own, err := s.Join(ctx, queue, driver.Contender{ID: "0123456789abcdef", Mode: "x"})
	ok(t, err)
	_, err = server.Do(ctx, "REPLICAOF", "127.0.0.1", "1")
	ok(t, err)
	for read, err := range map[string]error{
		"Ahead":                               second(s.Ahead(ctx, queue, own.Place)),
		"List":                                second(s.List(ctx, queue, 0)),
		"Record":                              second(s.Record(ctx, queue, driver.Any)),
		"Watch":                               s.Watch(ctx, queue, own.Place),
		"Watch of an entry that is not there": s.Watch(ctx, queue, driver.Place{Key: "1", ID: "0123456789abcdee"}),
		"Leave of an entry that is not there": s.Leave(ctx, queue, driver.Place{Key: "1", ID: "0123456789abcdee"}),
		"Join of an entry that is there":      second(s.Join(ctx, queue, driver.Contender{ID: "0123456789abcdef", Mode: "x", Again: true})),
		"Join that is refused":                second(s.Join(ctx, queue, driver.Contender{ID: "0123456789abcdee", Mode: "x", Alone: true})),
		"SetRecord":                           second(s.SetRecord(ctx, queue, []byte("value"), 7)),
	} {
		if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "replica") {
			t.Errorf("%s: %v", read, err)
		}
	}
	_, err = server.Do(ctx, "REPLICAOF", "NO", "ONE")
	ok(t, err)
	ok(t, s.Leave(ctx, queue, own.Place))
	ok(t, s.Forget(ctx, queue, "0123456789abcdee"))
}

func second[T any](_ T, err error) error { return err }
