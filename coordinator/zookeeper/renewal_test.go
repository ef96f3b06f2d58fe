package zookeeper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestRenewalIsAWriteWhenTheServerMayHaveBeenPaused: on a new connection, and
// after a silence. Otherwise it is a sync.
func TestRenewalIsAWriteWhenTheServerMayHaveBeenPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s, err := f.driver("/app?tick=2s").Open(t.Context(), testTTL)
		ok(t, err)
		defer func() { _ = s.Close(soon(t, time.Second)) }()
		renew := func(when string, syncs, writes int) {
			t.Helper()
			syncs, writes = syncs+f.count(opSync), writes+f.count(opMulti)
			if err := s.Renew(soon(t, testTTL/4)); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			if f.count(opSync) != syncs || f.count(opMulti) != writes {
				t.Errorf("%s: after it %d syncs and %d writes; want %d and %d",
					when, f.count(opSync), f.count(opMulti), syncs, writes)
			}
		}
		renew("the first", 1, 0)
		f.cut()
		time.Sleep(time.Second)
		renew("on the next connection", 0, 1)
		renew("afterwards", 1, 0)
		late := 0 // so many replies
		f.set(func() {
			f.delay = func(int32) time.Duration {
				if late == 0 {
					return 0
				}
				late--
				return testTTL/20 + time.Millisecond
			}
		})
		f.set(func() { late = 1 })
		renew("answered late", 1, 1)
		renew("afterwards", 1, 0)
		f.set(func() { late = 2 })
		renew("answered late twice", 1, 1)
		renew("after a late write", 0, 1)
		renew("afterwards", 1, 0)
		f.set(func() {
			f.reply = func(op int32) (zk.ErrCode, []byte, bool) {
				if op == opMulti {
					return noAuth, nil, true // the write failed, and was one all the same
				}
				return 0, nil, true
			}
		})
		f.cut()
		time.Sleep(time.Second)
		renew("without the right to read the root", 0, 1)
	})
}

// TestSyncOverANewConnectionIsConfirmedByAMajority, once: a leader that was
// deposed in a pause syncs with itself.
func TestSyncOverANewConnectionIsConfirmedByAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s := openFake(t, f, testTTL)
		sync := func(when string, calls, writes int) {
			t.Helper()
			syncs, writes := calls+f.count(opSync), writes+f.count(opMulti)
			done := make(chan error, calls)
			for range calls {
				go func() { done <- s.Sync(soon(t, testTTL), "/") }()
			}
			for range calls {
				ok(t, <-done)
			}
			if f.count(opSync) != syncs || f.count(opMulti) != writes {
				t.Errorf("%s: after it %d syncs and %d writes; want %d and %d",
					when, f.count(opSync), f.count(opMulti), syncs, writes)
			}
		}
		sync("on the first connection", 2, 0)
		f.cut()
		time.Sleep(time.Second)
		sync("on the next connection", 100, 1)
		sync("afterwards", 2, 0)
		f.cut()
		time.Sleep(time.Second)
		ok(t, s.Renew(soon(t, testTTL)))
		sync("after a renewal", 2, 0)
	})
}

// TestLateReplyNeedsNoWriteIfTheMarginCoversAPause: writes are slow when the
// disks are, and must not cost short sessions their renewals.
func TestLateReplyNeedsNoWriteIfTheMarginCoversAPause(t *testing.T) {
	for _, query := range []string{"", "?tick=2001ms"} {
		synctest.Test(t, func(t *testing.T) {
			f := newPipes(t)
			s, err := f.driver("/app"+query).Open(t.Context(), testTTL)
			ok(t, err)
			defer func() { _ = s.Close(soon(t, time.Second)) }()
			f.set(func() {
				f.delay = func(int32) time.Duration { return testTTL/4 - time.Millisecond }
			})
			for range 3 {
				ok(t, s.Renew(soon(t, testTTL/4)))
			}
			f.set(func() { f.delay = nil })
			if n := f.count(opMulti); n > 0 {
				t.Errorf("%q: %d writes", query, n)
			}
		})
	}
}

// TestLeaderThatWasDeposedInAPauseAcknowledgesNothing when it resumes. It
// answers syncs until it notices, a tick later, that it has no quorum.
func TestLeaderThatWasDeposedInAPauseAcknowledgesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s, err := f.driver("/app?tick=2s").Open(t.Context(), testTTL)
		ok(t, err)
		defer func() { _ = s.Close(soon(t, time.Second)) }()
		resumed := time.Now().Add(testTTL / 5)
		f.set(func() {
			f.delay = func(int32) time.Duration { return time.Until(resumed) }
			f.reply = func(op int32) (zk.ErrCode, []byte, bool) { return 0, nil, op == opSync }
		})
		results := make(chan error, 2)
		for range 2 { // one of them is sent long after the pause began
			go func() { results <- s.Renew(context.Background()) }()
			time.Sleep(testTTL / 10)
		}
		for range 2 {
			if err := <-results; !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("Renew = %v; want ErrUnavailable", err)
			}
		}
	})
}
