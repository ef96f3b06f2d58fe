package zookeeper

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// queued returns a session's first n entries of a queue, and the running Follow
// of each but the first.
func queued(t *testing.T, s *session, n int) (all []driver.Joined, waits []<-chan following) {
	t.Helper()
	all = []driver.Joined{joinFollowing(t, s, 1)}
	for i := 1; i < n; i++ {
		all = append(all, joinFollowing(t, s, i+1))
		if all[i].Nearest != all[i-1].Place {
			t.Fatalf("nearest to %+v is %+v", all[i].Place, all[i].Nearest)
		}
		waits = append(waits, follow(soon(t, time.Minute), s, all[i].Place, all[i].Nearest))
	}
	synctest.Wait()
	return all, waits
}

// TestHandoffsWithinASessionReadNothing: a turn takes the join and the release,
// in a queue with few contenders and in a contended one, also if Follow begins
// after the pass.
func TestHandoffsWithinASessionReadNothing(t *testing.T) {
	for _, contended := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, tr, s := openTree(t)
			if contended {
				contend(t, tr, s)
			} else {
				tr.put("/app/~/m/a", "")
			}
			reads, lists := f.count(opGet), f.count(opChildren)
			all, waits := queued(t, s, 3)
			late := joinFollowing(t, s, 4)
			for i, wait := range waits {
				ok(t, s.Pass(t.Context(), "m/a", all[i].Place))
				if got := <-wait; got.err != nil || !got.passed {
					t.Errorf("Follow = %+v", got)
				}
			}
			ok(t, s.Pass(t.Context(), "m/a", all[2].Place))
			if passed, err := s.Follow(t.Context(), "m/a", late.Place, late.Nearest); err != nil || !passed {
				t.Errorf("a late Follow = %v, %v", passed, err)
			}
			ok(t, s.Pass(t.Context(), "m/a", late.Place))
			if r, l := f.count(opGet)-reads, f.count(opChildren)-lists; r != 0 || l != 0 || tr.watched() != 0 {
				t.Errorf("contended %v: %d reads, %d listings, %d watches", contended, r, l, tr.watched())
			}
			if n := len(s.neighbors.m); n != 0 {
				t.Errorf("%d entries are remembered", n)
			}
		})
	}
}

// TestWaitersOfASessionHaveOneWatchEach: the watch of a waiter's entry is that
// of the next one, too. Its notice arrives before the reply to the pass, and
// the pass is one all the same. After a reconnect they are set again.
func TestWaitersOfASessionHaveOneWatchEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20
		f, tr, s := openTree(t)
		contend(t, tr, s)
		lists := f.count(opChildren)
		all, waits := queued(t, s, n)
		for times := 1; times <= 2; times++ {
			time.Sleep(ownWatchDelay + time.Second)
			if got := f.count(opChildren) - lists; got != n*times || tr.watched() != n {
				t.Errorf("%d entries: %d requests for watches, %d watches", n, got, tr.watched())
			}
			if times == 1 {
				f.cut()
			}
		}
		lists = f.count(opChildren)
		for i, wait := range waits {
			ok(t, s.Pass(t.Context(), "m/a", all[i].Place))
			if got := <-wait; got.err != nil || !got.passed {
				t.Errorf("Follow = %+v", got)
			}
		}
		if got := f.count(opChildren) - lists; got != 0 {
			t.Errorf("%d listings", got)
		}
	})
}

// TestOnlyPassWithinASessionReportsAPass: other removals of the entry ahead end
// the wait of a follower of the same session without one, before and after it
// watches the entry.
func TestOnlyPassWithinASessionReportsAPass(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, f *fake, tr *tree, s *session, own driver.Joined){
		"leave": func(t *testing.T, _ *fake, _ *tree, s *session, own driver.Joined) {
			ok(t, s.Leave(t.Context(), "m/a", own.Place))
		},
		"forget": func(t *testing.T, _ *fake, _ *tree, s *session, own driver.Joined) {
			ok(t, s.Forget(t.Context(), "m/a", own.Place.ID))
		},
		"convert": func(t *testing.T, _ *fake, _ *tree, s *session, own driver.Joined) { testConvert(t, s, own, "r") },
		"operator": func(_ *testing.T, _ *fake, tr *tree, _ *session, own driver.Joined) {
			tr.remove("/app/~/m/a/" + own.Place.Key)
		},
		"pass of what an operator has removed": func(t *testing.T, _ *fake, tr *tree, s *session, own driver.Joined) {
			tr.remove("/app/~/m/a/" + own.Place.Key)
			if err := s.Pass(t.Context(), "m/a", own.Place); !errors.Is(err, driver.ErrGone) {
				t.Errorf("Pass = %v", err)
			}
		},
		"pass without a reply": func(t *testing.T, f *fake, tr *tree, s *session, own driver.Joined) {
			tr.on(func(op int32, _ string) treeFate { return treeFate{cut: op == opMulti || op == opDelete} })
			if err := s.Pass(t.Context(), "m/a", own.Place); err == nil {
				t.Error("a reply that was lost")
			}
			tr.on(nil)
		},
	} {
		for _, wait := range []time.Duration{0, 2 * ownWatchDelay} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, tr, s := openTree(t)
					tr.put("/app/~/m/a", "")
					all, waits := queued(t, s, 2)
					time.Sleep(wait)
					end(t, f, tr, s, all[0])
					if got := <-waits[0]; got.err != nil || got.passed {
						t.Errorf("after %v: Follow = %+v", wait, got)
					}
				})
			})
		}
	}
}

// TestRemovalOfTheOwnEntryComesBeforeAPass: a follower whose entry was removed
// before the one ahead passed is not admitted, if it runs only afterwards.
func TestRemovalOfTheOwnEntryComesBeforeAPass(t *testing.T) {
	for _, same := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f, tr, a := openTree(t)
			b := a
			if !same {
				b = openFake(t, f, testTTL)
			}
			contend(t, tr, a, b)
			first, second := joinFollowing(t, a, 1), joinFollowing(t, b, 2)
			w := b.newFollower("m/a", second.Place, second.Nearest)
			w.stopDelay()
			if left, _, err := w.look(t.Context()); left || err != nil {
				t.Fatal(left, err)
			}
			tr.remove("/app/~/m/a/" + second.Place.Key)
			ok(t, a.Pass(t.Context(), "m/a", first.Place))
			synctest.Wait()
			if left, passed, err := w.look(t.Context()); !errors.Is(err, driver.ErrGone) {
				t.Errorf("same session %v: left %v, passed %v, %v", same, left, passed, err)
			}
		})
	}
}

// TestNumbersThatBeginAnewShowNoNeighbor: an operator has deleted the entry,
// the service has removed the empty queue, and another session is first in the
// next one.
func TestNumbersThatBeginAnewShowNoNeighbor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		other := openFake(t, f, testTTL)
		old := joinFollowing(t, s, 1)
		tr.remove("/app/~/m/a/" + old.Place.Key)
		tr.remove("/app/~/m/a")
		first, second := joinFollowing(t, other, 2), joinFollowing(t, s, 3)
		if n := second.Nearest; n != (driver.Place{}) && n != first.Place {
			t.Errorf("nearest to %+v is %+v", second.Place, n)
		}
		third := joinFollowing(t, s, 4)
		if third.Nearest != second.Place {
			t.Errorf("nearest to %+v is %+v", third.Place, third.Nearest)
		}
		ok(t, s.Leave(t.Context(), "m/a", second.Place))
		if err := s.Leave(t.Context(), "m/a", old.Place); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Leave = %v", err)
		}
	})
}

// TestForgetEndsWhatRepliesHaveNot: a removal or a conversion had no reply, and
// Forget finds another entry of the contender, or none. Nothing of the entry
// stays in memory, and its follower is woken at once.
func TestForgetEndsWhatRepliesHaveNot(t *testing.T) {
	for name, begin := range map[string]func(s *session, own driver.Joined) error{
		"leave": func(s *session, own driver.Joined) error { return s.Leave(context.Background(), "m/a", own.Place) },
		"convert": func(s *session, own driver.Joined) error {
			_, err := s.Convert(context.Background(), "m/a", own, "r", nil)
			return err
		},
	} {
		for _, contended := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					_, tr, s := openTree(t)
					if tr.put("/app/~/m/a", ""); contended {
						contend(t, tr, s)
					}
					all, waits := queued(t, s, 2)
					tr.on(func(op int32, _ string) treeFate { return treeFate{cut: op == opMulti || op == opDelete} })
					if err := begin(s, all[0]); err == nil {
						t.Error("a reply that was lost")
					}
					tr.on(nil)
					ok(t, s.Forget(t.Context(), "m/a", all[0].Place.ID))
					synctest.Wait()
					select {
					case got := <-waits[0]:
						if got.err != nil || got.passed {
							t.Errorf("Follow = %+v", got)
						}
					default:
						t.Error("the follower waits on")
					}
					if n := len(s.neighbors.m); n != 1 {
						t.Errorf("%d entries are remembered; want the follower's", n)
					}
					if o, known := s.OwnEntry("/app/~/m/a/" + all[0].Place.Key); known {
						t.Errorf("remembered: %+v", o)
					}
				})
			})
		}
	}
}
