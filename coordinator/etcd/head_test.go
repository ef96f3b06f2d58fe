package etcd

import (
	"context"
	"testing"
	"testing/synctest"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

func headOf(t *testing.T, s *session) driver.Head {
	t.Helper()
	h, err := s.Head(t.Context(), queue, driver.Any)
	check(t, err)
	return h
}

func waitHead(ctx context.Context, s *session, known driver.Version) <-chan outcome[driver.Head] {
	result := make(chan outcome[driver.Head], 1)
	go func() {
		h, err := s.Head(ctx, queue, known)
		result <- outcome[driver.Head]{h, err}
	}()
	return result
}

// is reports whether h shows an entry with a value.
func is(h driver.Head, own driver.Joined, value string) bool {
	return h.Place == own.Place && h.Token == own.Token && string(h.Value) == value && h.Version != 0
}

// A wait costs a read and the watch. A new value then costs nothing, and
// another first entry a read.
func TestHeadSavesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		own := join(t, s, contender())
		known := headOf(t, s).Version
		var result <-chan outcome[driver.Head]
		if n := f.sent(func() {
			result = waitHead(t.Context(), s, known)
			f.watching(t, 1, "/mutex/")
			stillWaits(t, result)
		}); n != 1 {
			t.Errorf("%d requests to wait", n)
		}
		if n := f.sent(func() {
			write(t, s, own.Place, "w")
			known = ended(t, result).got.Version
		}); n != 1 {
			t.Errorf("%d requests for a write and a wake-up", n)
		}
		result = waitHead(t.Context(), s, known)
		f.watching(t, 1, "/mutex/")
		stillWaits(t, result)
		if n := f.sent(func() {
			_ = s.Leave(t.Context(), queue, own.Place)
			ended(t, result)
		}); n != 2 {
			t.Errorf("%d requests for a leave and a wake-up", n)
		}
	})
}

// H1: a recreated key is not the first entry, although the watch is on it.
func TestHeadIsNotARecreatedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		key := s.keys.Queue(queue) + "foreign"
		put(t, c, key)
		second := join(t, s, contender())
		result := waitHead(t.Context(), s, headOf(t, s).Version)
		f.watching(t, 1, "/mutex/")
		catchUp := f.lag()
		_, err := c.Txn(t.Context()).Then(clientv3.OpDelete(key)).Commit()
		check(t, err)
		put(t, c, key)
		f.mu.Lock() // a resumed watch shows both in one message
		held := f.past.held
		f.past.held = held[:1]
		f.past.held[0].events = append(held[0].events, held[1].events...)
		f.past.held[0].rev = held[1].rev
		f.mu.Unlock()
		catchUp()
		if o := ended(t, result); o.err != nil || !is(o.got, second, "v") {
			t.Errorf("%+v", o)
		}
	})
}

// H1: a member that is behind neither shows an old head nor hides the new one.
func TestHeadDoesNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		own := join(t, s, contender())
		old := headOf(t, s)
		catchUp := f.lag()
		write(t, s, own.Place, "one")
		now := headOf(t, s)
		if !is(now, own, "one") {
			t.Errorf("%+v", now)
		}
		if o := ended(t, waitHead(t.Context(), s, old.Version)); o.err != nil || !is(o.got, own, "one") {
			t.Errorf("%+v", o)
		}
		result := waitHead(t.Context(), s, now.Version)
		f.watching(t, 1, "/mutex/")
		catchUp() // it sends an event of a known state
		stillWaits(t, result)
		catchUp = f.lag()
		write(t, s, own.Place, "two")
		stillWaits(t, result)
		catchUp()
		if o := ended(t, result); o.err != nil || !is(o.got, own, "two") {
			t.Errorf("%+v", o)
		}
	})
}

// H1: one member shows a change, and a member that is behind is asked for the
// head.
func TestHeadReadIsAsNewAsTheEventThatWokeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		own := join(t, s, contender())
		result := waitHead(t.Context(), s, headOf(t, s).Version)
		f.watching(t, 1, "/mutex/")
		f.lag()
		e, _ := s.keys.Entry(queue, own.Place)
		own.Place = convert(t, s, own, "y")
		inject(f, "/mutex/", clientv3.WatchResponse{Events: []*clientv3.Event{
			{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte(e.Key), ModRevision: f.rev}},
		}})
		if o := ended(t, result); o.err != nil || !is(o.got, own, "as y") {
			t.Errorf("%+v", o)
		}
	})
}
