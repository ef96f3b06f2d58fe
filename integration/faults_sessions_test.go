package integration_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/integration/internal/zkwire"
)

// endSession ends a client's session with the service's own tools, as an
// operator does.
func (s site) endSession(t *testing.T, c link) {
	t.Helper()
	session, err := c.Session(await.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.ParseUint(session.ID(), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	if s.service == "etcd" {
		if _, err = s.etcdClient(t).Revoke(await.Context(t), clientv3.LeaseID(id)); err != nil {
			t.Fatal(err)
		}
		return
	}
	// The client reclaims its session when its connection is closed, and may be
	// faster.
	await.Until(t, "the session ended", func() bool {
		err := c.counter.Session().Kill(within(t, 5*time.Second), s.endpoints[0])
		return err == nil || errors.Is(err, zkwire.ErrSessionGone)
	})
}

// isLoss reports whether an error may be the end of a hold with its session. A
// hold that watches its entry may notice the removal of the entry first, since
// the service removes both in one step.
func isLoss(err error) bool {
	return errors.Is(err, coordinator.ErrSessionLost) || errors.Is(err, coordinator.ErrRemoved)
}

// Every hold ends. Every waiter returns promptly and is never granted, although
// its predecessor leaves. Releases delete none of the current entries. New
// requests use a new session with a greater token.
func TestLostSessionEndsItsHoldsAndItsWaits(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		c, other := s.link(t, longTTL), s.client(t, longTTL)
		all := []way{aLock, aWrite, aRead, aTerm, twoOf}
		shut := map[way]way{aLock: aLock, aWrite: aWrite, aRead: aWrite, aTerm: aTerm, twoOf: allOf} // the request that blocks it
		held, blocking := map[way]hold{}, map[way]hold{}
		waiting, next := map[way]*pending{}, map[way]*pending{}
		for _, w := range all {
			held[w] = w.take(t, c.Client, name("held "+string(w)))
			next[w] = shut[w].queue(t, other, name("held "+string(w)), 2)
			blocking[w] = shut[w].take(t, other, name("waited "+string(w)))
			waiting[w] = w.queue(t, c.Client, name("waited "+string(w)), 2)
		}
		s.endSession(t, c)
		for _, w := range all {
			waiting[w].fails(coordinator.ErrSessionLost)
			h := held[w]
			await.Until(t, "the hold of "+string(w)+" to end", func() bool { return h.ctx.Err() != nil })
			if cause := context.Cause(h.ctx); !isLoss(cause) || !isLoss(h.err()) {
				t.Errorf("%s: ended with %v", w, cause)
			}
			succ := next[w].granted()
			for range 2 { // also the second call
				if err := h.release(await.Context(t)); !isLoss(err) && !errors.Is(err, coordinator.ErrNotHeld) {
					t.Errorf("%s: release of a lost hold: %v", w, err)
				}
			}
			w.queued(t, other, name("held "+string(w)), 1)
			if succ.err() != nil || succ.token <= h.token {
				t.Errorf("%s: the next hold has token %d after %d: %v", w, succ.token, h.token, succ.err())
			}
			again := w.begin(context.Background(), t, c.Client, name("held "+string(w)))
			w.queued(t, other, name("held "+string(w)), 2)
			succ.mustRelease(t)
			anew := again.granted()
			if anew.session == h.session || anew.token <= succ.token {
				t.Errorf("%s: requested again: %+v after %+v", w, anew, succ)
			}
			anew.mustRelease(t)
			// The lost waiter would be the next, but its entry is gone.
			blocking[w].mustRelease(t)
			w.queued(t, other, name("waited "+string(w)), 0)
		}
	})
}

// Requests arrive, but replies are held for longer than the TTL. The holder's
// context ends although the service still has the session. The late replies
// change nothing. The next waiter is granted after the holder was notified, and
// long before its own patience ends.
func TestLateRepliesDoNotReviveAHold(t *testing.T) {
	const ttl = 8 * time.Second
	together(t, func(t *testing.T, s site) {
		name := fresh(t)
		c, other := s.link(t, ttl), s.client(t, longTTL)
		var told []*telling
		var holds []hold
		var next []*pending
		for _, w := range alone {
			h := w.take(t, c.Client, name(string(w)))
			told = append(told, awaitTelling(t, h.ctx, h.until))
			holds = append(holds, h)
			next = append(next, w.queue(t, other, name(string(w)), 2))
		}
		c.proxy.CutDown()
		for i := range alone {
			told[i].wait()
		}
		await.For(t.Context(), ttl/2) // the replies stay held
		c.proxy.Heal()                // all held replies arrive now
		for i, w := range alone {
			n := next[i].granted()
			told[i].before(next[i].at, string(w))
			if holds[i].err() == nil || holds[i].ctx.Err() == nil {
				t.Errorf("%s: the hold was revived", w)
			}
			if err := holds[i].release(await.Context(t)); !errors.Is(err, coordinator.ErrSessionLost) {
				t.Errorf("%s: release: %v", w, err)
			}
			if n.err() != nil || n.session == holds[i].session {
				t.Errorf("%s: the next hold: %v", w, n.err())
			}
			n.mustRelease(t)
		}
		if h := aLock.take(t, c.Client, name("again")); h.session == holds[0].session {
			t.Errorf("the session %s was revived", h.session)
		}
	})
}

// The service has granted, but the reply takes longer than the session lives.
// If Lock returns a hold, it is one of another session.
func TestGrantIsDroppedWhenItsReplyArrivesAfterTheSessionEnded(t *testing.T) {
	const ttl = 8 * time.Second
	together(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		c, other := s.link(t, ttl), s.client(t, longTTL)
		aLock.take(t, c.Client, name).mustRelease(t) // opens the session and creates the queue
		session, err := c.Session(await.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		trap := c.proxy.HoldReply(c.join)
		p := aLock.begin(context.Background(), t, c.Client, name)
		c.joined(t, trap, newMutex(t, other, name))
		c.proxy.CutUp() // otherwise the renewals would keep the session alive
		next := aLock.begin(context.Background(), t, other, name)
		n := next.granted()
		if p.over() && p.err == nil && p.hold.err() == nil {
			t.Errorf("two hold: %+v and %+v", p.hold, n)
		}
		c.proxy.Heal()
		s.settle(t, c.Client) // the late reply has arrived
		if p.over() && p.err == nil && p.hold.err() == nil {
			t.Errorf("two hold after the late answer: %+v and %+v", p.hold, n)
		}
		n.mustRelease(t)
		p.await()
		if p.err == nil && (p.hold.session == session.ID() || p.hold.token <= n.token) {
			t.Errorf("Lock returned %+v, of session %s", p.hold, session.ID())
		}
		t.Logf("Lock = %v", p.err)
	})
}

// A reconnect keeps the session. Inner releases after the loss return an error,
// and leave current entries alone.
func TestHoldIsReenteredOverReconnectsAndEndsWithItsSession(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		c, other := s.link(t, longTTL), s.client(t, longTTL)
		m := newMutex(t, c.Client, name)
		l := lock(t, m)
		ctx := await.Context(t)
		for range 3 {
			c.proxy.Reset()
			inner, err := m.Lock(l.Context())
			if err != nil || inner.Token() != l.Token() {
				t.Fatalf("re-entered: %v", err)
			}
			c.proxy.Reset()
			if err := inner.Unlock(ctx); err != nil {
				t.Errorf("inner Unlock: %v", err)
			}
			if err := inner.Unlock(ctx); !errors.Is(err, coordinator.ErrNotHeld) {
				t.Errorf("inner Unlock again: %v", err)
			}
			awaitQueue(t, newMutex(t, other, name), 1)
			if l.Err() != nil {
				t.Fatalf("the inner Unlock released the lock: %v", l.Err())
			}
		}
		inner, err := m.Lock(l.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.endSession(t, c)
		await.Until(t, "the loss to be noticed", func() bool { return l.Err() != nil })
		n := lock(t, newMutex(t, other, name))
		if _, err := m.Lock(l.Context()); !isLoss(err) {
			t.Errorf("re-entered after the loss: %v", err)
		}
		for _, h := range []interface{ Unlock(context.Context) error }{inner, l} {
			if err := h.Unlock(ctx); !isLoss(err) {
				t.Errorf("Unlock after the loss: %v", err)
			}
		}
		awaitQueue(t, newMutex(t, other, name), 1)
		if n.Err() != nil {
			t.Errorf("the next hold ended: %v", n.Err())
		}
		unlock(t, n)
	})
}

// impostor forwards connections to a ZooKeeper. Once told to, it drops the
// session ID of a client that reconnects: the server then silently creates a
// new session, as ClickHouse Keeper does.
type impostor struct {
	net.Listener
	forget atomic.Bool
	swaps  atomic.Int64
	mu     sync.Mutex
	open   []net.Conn
}

func newImpostor(t *testing.T, target string) *impostor {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i := &impostor{Listener: ln}
	t.Cleanup(func() { _ = ln.Close(); i.reset() })
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				_ = in.Close()
				continue
			}
			i.mu.Lock()
			i.open = append(i.open, in, out)
			i.mu.Unlock()
			go func() { defer in.Close(); defer out.Close(); i.up(out, in) }()
			go func() { defer in.Close(); defer out.Close(); _, _ = io.Copy(in, out) }()
		}
	}()
	return i
}

func (i *impostor) reset() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range i.open {
		_ = c.Close()
	}
	i.open = nil
}

// up copies what the client sends, and removes the session and its password
// from the ConnectRequest: protocol version, last zxid seen, timeout, session,
// password.
func (i *impostor) up(server io.Writer, client io.Reader) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(client, head); err != nil {
		return
	}
	body := make([]byte, binary.BigEndian.Uint32(head)&0xffff)
	if _, err := io.ReadFull(client, body); err != nil {
		return
	}
	const session, password = 16, 28
	if i.forget.Load() && len(body) >= password && binary.BigEndian.Uint64(body[session:]) != 0 {
		clear(body[session : session+8])
		clear(body[password:])
		i.swaps.Add(1)
	}
	if _, err := server.Write(append(head, body...)); err == nil {
		_, _ = io.Copy(server, client)
	}
}

// A server that does not know the session of a reconnecting client must say so.
// If it assigns another session instead, the client notices the different ID.
func TestReconnectWithAnotherSessionIsALoss(t *testing.T) {
	const ttl = 10 * time.Second
	run := func(t *testing.T, endpoints []string) {
		t.Parallel()
		s := site{"zk", endpoints}
		name := fresh(t)
		i := newImpostor(t, endpoints[0])
		c, other := s.client(t, ttl, i.Addr().String()), s.client(t, ttl)
		var holds []hold
		var waiting []*pending
		for _, w := range alone {
			holds = append(holds, w.take(t, c, name("held "+string(w))))
			w.take(t, other, name("waited "+string(w)))
			waiting = append(waiting, w.queue(t, c, name("waited "+string(w)), 2))
		}
		i.forget.Store(true)
		i.reset()
		for n, w := range alone {
			waiting[n].fails(coordinator.ErrSessionLost)
			if err := holds[n].err(); !isLoss(err) {
				t.Errorf("%s: the hold has %v", w, err)
			}
		}
		if i.swaps.Load() == 0 {
			t.Fatal("no session was replaced: the test shows nothing")
		}
		i.forget.Store(false)
		// The old session lives at the service until its TTL. Its entries must
		// not count as the new session's.
		again := aLock.begin(context.Background(), t, c, name("held "+string(aLock)))
		h := again.granted()
		if h.session == holds[0].session || h.token <= holds[0].token {
			t.Errorf("requested again: %+v after %+v", h, holds[0])
		}
		aLock.queued(t, other, name("held "+string(aLock)), 1) // not granted beside the old session's entry
		h.mustRelease(t)
	}
	t.Run("zookeeper", func(t *testing.T) { run(t, servers.ZooKeeper(t).Endpoints()) })
	t.Run("zookeeper-3", func(t *testing.T) { run(t, servers.ZooKeeperCluster(t).Endpoints()) })
}

// Live clients keep their holds. A dead holder is succeeded after its TTL, the
// election and one more TTL, since the new leader restarts the session
// timeouts.
func TestHoldsSurviveTheKillOfTheServicesLeader(t *testing.T) {
	const ttl, survivorTTL = 8 * time.Second, 30 * time.Second
	run := func(t *testing.T, s site, kill func()) {
		name := fresh(t)
		c, candidate := s.client(t, survivorTTL), s.client(t, survivorTTL)
		victim := newActor(t, s.url(ttl))
		var holds []hold
		next := map[way]*pending{}
		dead := map[way]event{}
		for _, w := range alone {
			holds = append(holds, w.take(t, c, name("lives "+string(w))))
			dead[w] = victim.takes(w, name("dies "+string(w)))
			next[w] = w.queue(t, candidate, name("dies "+string(w)), 2)
		}
		kill()
		victim.Kill()
		began := time.Now()
		for _, w := range alone {
			h := next[w].granted()
			if int64(h.token) <= dead[w].Token {
				t.Errorf("%s: token %d after %d", w, h.token, dead[w].Token)
			}
			h.mustRelease(t)
		}
		t.Logf("the dead holder was succeeded after %v", time.Since(began).Round(time.Millisecond))
		for _, h := range holds {
			before := h.until()
			await.Until(t, "a renewal, or a loss", func() bool { return h.err() != nil || h.until().After(before) })
		}
		for i, w := range alone {
			if err := holds[i].err(); err != nil {
				t.Errorf("%s: lost with the leader: %v", w, err)
			}
			holds[i].mustRelease(t)
		}
	}
	t.Run("etcd-3", func(t *testing.T) {
		t.Parallel()
		cluster := servers.NewEtcd(t, etcdserver.Options{Nodes: 3})
		run(t, site{"etcd", cluster.Endpoints()}, func() {
			leader, err := cluster.Leader(await.Context(t))
			if err != nil {
				t.Fatal(err)
			}
			leader.Kill()
		})
	})
	t.Run("zookeeper-3", func(t *testing.T) {
		t.Parallel()
		cluster := servers.NewZooKeeper(t, zkserver.Options{Nodes: 3})
		run(t, site{"zk", cluster.Endpoints()}, func() {
			leader, err := cluster.Leader(await.Context(t))
			if err != nil {
				t.Fatal(err)
			}
			leader.Kill()
		})
	})
}

// Every connection is reset twice in quick succession while one candidate leads
// and others wait.
func TestQuickReconnectsLeaveOneLeader(t *testing.T) {
	together(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		probe := s.client(t, longTTL)
		var links []link
		var all []*pending
		for i := range 3 {
			c := s.link(t, longTTL)
			links = append(links, c)
			p := aTerm.begin(context.Background(), t, c.Client, name)
			aTerm.queued(t, probe, name, i+1)
			all = append(all, p)
		}
		shake := func() {
			for range 2 {
				for _, c := range links {
					c.proxy.Reset()
				}
				await.For(t.Context(), 20*time.Millisecond)
			}
		}
		for i := range all {
			h := all[i].granted()
			shake()
			for _, c := range links {
				s.settle(t, c.Client) // a second leader, if there were one, would be known
			}
			for _, later := range all[i+1:] {
				if later.over() {
					t.Errorf("a second leader: %+v, %v", later.hold, later.err)
				}
			}
			aTerm.queued(t, probe, name, len(all)-i)
			if h.err() != nil {
				t.Errorf("after the resets the term has %v", h.err())
			}
			if i == 1 { // a node is removed while its watchers reconnect
				for _, c := range links[2:] {
					c.proxy.LoseReply(netproxy.Any)
					c.proxy.Reset()
				}
			}
			h.mustRelease(t)
		}
		aTerm.queued(t, probe, name, 0)
	})
}
