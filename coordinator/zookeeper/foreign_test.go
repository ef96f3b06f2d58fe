package zookeeper

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// openForeign opens a session with another client's layout on a fake, in
// virtual time.
func openForeign(t *testing.T, layout string) (*tree, driver.Session) {
	t.Helper()
	f := newPipes(t)
	tr := plant(f)
	s, err := f.driver("/app?layout="+layout).Open(soon(t, 20*time.Second), 20*time.Second)
	ok(t, err)
	t.Cleanup(func() { _ = s.Close(soon(t, time.Millisecond)) })
	tr.put("/app/job", "")
	return tr, s
}

// fates are what can happen to a change whose reply does not arrive.
var fates = map[string]treeFate{"the reply is lost": {cut: true}, "the request is lost": {lost: true, cut: true}}

// once has a fate for the next change, whichever operation it is.
func (tr *tree) once(fate treeFate) {
	done := false
	tr.on(func(op int32, _ string) treeFate {
		if op != opMulti || done {
			return treeFate{}
		}
		done = true
		return fate
	})
}

// TestForeignJoinWithALostReplyHasOneEntry: the second attempt finds the entry
// of the first, and Forget leaves none.
func TestForeignJoinWithALostReplyHasOneEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, layout := range []string{"curator", "kazoo"} {
			for what, fate := range fates {
				for _, again := range []bool{true, false} {
					tr, s := openForeign(t, layout)
					tr.once(fate)
					c := driver.Contender{ID: testID, Mode: "x"}
					_, err := s.Join(soon(t, 20*time.Second), "mutex/job", c)
					if !errors.Is(err, driver.ErrUnavailable) {
						t.Fatalf("%s, %s: Join = %v", layout, what, err)
					}
					want := 0
					if again {
						c.Again, want = true, 1
						own, err := s.Join(soon(t, 20*time.Second), "mutex/job", c)
						ok(t, err)
						if left := tr.list("/app/job"); len(left) != 1 || left[0] != own.Place.Key || own.Token == 0 {
							t.Errorf("%s, %s: %q, joined as %+v", layout, what, left, own)
						}
					} else {
						ok(t, s.Forget(soon(t, 20*time.Second), "mutex/job", testID))
					}
					if left := tr.list("/app/job"); len(left) != want {
						t.Errorf("%s, %s, joined again %t: left %q", layout, what, again, left)
					}
				}
			}
		}
	})
}

// TestForeignDowngradeWithALostReplyIsRepeated.
func TestForeignDowngradeWithALostReplyIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, layout := range []string{"curator", "kazoo"} {
			for what, fate := range fates {
				tr, s := openForeign(t, layout)
				own, err := s.Join(soon(t, 20*time.Second), "rwlock/job", driver.Contender{ID: testID, Mode: "w"})
				ok(t, err)
				convert := func(ctx context.Context) (driver.Place, error) {
					return s.Capabilities().Converter.Convert(ctx, "rwlock/job", own, "r", nil)
				}
				tr.once(fate)
				if _, err := convert(soon(t, 20*time.Second)); !errors.Is(err, driver.ErrUnavailable) {
					t.Fatalf("%s, %s: Convert = %v", layout, what, err)
				}
				reader, err := convert(soon(t, 20*time.Second))
				ok(t, err)
				left := tr.list("/app/job")
				if !slices.Equal(left, []string{reader.Key}) || reader.Mode != "r" ||
					!strings.HasSuffix(reader.Key, own.Place.Key[len(own.Place.Key)-10:]) {
					t.Errorf("%s, %s: left %q, converted to %+v", layout, what, left, reader)
				}
				ok(t, s.Leave(soon(t, 20*time.Second), "rwlock/job", reader))
				if left := tr.list("/app/job"); len(left) != 0 {
					t.Errorf("%s, %s: left %q", layout, what, left)
				}
			}
		}
	})
}

// TestStrayHidesTheOrder: Curator may wait for it, and Kazoo does not.
func TestStrayHidesTheOrder(t *testing.T) {
	for _, layout := range []string{"curator", "kazoo"} {
		synctest.Test(t, func(t *testing.T) {
			tr, s := openForeign(t, layout)
			tr.put("/app/job/stray", "")
			for n := range 2 {
				c := driver.Contender{ID: testID[:31] + string(rune('0'+n)), Mode: "x", Follows: true}
				own, err := s.Join(soon(t, 20*time.Second), "mutex/job", c)
				if ok(t, err); own.First || own.Nearest != (driver.Place{}) {
					t.Errorf("%s: joined as %+v", layout, own)
				}
			}
		})
	}
}

// TestLastNumbersAreNotUsed: the next ones would be negative, and the other
// clients compare them as text.
func TestLastNumbersAreNotUsed(t *testing.T) {
	for _, layout := range []string{"curator", "kazoo"} {
		synctest.Test(t, func(t *testing.T) {
			tr, s := openForeign(t, layout)
			tr.count("/app/job", math.MaxInt32-1000)
			_, err := s.Join(soon(t, 20*time.Second), "mutex/job", driver.Contender{ID: testID, Mode: "x"})
			if left := tr.list("/app/job"); !errors.Is(err, driver.ErrRefused) || len(left) != 0 {
				t.Errorf("%s: Join = %v, left %q", layout, err, left)
			}
		})
	}
}

// TestOnlyCuratorsWordRevokes: other values are of other programs.
func TestOnlyCuratorsWordRevokes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, s := openForeign(t, "curator")
		own, err := s.Join(soon(t, 20*time.Second), "mutex/job", driver.Contender{ID: testID, Mode: "x"})
		ok(t, err)
		end := make(chan error, 1)
		go func() {
			end <- s.Capabilities().Revoker.Revoked(soon(t, 20*time.Second), "mutex/job", own.Place)
		}()
		for _, value := range []string{"other", "__REVOKE__"} {
			synctest.Wait()
			select {
			case err := <-end:
				t.Fatalf("before %q: %v", value, err)
			default:
			}
			tr.put("/app/job/"+own.Place.Key, value)
		}
		ok(t, <-end)
	})
}

// TestLeaderDoesNotWriteToItsLatch: Curator's next contender watches its data,
// and would miss the end after it.
func TestLeaderDoesNotWriteToItsLatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := openForeign(t, "curator")
		own, err := s.Join(soon(t, 20*time.Second), "election/job", driver.Contender{ID: testID, Mode: "x"})
		ok(t, err)
		err = s.Capabilities().Writer.Write(soon(t, 20*time.Second), "election/job", own.Place, []byte("v"))
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Write = %v", err)
		}
	})
}

// TestForeignForgetListsTheQueueAfterASync: see
// TestForgetListsTheQueueAfterASync.
func TestForeignForgetListsTheQueueAfterASync(t *testing.T) {
	for _, layout := range []string{"curator", "kazoo"} {
		synctest.Test(t, func(t *testing.T) {
			tr, s := openForeign(t, layout)
			listed := tr.syncedListings("/app/job")
			ok(t, s.Forget(soon(t, 20*time.Second), "mutex/job", testID))
			if n, unsynced := listed(); n != 1 || unsynced != 0 {
				t.Errorf("%s: %d listings, %d without a sync", layout, n, unsynced)
			}
		})
	}
}
