package interop_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	theirs "go.etcd.io/etcd/client/v3/concurrency"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/recipes/concurrency"
)

func init() { proc.Register("drop-in", worker(openDropIn)) }

// openDropIn is openConcurrency with the drop-in's import.
func openDropIn(ctx context.Context, args []string, recipe, path string) (contender, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(args[0], ",")})
	if err != nil {
		return nil, err
	}
	ttl, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	s, err := concurrency.NewSession(c, concurrency.WithTTL(ttl), concurrency.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if recipe == "election" {
		e := concurrency.NewElection(s, path)
		return func(ctx context.Context) (int64, func(context.Context) error, error) {
			err := e.Campaign(ctx, "drop-in")
			return e.Rev(), e.Resign, err
		}, nil
	}
	m := concurrency.NewMutex(s, path)
	return func(ctx context.Context) (int64, func(context.Context) error, error) {
		if err := m.Lock(ctx); err != nil {
			return 0, nil, err
		}
		return m.Header().Revision, m.Unlock, nil
	}, nil
}

func (s etcdSite) dropIn(t *testing.T, ttl time.Duration) party {
	return goParty(t, "drop-in", s.addresses(), fmt.Sprint(ttl.Seconds()))
}

// Some processes of a fleet have changed the import.
func TestDropInSharesLocksWithConcurrency(t *testing.T) {
	s := newEtcdSite(t)
	for _, recipe := range []string{"mutex", "election"} {
		t.Run(recipe, func(t *testing.T) {
			t.Parallel()
			name := "/interop/drop-in-" + recipe
			pair(t, name, s.dropIn, recipe, s.concurrency, recipe)
		})
	}
}

func (s etcdSite) client(t *testing.T) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.endpoints})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func session(t *testing.T, c *clientv3.Client) *concurrency.Session {
	t.Helper()
	s, err := concurrency.NewSession(c, concurrency.WithTTL(5))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func check(t *testing.T, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("%v, want %v", err, w)
		}
	}
	if len(want) == 0 && err != nil {
		t.Error(err)
	}
}

func TestDropInMutex(t *testing.T) {
	c := newEtcdSite(t).client(t)
	s, ctx := session(t, c), bounded(t)
	const name = "/interop/mutex-methods"
	m, same := concurrency.NewMutex(s, name), concurrency.NewMutex(s, name)
	check(t, m.Unlock(ctx), concurrency.ErrLockReleased)
	check(t, m.Lock(ctx))
	if want := name + "/" + strconv.FormatInt(int64(s.Lease()), 16); m.Key() != want {
		t.Errorf("key %q, want %q", m.Key(), want)
	}
	owns := func() bool {
		resp, err := c.Txn(ctx).If(m.IsOwner()).Commit()
		check(t, err)
		return resp.Succeeded
	}
	kv, err := c.Get(ctx, m.Key())
	check(t, err)
	if !owns() || len(kv.Kvs) != 1 || kv.Kvs[0].CreateRevision != m.Header().Revision || kv.Kvs[0].Lease != int64(s.Lease()) {
		t.Errorf("owner %v, header %v, %v", owns(), m.Header(), kv.Kvs)
	}
	check(t, same.TryLock(ctx), concurrency.ErrLocked) // another Mutex of the same session
	other, err := theirs.NewSession(c)
	check(t, err)
	check(t, theirs.NewMutex(other, name).TryLock(ctx), theirs.ErrLocked)
	check(t, other.Close())
	second := make(chan error, 1)
	go func() { second <- same.Lock(ctx) }()
	await.For(ctx, settle)
	select {
	case err := <-second:
		t.Errorf("two locks of one session: %v", err)
	default:
	}
	check(t, m.Unlock(ctx))
	check(t, <-second)
	if same.Key() == m.Key() || !strings.HasPrefix(same.Key(), name+"/") || owns() {
		t.Errorf("keys %q, %q", same.Key(), m.Key())
	}
	check(t, same.Unlock(ctx))
	check(t, same.Unlock(ctx), concurrency.ErrLockReleased)
	check(t, m.TryLock(ctx))

	// The session ends: its lease is revoked while one contender holds and
	// another waits.
	waits := make(chan error, 1)
	go func() { waits <- same.Lock(ctx) }()
	await.For(ctx, settle)
	_, err = c.Revoke(ctx, s.Lease())
	check(t, err)
	<-s.Done()
	check(t, s.Ctx().Err(), context.Canceled)
	if err := <-waits; err == nil { // the waiter has another lease, and was admitted until the session noticed its end
		check(t, same.Unlock(ctx), concurrency.ErrSessionExpired)
	} else {
		check(t, err, concurrency.ErrSessionExpired)
	}
	check(t, m.Unlock(ctx), concurrency.ErrSessionExpired)
	check(t, m.Lock(ctx), concurrency.ErrSessionExpired)

	l := concurrency.NewLocker(session(t, c), name)
	var wg sync.WaitGroup
	n := 0
	for range 10 { // of one session
		wg.Go(func() {
			l.Lock()
			defer l.Unlock()
			n++
		})
	}
	wg.Wait()
	if n != 10 {
		t.Errorf("%d", n)
	}
	check(t, concurrency.NewMutex(session(t, c), "").Lock(ctx), coordinator.ErrInvalid)
}

func TestDropInElection(t *testing.T) {
	c := newEtcdSite(t).client(t)
	s, ctx := session(t, c), bounded(t)
	const name = "/interop/election-methods"
	e := concurrency.NewElection(s, name)
	_, err := e.Leader(ctx)
	check(t, err, concurrency.ErrElectionNoLeader)
	check(t, e.Proclaim(ctx, "x"), concurrency.ErrElectionNotLeader)
	check(t, e.Resign(ctx))
	observing, stop := context.WithCancel(ctx)
	seen := concurrency.NewElection(session(t, c), name).Observe(observing)
	told := func(key, value string) {
		t.Helper()
		for {
			select {
			case resp := <-seen:
				if string(resp.Kvs[0].Key) == key && string(resp.Kvs[0].Value) == value {
					return
				}
			case <-ctx.Done():
				t.Fatalf("%s was not observed", value)
			}
		}
	}
	check(t, e.Campaign(ctx, "one"))
	told(e.Key(), "one")
	check(t, e.Proclaim(ctx, "two"))
	told(e.Key(), "two")
	check(t, e.Campaign(ctx, "three")) // a Campaign of the leader proclaims
	told(e.Key(), "three")
	other, err := theirs.NewSession(c)
	check(t, err)
	theirsE := theirs.NewElection(other, name)
	resp, err := theirsE.Leader(ctx)
	check(t, err)
	if kv := resp.Kvs[0]; string(kv.Key) != e.Key() || string(kv.Value) != "three" || kv.CreateRevision != e.Rev() || kv.Lease != int64(s.Lease()) {
		t.Errorf("theirs sees %v", kv)
	}

	// Another client resumes it by its key.
	again := concurrency.ResumeElection(session(t, c), name+"/", e.Key(), e.Rev())
	check(t, again.Proclaim(ctx, "four"))
	told(e.Key(), "four")
	check(t, again.Resign(ctx))
	if again.Key() != "" || again.Header().GetRevision() <= e.Rev() {
		t.Errorf("resumed: key %q, header %v", again.Key(), again.Header())
	}
	check(t, theirsE.Campaign(ctx, "theirs"))
	told(theirsE.Key(), "theirs")
	ours, err := election.New(batonClient(t, "etcd://"+newEtcdSite(t).addresses()+"?layout=concurrency"), name)
	check(t, err)
	leader, err := ours.Leader(ctx)
	check(t, err)
	if string(leader.Payload) != "theirs" || int64(leader.Token) != theirsE.Rev() || leader.Session != fmt.Sprintf("%016x", int64(other.Lease())) {
		t.Errorf("Baton sees %+v", leader)
	}
	check(t, e.Proclaim(ctx, "late"), concurrency.ErrElectionNotLeader)
	check(t, theirsE.Resign(ctx))
	check(t, other.Close())
	stop()
	for range seen { // closed soon
	}
}

// Contenders of one session need additional leases.
func TestDropInSessions(t *testing.T) {
	c := newEtcdSite(t).client(t)
	ctx := bounded(t)
	left := func(id clientv3.LeaseID) bool {
		resp, err := c.TimeToLive(ctx, id)
		check(t, err)
		return resp.TTL > 0
	}
	orphan := session(t, c)
	check(t, concurrency.NewMutex(orphan, "/interop/orphan").Lock(ctx))
	orphan.Orphan()
	if <-orphan.Done(); !left(orphan.Lease()) {
		t.Error("an orphaned session's lease has ended")
	}
	closed := session(t, c)
	m, more := concurrency.NewMutex(closed, "/interop/closed"), concurrency.NewMutex(closed, "/interop/closed")
	check(t, m.Lock(ctx))
	second := make(chan error, 1)
	go func() { second <- more.Lock(ctx) }()
	var keys []clientv3.LeaseID
	await.Until(t, "two keys", func() bool {
		resp, err := c.Get(ctx, "/interop/closed/", clientv3.WithPrefix())
		check(t, err)
		keys = nil
		for _, kv := range resp.Kvs {
			keys = append(keys, clientv3.LeaseID(kv.Lease))
		}
		return len(keys) >= 2
	})
	if len(keys) != 2 || keys[0] == keys[1] {
		t.Fatalf("leases %v", keys)
	}
	check(t, closed.Close())
	if err := <-second; err == nil { // likewise
		check(t, more.Unlock(ctx), concurrency.ErrSessionExpired)
	} else {
		check(t, err, concurrency.ErrSessionExpired)
	}
	for _, id := range keys {
		if left(id) {
			t.Errorf("lease %x is left", id)
		}
	}
	bound, cancel := context.WithCancel(ctx)
	with, err := concurrency.NewSession(c, concurrency.WithTTL(5), concurrency.WithContext(bound))
	check(t, err)
	cancel()
	if <-with.Done(); !left(with.Lease()) {
		t.Error("the lease of a session whose context has ended is gone")
	}
}
