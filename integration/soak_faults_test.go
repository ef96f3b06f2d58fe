package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/history"
	"github.com/baton-go/baton/integration/internal/proc"
)

// node is a server of either service.
type node interface {
	Kill()
	Pause() error
	Resume() error
	Restart(context.Context) error
	Launch() error
	AwaitReady(context.Context) error
}

// cluster has the methods common to clusters of etcd and ZooKeeper.
type cluster interface {
	all() []node
	leader(context.Context) (node, error)
	follower(context.Context) (node, error)
}

type levers[N node] struct {
	c interface {
		Nodes() []N
		Leader(context.Context) (N, error)
		Follower(context.Context) (N, error)
	}
}

func (l levers[N]) all() (nodes []node) {
	for _, n := range l.c.Nodes() {
		nodes = append(nodes, n)
	}
	return nodes
}

func (l levers[N]) leader(ctx context.Context) (node, error)   { return l.c.Leader(ctx) }
func (l levers[N]) follower(ctx context.Context) (node, error) { return l.c.Follower(ctx) }

// operator breaks servers, sessions and entries.
type operator struct {
	t *testing.T
	f *field
	c *crew
	// the service's own tools
	etcd *clientv3.Client
	zk   *zk.Conn
}

func newOperator(t *testing.T, f *field, c *crew) *operator {
	o := &operator{t: t, f: f, c: c}
	if f.site.service == "etcd" {
		o.etcd = f.site.etcdClient(t)
	} else {
		conn, _, err := zk.Connect(f.site.endpoints, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		o.zk = conn
	}
	return o
}

// backTime bounds the restart of a server.
const backTime = 180 * time.Second

// breakServers injects one fault into the servers and repairs it. It returns
// false if that failed, and then the test has failed, too.
func (o *operator) breakServers(ctx context.Context, r *rand.Rand) bool {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), backTime)
	defer cancel()
	pick, who := o.f.cluster.leader, "the leader"
	if r.IntN(2) == 0 {
		pick, who = o.f.cluster.follower, "a follower"
	}
	n, err := pick(bounded)
	if err != nil {
		o.t.Error(err)
		return false
	}
	some := time.Duration(r.Int64N(int64(soakTTL)))
	all := o.f.cluster.all()
	var end func(...string)
	began := time.Now()
	defer func() { o.t.Logf("servers were broken for %v", time.Since(began).Round(time.Millisecond)) }()
	switch r.IntN(10) {
	case 0, 1, 2:
		end = o.c.h.Fault("kill -9 of " + who)
		n.Kill()
		await.For(ctx, some)
		err = n.Restart(bounded)
	case 3, 4, 5:
		end = o.c.h.Fault("stop of " + who)
		if err = n.Pause(); err == nil {
			await.For(ctx, some)
			err = n.Resume()
		}
	case 6:
		end = o.c.h.Fault("rolling restart")
		for _, n := range all {
			if err == nil {
				err = n.Restart(bounded)
			}
		}
	case 7, 8:
		end = o.c.h.Fault("outage shorter than the TTL")
		err = o.outage(bounded, all, soakTTL/4)
	default:
		end = o.c.h.Fault("outage longer than the TTL")
		err = o.outage(bounded, all, soakTTL*3/2)
	}
	end()
	if err != nil {
		o.t.Error(err)
	}
	return err == nil
}

func (o *operator) outage(ctx context.Context, all []node, d time.Duration) error {
	for _, n := range all {
		n.Kill()
	}
	await.For(ctx, d)
	for _, n := range all {
		if err := n.Launch(); err != nil {
			return err
		}
	}
	for _, n := range all {
		if err := n.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// interfere ends a session, removes an entry, compacts, or closes a client.
func (o *operator) interfere(ctx context.Context, r *rand.Rand) bool {
	m := o.f.members[r.IntN(len(o.f.members))]
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	switch r.IntN(4) {
	case 0:
		end := o.c.h.Fault("session ended by an operator")
		defer end(m.who)
		over := o.excuse(m.who, "")
		if o.endSession(bounded, m) {
			over()
		}
	case 1:
		o.removeEntry(bounded, r)
	case 2:
		end := o.c.h.Fault("client closed")
		m.close()
		m.open(o.t)
		end(m.who)
	default:
		o.compact(bounded)
	}
	return true
}

// excuse records that holds are about to be removed by force. Their holders
// notice at the latest when their session ends by the clock, or when their
// network is back.
func (o *operator) excuse(who, name string) (over func()) {
	from := history.Now()
	return func() {
		o.c.h.Ousted(who, name, from, history.Now()+2*soakTTL.Nanoseconds())
	}
}

// endSession reports whether it may have ended a session. It does nothing if
// the client has none, which is not a fault.
func (o *operator) endSession(ctx context.Context, m *member) (sent bool) {
	if o.zk != nil {
		for _, e := range o.f.site.endpoints {
			err := m.counter.Session().Kill(ctx, e)
			if err == nil {
				return true
			}
			var dial *net.OpError
			sent = sent || !errors.As(err, &dial) || dial.Op != "dial" // otherwise the request may have arrived
		}
		return sent
	}
	session, err := m.current().Session(ctx)
	if err != nil {
		return false
	}
	id, err := strconv.ParseUint(session.ID(), 16, 64)
	if err != nil {
		return false
	}
	_, _ = o.etcd.Revoke(ctx, clientv3.LeaseID(id)) // a failure may have been applied
	return true
}

// removeEntry deletes the entry of some contender.
func (o *operator) removeEntry(ctx context.Context, r *rand.Rand) {
	name := crewName(o.c.name, r)
	all, _ := entries(ctx, o.c.eye, name)
	if len(all) == 0 || ctx.Err() != nil {
		return // no request will be sent
	}
	e := all[r.IntN(len(all))]
	end := o.c.h.Fault("entry deleted by an operator")
	defer end(e.who)
	defer o.excuse(e.who, name)()
	if o.zk != nil {
		_ = o.zk.Delete(fmt.Sprintf("/baton-test/~/%s/%s/%s", e.kind, name, e.key), -1)
		return
	}
	key, _, _ := strings.Cut(e.key, "@")
	_, _ = o.etcd.Delete(ctx, key)
}

// compact compacts etcd. ZooKeeper has no equivalent.
func (o *operator) compact(ctx context.Context) {
	if o.etcd == nil {
		return
	}
	end := o.c.h.Fault("compaction")
	defer end()
	if resp, err := o.etcd.Get(ctx, "none"); err == nil {
		_, _ = o.etcd.Compact(ctx, resp.Header.Revision)
	}
}

// flock is a contending process, and its successors after it is killed.
type flock struct {
	t    *testing.T
	c    *crew
	r    *rand.Rand
	i, n int
	who  string
	w    *proc.Child
	seed uint64
}

// newFlock starts the first process. The test's goroutine must call it.
func newFlock(t *testing.T, c *crew, i int) *flock {
	f := &flock{t: t, c: c, i: i, seed: c.seed + 100*uint64(i+1), r: rand.New(rand.NewPCG(c.seed, 3000+uint64(i)))}
	f.start()
	return f
}

func (f *flock) start() {
	f.n++
	f.who = fmt.Sprintf("process-%d.%d", f.i, f.n)
	f.w = proc.Start(f.t, "contend", f.c.s.url(soakTTL), f.who, f.c.name, f.c.dir, strconv.FormatUint(f.seed+uint64(f.n), 10))
	var ready string
	if err := f.w.TryRecv(&ready, time.Minute); err != nil {
		f.t.Error(err)
	}
}

// run stops, resumes and kills the process until ctx ends, and then waits until
// it was granted again.
func (f *flock) run(ctx context.Context) {
	for ctx.Err() == nil {
		await.For(ctx, time.Duration(500+f.r.IntN(4000))*time.Millisecond)
		if f.r.IntN(3) == 0 {
			f.kill()
		} else {
			f.stop(ctx)
		}
	}
	<-f.c.healed
	f.w.Send(time.Duration(0))
	var stuck []string
	err := f.w.TryRecv(&stuck, settle)
	if err != nil || len(stuck) > 0 {
		f.t.Errorf("%v after the last fault %s was not admitted to %v: %v", settle, f.who, stuck, err)
	}
	f.c.recovered.Store(f.who, time.Since(f.c.began))
	if err != nil {
		f.w.Kill() // it may not end by itself
		return
	}
	if err := f.w.Wait(); err != nil {
		f.t.Errorf("%s: %v", f.who, err)
	}
}

func (f *flock) kill() {
	end := f.c.h.Fault("kill -9 of a client")
	f.c.h.Excuse(f.who, "", "killed", history.Now(), history.Forever)
	f.w.Kill()
	f.start()
	end(f.who)
}

// stop stops the process, half of the time for longer than the TTL. After that
// the process may need a moment to read the clock.
func (f *flock) stop(ctx context.Context) {
	end := f.c.h.Fault("stop of a client")
	from := history.Now()
	if err := f.w.Pause(); err != nil {
		f.t.Error(err)
		return
	}
	await.For(ctx, time.Duration(f.r.Int64N(2*int64(soakTTL))))
	if err := f.w.Resume(); err != nil {
		f.t.Error(err)
	}
	f.c.h.Excuse(f.who, "", "stopped", from, history.Now()+time.Second.Nanoseconds())
	end(f.who)
}
