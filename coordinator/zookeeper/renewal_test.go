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
		s := openFake(t, f, testTTL)
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
		slow := func(op int32) (zk.ErrCode, []byte, bool) {
			time.Sleep(testTTL/20 + time.Millisecond)
			return 0, nil, true
		}
		f.set(func() {
			answer := f.reply
			f.reply = func(op int32) (zk.ErrCode, []byte, bool) {
				f.reply = answer
				return slow(op)
			}
		})
		renew("answered late", 1, 1)
		renew("afterwards", 1, 0)
		f.set(func() {
			answer := f.reply
			f.reply = func(op int32) (zk.ErrCode, []byte, bool) {
				if op == opMulti { // the write is late, too
					f.reply = answer
				}
				return slow(op)
			}
		})
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

// TestLeaderThatWasDeposedInAPauseAcknowledgesNothing when it resumes. It
// answers syncs until it notices, a tick later, that it has no quorum.
func TestLeaderThatWasDeposedInAPauseAcknowledgesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s := openFake(t, f, testTTL)
		resumed := time.Now().Add(testTTL / 5)
		f.set(func() {
			f.reply = func(op int32) (zk.ErrCode, []byte, bool) {
				time.Sleep(time.Until(resumed))
				return 0, nil, op == opSync
			}
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
