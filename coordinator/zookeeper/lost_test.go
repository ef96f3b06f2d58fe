package zookeeper

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestConversionWithALostReplyIsRepeated: the entry has the new mode, once.
func TestConversionWithALostReplyIsRepeated(t *testing.T) {
	for what, fate := range fates {
		synctest.Test(t, func(t *testing.T) {
			_, tr, s := openTree(t)
			own := testJoin(t, s, 1, "w")
			tr.once(fate)
			if _, err := s.Convert(soon(t, 20*time.Second), "m/a", own, "r", nil); !errors.Is(err, driver.ErrUnavailable) {
				t.Fatalf("%s: Convert = %v", what, err)
			}
			reader := testConvert(t, s, own, "r")
			if left := tr.list("/app/~/m/a"); !slices.Equal(left, []string{reader.Place.Key}) {
				t.Errorf("%s: left %q, converted to %+v", what, left, reader)
			}
		})
	}
}

// TestConversionsUseNoNameTwice: a late request would delete the entry of
// another conversion.
func TestConversionsUseNoNameTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, s := openTree(t)
		own := testJoin(t, s, 1, "w")
		names := []string{own.Place.Key}
		for _, mode := range []string{"r", "w", "r", "w"} {
			own = testConvert(t, s, own, mode)
			names = append(names, own.Place.Key)
		}
		slices.Sort(names)
		if n := len(slices.Compact(names)); n != 5 {
			t.Errorf("%d names for an entry with 4 conversions", n)
		}
	})
}

// TestPingsDoNotHideAServerThatAnswersNothingElse: it has lost its leader. The
// client pings it, at any time of the request.
func TestPingsDoNotHideAServerThatAnswersNothingElse(t *testing.T) {
	for phase := range 10 {
		synctest.Test(t, func(t *testing.T) {
			f := newPipes(t)
			s := openFake(t, f, testTTL)
			time.Sleep(testTTL/3 + time.Duration(phase)*testTTL/30)
			f.set(func() {
				f.reply = func(op int32) (zk.ErrCode, []byte, bool) { return 0, nil, op == opPing }
			})
			go func() { _ = s.Renew(t.Context()) }()
			time.Sleep(testTTL/4 + 500*time.Millisecond)
			if got := f.askedSessions(); len(got) != 2 {
				t.Errorf("phase %d: %d connections", phase, len(got))
			}
		})
	}
}

// TestReplyThatTheSessionIsOverEndsIt: the connection may last a little longer.
func TestReplyThatTheSessionIsOverEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s := openFake(t, f, testTTL)
		f.set(func() {
			f.reply = func(int32) (zk.ErrCode, []byte, bool) { return expired, nil, true }
		})
		if err := s.Renew(soon(t, time.Second)); !errors.Is(err, driver.ErrSessionLost) {
			t.Errorf("Renew = %v", err)
		}
		if s.Err() == nil {
			t.Error("Done is open")
		}
	})
}

const expired zk.ErrCode = -112

// TestCloseOfASessionThatHasExpiredSucceeds: its nodes are gone.
func TestCloseOfASessionThatHasExpiredSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s := openFake(t, f, testTTL)
		f.set(func() {
			f.reply = func(int32) (zk.ErrCode, []byte, bool) { return expired, nil, true }
		})
		if err := s.Close(soon(t, 10*time.Second)); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// TestRequestOfACallThatHasEndedIsNotSentLater: there was no connection.
func TestRequestOfACallThatHasEndedIsNotSentLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		own := testJoin(t, s, 1, "x")
		grant := f.grant
		f.set(func() { f.grant = func(asked hello) (hello, bool) { return asked, false } })
		f.cut()
		synctest.Wait()
		if err := s.Leave(soon(t, time.Second), "m/a", own.Place); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Leave = %v", err)
		}
		f.set(func() { f.grant = grant })
		time.Sleep(testTTL / 3)
		ok(t, s.Renew(soon(t, time.Second)))
		if left := tr.list("/app/~/m/a"); len(left) != 1 {
			t.Errorf("left: %q", left)
		}
	})
}

// TestRecordMadeBetweenTwoRequestsIsRead: it was missing at the first, and is
// there at the second, which would wait for its creation.
func TestRecordMadeBetweenTwoRequestsIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		made := false
		tr.on(func(op int32, node string) treeFate {
			if op == opExists && node == "/app/~/m/a+record" && !made {
				made = true
				tr.put(node, "v")
			}
			return treeFate{}
		})
		r, err := s.Record(soon(t, time.Minute), "m/a", 0)
		if ok(t, err); !made || string(r.Value) != "v" {
			t.Errorf("made: %t, read: %+v", made, r)
		}
	})
}

// TestRenewalDoesNotWaitForAConnection: renewals that waited for one would all
// be sent together.
func TestRenewalDoesNotWaitForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s := openFake(t, f, testTTL)
		f.set(func() { f.grant = func(asked hello) (hello, bool) { return asked, false } })
		f.cut()
		synctest.Wait()
		began := time.Now()
		err := s.Renew(soon(t, time.Second))
		if took := time.Since(began); !errors.Is(err, driver.ErrUnavailable) || took > 0 {
			t.Errorf("Renew = %v after %v", err, took)
		}
	})
}

// TestForgetListsTheQueueAfterASync: this session's server may not have applied
// the join that is forgotten. The same holds for a join that is repeated.
func TestForgetListsTheQueueAfterASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		testJoin(t, s, 1, "x") // makes the queue
		listed := tr.syncedListings("/app/~/m/a")
		ok(t, s.Forget(soon(t, 20*time.Second), "m/a", testID))
		_, err := s.Join(soon(t, 20*time.Second), "m/a", driver.Contender{ID: testID, Mode: "x", Again: true})
		ok(t, err)
		if n, unsynced := listed(); n != 2 || unsynced != 0 {
			t.Errorf("%d listings, %d without a sync", n, unsynced)
		}
	})
}

// syncedListings counts the listings of a node, and those of them without a
// sync since the one before.
func (tr *tree) syncedListings(node string) (counts func() (n, unsynced int)) {
	n, unsynced, synced := 0, 0, false
	tr.on(func(op int32, of string) treeFate {
		switch {
		case op == opSync:
			synced = true
		case op == opChildren && of == node:
			n++
			if !synced {
				unsynced++
			}
			synced = false
		}
		return treeFate{}
	})
	return func() (int, int) { return n, unsynced }
}
