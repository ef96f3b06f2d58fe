package interop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
)

// Curator's Revoker makes the request. The holder is notified, and holds until
// it releases the lock.
func TestCuratorCanRequestRevocation(t *testing.T) {
	s := newZKSite(t)
	c, ctx, curator := s.client(t, "curator"), bounded(t), s.curator(t, long)
	const path = "/interop/revoke"
	m, err := mutex.New(c, path, mutex.WithPayload([]byte("mine")))
	check(t, err)
	l, err := m.Lock(ctx)
	check(t, err)
	revoked := make(chan error, 2)
	for range 2 { // there may be several requests
		go func() { revoked <- l.Wanted(ctx) }()
	}
	short, cancel := context.WithTimeout(ctx, settle)
	check(t, l.Wanted(short), context.DeadlineExceeded)
	cancel()
	select {
	case err := <-revoked:
		t.Fatalf("no request: %v", err)
	default:
	}
	curator.tell("revoke %s", path)
	curator.hear("asked")
	check(t, <-revoked)
	check(t, <-revoked)
	check(t, l.Wanted(ctx)) // also in a later call
	check(t, l.Err())
	check(t, l.Unlock(ctx))

	// Curator's contender is enough.
	l, err = m.Lock(ctx)
	check(t, err)
	curator.tell("take mutex %s", path)
	curator.waits()
	check(t, l.Wanted(ctx))
	check(t, l.Unlock(ctx))
	check(t, l.Wanted(ctx), coordinator.ErrReleased)
	curator.got()
	curator.tell("release")
	curator.hear("released")

	// The hold ends during the wait.
	l, err = m.Lock(ctx)
	check(t, err)
	go func() { revoked <- l.Wanted(ctx) }()
	await.For(ctx, settle)
	check(t, l.Unlock(ctx))
	check(t, <-revoked, coordinator.ErrReleased)
}

// The request reaches the read lock into which a write lock was converted.
func TestRevocationFollowsADowngrade(t *testing.T) {
	s := newZKSite(t)
	c, ctx, conn := s.client(t, "curator"), bounded(t), s.conn(t)
	const path = "/interop/revoke-rw"
	rw, err := rwlock.New(c, path)
	check(t, err)
	w, err := rw.Lock(ctx)
	check(t, err)
	r, err := rw.RLock(w.Context())
	check(t, err)
	revoked := make(chan error, 1)
	go func() { revoked <- r.Wanted(ctx) }()
	await.For(ctx, settle)
	check(t, w.Unlock(ctx))
	names, _, err := conn.Children(path)
	check(t, err)
	if len(names) != 1 || !strings.Contains(names[0], "__READ__") {
		t.Fatalf("children %v", names)
	}
	_, err = conn.Set(path+"/"+names[0], []byte("__REVOKE__"), -1)
	check(t, err)
	check(t, <-revoked)
	check(t, r.Unlock(ctx))
}

// TestWantedWorksInEveryLayout, also in those without a watch of the queue.
func TestWantedWorksInEveryLayout(t *testing.T) {
	zoo, etcd := newZKSite(t), newEtcdSite(t)
	ctx := bounded(t)
	for _, c := range []*coordinator.Client{
		zoo.client(t, "curator"), zoo.client(t, "kazoo"), zoo.client(t, "native"),
		batonClient(t, "etcd://"+etcd.addresses()+"?layout=concurrency"),
	} {
		m, err := mutex.New(c, "interop/wanted")
		check(t, err)
		l, err := m.Lock(ctx)
		check(t, err)
		wanted := make(chan error, 1)
		go func() { wanted <- l.Wanted(ctx) }()
		next := make(chan *mutex.Lock, 1)
		go func() {
			l, err := m.Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			next <- l
		}()
		check(t, <-wanted)
		check(t, l.Unlock(ctx))
		check(t, (<-next).Unlock(ctx))
	}
}

// Curator shows a latch's participants and Kazoo a lock's contenders, and Baton
// shows theirs.
func TestClientsSeeEachOthersIdentities(t *testing.T) {
	s := newZKSite(t)
	ctx := bounded(t)
	curator, kazoo := s.curator(t, long), s.kazoo(t, long)
	e, err := election.New(s.client(t, "curator"), "/interop/ids", election.WithIdentity("me"))
	check(t, err)
	first, err := e.Campaign(ctx, []byte("value"))
	check(t, err)
	go func() { _, _ = e.Campaign(ctx, nil) }()
	await.Until(t, "the condition", func() bool {
		list, err := e.Candidates(ctx)
		return err == nil && len(list) == 2
	})
	curator.tell("ids /interop/ids")
	if ids := curator.hear("ids"); ids != "value* me" {
		t.Errorf("Curator sees %q", ids)
	}
	check(t, first.Resign(ctx))

	kazoo.tell("take mutex /interop/ids-kazoo")
	token := kazoo.got()
	m, err := mutex.New(s.client(t, "kazoo"), "/interop/ids-kazoo", mutex.WithPayload([]byte("baton")))
	check(t, err)
	list, err := m.Contenders(ctx)
	if err != nil || len(list) != 1 || string(list[0].Payload) != "kazoo" || int64(list[0].Token) != token || !list[0].Holding {
		t.Errorf("Baton sees %+v, %v", list, err)
	}
	kazoo.tell("release")
	kazoo.hear("released")
	l, err := m.Lock(ctx)
	check(t, err)
	kazoo.tell("ids /interop/ids-kazoo")
	if ids := kazoo.hear("ids"); ids != "baton" {
		t.Errorf("Kazoo sees %q", ids)
	}
	check(t, l.Unlock(ctx))
}
