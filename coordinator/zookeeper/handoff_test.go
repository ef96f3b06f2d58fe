package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// joinFollowing joins with Follows.
func joinFollowing(t *testing.T, s *session, n int) driver.Joined {
	t.Helper()
	j, err := s.Join(soon(t, 20*time.Second), "m/a", driver.Contender{ID: fmt.Sprintf("%016x", n), Mode: "x", Follows: true})
	ok(t, err)
	return j
}

// following is the outcome of Follow.
type following struct {
	passed bool
	err    error
}

func follow(ctx context.Context, s *session, own, ahead driver.Place) <-chan following {
	done := make(chan following, 1)
	go func() {
		passed, err := s.Follow(ctx, "m/a", own, ahead)
		done <- following{passed, err}
	}()
	return done
}

// contendedPair returns a session with the first entry of a contended queue,
// and the running Follow of a second session's entry.
func contendedPair(t *testing.T) (*fake, *tree, *session, driver.Joined, <-chan following) {
	t.Helper()
	f, tr, a := openTree(t)
	b := openFake(t, f, testTTL)
	contend(t, tr, a, b)
	first, second := joinFollowing(t, a, 1), joinFollowing(t, b, 2)
	return f, tr, a, first, follow(soon(t, 10*time.Second), b, second.Place, second.Nearest)
}

// contend makes a queue contended for all of the sessions, and leaves it empty.
func contend(t *testing.T, tr *tree, sessions ...*session) {
	t.Helper()
	tr.put("/app/~/m/a", "")
	others := []string{"/app/~/m/a/n0000000000", "/app/~/m/a/n0000000001", "/app/~/m/a/n0000000002"}
	for _, other := range others {
		tr.put(other, "")
	}
	for i, s := range sessions {
		j := joinFollowing(t, s, 1000+i)
		ok(t, s.Leave(soon(t, 10*time.Second), "m/a", j.Place))
	}
	for _, other := range others {
		tr.remove(other)
	}
	if left := tr.list("/app/~/m/a"); len(left) != 0 {
		t.Fatalf("left behind: %q", left)
	}
}

// count sets how many children were created in a node.
func (tr *tree) count(node string, creates int32) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	n := tr.nodes[node]
	n.creates = creates
	tr.nodes[node] = n
}

func successors(tr *tree) (names []string) {
	for _, name := range tr.list("/app/~/m/a") {
		if strings.HasPrefix(name, successorPrefix) {
			names = append(names, name)
		}
	}
	return names
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestContendedHandoffListsNoQueue: a handoff takes the join, one read that
// finds and watches the predecessor, and the pass, also if Follow begins after
// the pass.
func TestContendedHandoffListsNoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, a := openTree(t)
		sessions := []*session{a, openFake(t, f, testTTL), openFake(t, f, testTTL)}
		contend(t, tr, sessions...)
		var queue []driver.Joined
		join := func(n int) {
			j := joinFollowing(t, sessions[n%len(sessions)], n)
			if n == 0 && !j.First || n > 0 && (j.First || j.Nearest != queue[n-1].Place) {
				t.Fatalf("join %d: %+v", n, j)
			}
			queue = append(queue, j)
		}
		join(0)
		join(1)
		multis, reads, lists := f.count(opMulti), f.count(opGet), f.count(opChildren)
		const rounds = 9
		for n := range rounds {
			join(n + 2)
			holder, next := sessions[n%len(sessions)], sessions[(n+1)%len(sessions)]
			var done <-chan following
			if early := n%2 == 0; early {
				done = follow(t.Context(), next, queue[n+1].Place, queue[n].Place)
			}
			ok(t, holder.Pass(soon(t, 10*time.Second), "m/a", queue[n].Place))
			if done == nil {
				done = follow(t.Context(), next, queue[n+1].Place, queue[n].Place)
			}
			if got := <-done; got.err != nil || !got.passed {
				t.Fatalf("round %d: Follow = %+v", n, got)
			}
		}
		m, r, l := f.count(opMulti)-multis, f.count(opGet)-reads, f.count(opChildren)-lists
		if m != 2*rounds || r != rounds || l != 0 {
			t.Errorf("%d rounds took %d transactions, %d reads and %d listings; want 2, 1 and 0 each", rounds, m, r, l)
		}
		if names := tr.list("/app/~/m/a"); len(names) != 4 {
			t.Errorf("left behind: %q; want two entries with their successor nodes", names)
		}
	})
}

// TestTwoContendersHaveNoSuccessorNodes: a listing costs them less.
func TestTwoContendersHaveNoSuccessorNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, a := openTree(t)
		sessions := []*session{a, openFake(t, f, testTTL)}
		contend(t, tr, sessions...)
		ahead := joinFollowing(t, a, 1)
		for i := range 2 * uncontendedAfter {
			own := joinFollowing(t, sessions[(i+1)%2], 2+i)
			ok(t, sessions[i%2].Pass(soon(t, 10*time.Second), "m/a", ahead.Place))
			ahead = own
		}
		if names := tr.list("/app/~/m/a"); len(names) != 1 {
			t.Errorf("in the queue: %q; want one entry without a successor node", names)
		}
	})
}

// TestUncontendedQueueHasNoSuccessorNodes, so a join and a release stay cheap.
func TestUncontendedQueueHasNoSuccessorNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		contend(t, tr, s)
		for i := range uncontendedAfter {
			j := joinFollowing(t, s, i)
			if !j.First {
				t.Errorf("join %d: not first", i)
			}
			ok(t, s.Pass(soon(t, 10*time.Second), "m/a", j.Place))
		}
		if left := tr.list("/app/~/m/a"); len(left) != 0 || len(s.contention.m) != 0 {
			t.Fatalf("left behind: %q, contended %v", left, s.contention.m)
		}
		before := []int{f.count(opMulti), f.count(opDelete), f.count(opGet), f.count(opChildren)}
		j := joinFollowing(t, s, 99)
		if names := successors(tr); len(names) != 0 {
			t.Errorf("successor nodes %q in an uncontended queue", names)
		}
		ok(t, s.Pass(soon(t, 10*time.Second), "m/a", j.Place))
		after := []int{f.count(opMulti), f.count(opDelete), f.count(opGet), f.count(opChildren)}
		if after[0]-before[0] != 1 || after[1]-before[1] != 1 || after[2] != before[2] || after[3] != before[3] {
			t.Errorf("requests of a join and a release: %v, then %v", before, after)
		}
	})
}

// TestSuccessorNodesAreNoEntries: a queue with successor nodes only is empty.
func TestSuccessorNodesAreNoEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		tr.put("/app/~/m/a", "")
		for _, name := range []string{"successor_0000000003", "successor_0000000007"} {
			tr.put("/app/~/m/a/"+name, "x_0000000000000001_5_")
		}
		tr.count("/app/~/m/a", 8)
		ctx := soon(t, 20*time.Second)
		if v, err := s.Ahead(ctx, "m/a", driver.Place{}); err != nil || len(v.Ahead) != 0 || !v.Last {
			t.Errorf("Ahead = %+v, %v", v, err)
		}
		if l, err := s.List(ctx, "m/a", 0); err != nil || len(l) != 0 {
			t.Errorf("List = %+v, %v", l, err)
		}
		if h, err := s.Head(ctx, "m/a", driver.Any); err != nil || h.Version != 0 {
			t.Errorf("Head = %+v, %v", h, err)
		}
		heads := make(chan driver.Head, 1)
		go func() {
			h, _ := s.Head(ctx, "m/a", 0)
			heads <- h
		}()
		eventually(t, "the watch for a join", func() bool { return tr.watched() == 1 })
		j, err := s.Join(ctx, "m/a", driver.Contender{ID: testID, Mode: "x", Alone: true})
		if err != nil || !j.First {
			t.Fatalf("Join with Alone = %+v, %v", j, err)
		}
		if h := <-heads; h.Key != j.Place.Key {
			t.Errorf("the head is %+v", h)
		}
		if _, err := s.Join(ctx, "m/a", driver.Contender{ID: testID[1:], Mode: "x", Alone: true}); !errors.Is(err, driver.ErrTaken) {
			t.Errorf("second Join with Alone = %v", err)
		}
	})
}

// TestOnlyPassReportsAPass: other removals do not.
func TestOnlyPassReportsAPass(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, f *fake, tr *tree, a *session, own driver.Joined){
		"leave": func(t *testing.T, _ *fake, _ *tree, a *session, own driver.Joined) {
			ok(t, a.Leave(t.Context(), "m/a", own.Place))
		},
		"forget": func(t *testing.T, _ *fake, _ *tree, a *session, own driver.Joined) {
			ok(t, a.Forget(t.Context(), "m/a", own.Place.ID))
		},
		"convert": func(t *testing.T, _ *fake, _ *tree, a *session, own driver.Joined) { testConvert(t, a, own, "r") },
		"operator": func(t *testing.T, _ *fake, tr *tree, a *session, own driver.Joined) {
			tr.remove("/app/~/m/a/" + own.Place.Key)
			ok(t, a.Forget(t.Context(), "m/a", own.Place.ID)) // as its session does when it notices
		},
		"operator, after a lost reply to the join": func(t *testing.T, _ *fake, tr *tree, a *session, own driver.Joined) {
			a.DeleteOwnEntry("/app/~/m/a/" + own.Place.Key)
			tr.remove("/app/~/m/a/" + own.Place.Key)
			ok(t, a.Forget(t.Context(), "m/a", own.Place.ID))
		},
		"expiry": func(_ *testing.T, _ *fake, tr *tree, _ *session, own driver.Joined) {
			n, _ := parseNode(own.Place.Key)
			tr.remove("/app/~/m/a/" + n.successor())
			tr.remove("/app/~/m/a/" + n.Key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, tr, a, first, done := contendedPair(t)
				f.cut() // fires all watches
				eventually(t, "the next connections, and the watch", func() bool {
					return a.Renew(soon(t, 10*time.Second)) == nil && tr.watched() == 1
				})
				end(t, f, tr, a, first)
				if got := <-done; got.err != nil || got.passed {
					t.Errorf("Follow = %+v", got)
				}
				n, _ := parseNode(first.Place.Key)
				if slices.Contains(successors(tr), n.successor()) {
					t.Error("the successor node is left")
				}
			})
		})
	}
}

// TestPassDuringAReconnectIsNotMissed: the follower finds no successor node,
// and reads the queue.
func TestPassDuringAReconnectIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, a, first, done := contendedPair(t)
		tr.on(func(op int32, _ string) treeFate { return treeFate{late: op == opMulti} })
		go func() { _ = a.Pass(t.Context(), "m/a", first.Place) }()
		eventually(t, "the pass is under way", func() bool {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			return len(tr.late) == 1
		})
		f.cut()
		tr.deliver()
		if got := <-done; got.err != nil || got.passed {
			t.Errorf("Follow = %+v", got)
		}
	})
}

// removals are the calls that remove an entry.
var removals = map[string]func(s *session, own driver.Place) error{
	"leave":  func(s *session, own driver.Place) error { return s.Leave(context.Background(), "m/a", own) },
	"pass":   func(s *session, own driver.Place) error { return s.Pass(context.Background(), "m/a", own) },
	"forget": func(s *session, own driver.Place) error { return s.Forget(context.Background(), "m/a", own.ID) },
}

// TestDeletedSuccessorNodeKeepsNoEntry: the entry leaves all the same.
func TestDeletedSuccessorNodeKeepsNoEntry(t *testing.T) {
	ways := maps.Clone(removals)
	ways["convert"] = func(s *session, own driver.Place) error {
		n, _ := parseNode(own.Key)
		p, err := s.Convert(context.Background(), "m/a", driver.Joined{Place: own, Token: testToken(s, n)}, "r", nil)
		if err != nil {
			return err
		}
		return s.Leave(context.Background(), "m/a", p)
	}
	for name, leave := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, tr, s := openTree(t)
				contend(t, tr, s)
				own := joinFollowing(t, s, 1)
				for _, successor := range successors(tr) {
					tr.remove("/app/~/m/a/" + successor)
				}
				ok(t, leave(s, own.Place))
				_, known := s.OwnEntry("/app/~/m/a/" + own.Place.Key)
				if left := tr.list("/app/~/m/a"); len(left) != 0 || known {
					t.Errorf("left behind: %q, own %v", left, known)
				}
			})
		})
	}
}

func testToken(s *session, n node) driver.Token {
	stat, err := s.Stat(context.Background(), "/app/~/m/a/"+n.Key)
	if err != nil {
		panic(err)
	}
	return driver.Token(stat.Czxid)
}

// TestSuccessorNodeThatCannotBeWrittenIsDeleted: else its follower would not
// wake.
func TestSuccessorNodeThatCannotBeWrittenIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		b := openFake(t, f, testTTL)
		contend(t, tr, s, b)
		first, second := joinFollowing(t, s, 1), joinFollowing(t, b, 2)
		n, _ := parseNode(first.Place.Key)
		tr.mu.Lock()
		successor := tr.nodes["/app/~/m/a/"+n.successor()]
		successor.version = 1
		tr.nodes["/app/~/m/a/"+n.successor()] = successor
		tr.mu.Unlock()
		done := follow(soon(t, 20*time.Second), b, second.Place, second.Nearest)
		synctest.Wait()
		ok(t, s.Pass(soon(t, 10*time.Second), "m/a", first.Place))
		if got := <-done; got.err != nil || got.passed {
			t.Errorf("Follow = %+v", got)
		}
		if names := tr.list("/app/~/m/a"); len(names) != 2 {
			t.Errorf("in the queue %q; want the second and its successor node", names)
		}
	})
}

// TestSuccessorNodeWithOtherDataIsNotFollowed: the follower waits for the
// entry.
func TestSuccessorNodeWithOtherDataIsNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, a := openTree(t)
		b := openFake(t, f, testTTL)
		contend(t, tr, a, b)
		first := joinFollowing(t, a, 1)
		n, _ := parseNode(first.Place.Key)
		tr.put("/app/~/m/a/"+n.successor(), "x")
		second := joinFollowing(t, b, 2)
		_, err := b.Ahead(soon(t, 10*time.Second), "m/a", second.Place)
		ok(t, err)
		done := follow(soon(t, 10*time.Second), b, second.Place, first.Place)
		time.Sleep(ownWatchDelay / 2)
		if n := tr.watched(); n != 2 {
			t.Errorf("%d watches; want one on both", n)
		}
		ok(t, a.Pass(soon(t, 10*time.Second), "m/a", first.Place))
		if got := <-done; got.err != nil || got.passed {
			t.Errorf("Follow = %+v", got)
		}
	})
}

// TestDeletedEntryLeavesNoSuccessorNode: an operator deleted the entry alone.
func TestDeletedEntryLeavesNoSuccessorNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, leave := range removals {
			_, tr, s := openTree(t)
			contend(t, tr, s)
			own, other := joinFollowing(t, s, 1), joinFollowing(t, s, 2)
			tr.remove("/app/~/m/a/" + own.Place.Key)
			if err := leave(s, own.Place); name != "forget" && !errors.Is(err, driver.ErrGone) {
				t.Errorf("%s = %v", name, err)
			}
			n, _ := parseNode(other.Place.Key)
			if left := successors(tr); !slices.Equal(left, []string{n.successor()}) {
				t.Errorf("%s: successor nodes %q; want the other entry's", name, left)
			}
		}
	})
}

// TestNoSuccessorNodesWhenSequenceNumbersRunOut: such numbers do not identify
// the predecessor.
func TestNoSuccessorNodesWhenSequenceNumbersRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		contend(t, tr, s)
		tr.count("/app/~/m/a", 2147483645)
		for i := range 2 {
			j := joinFollowing(t, s, i)
			n, _ := parseNode(j.Place.Key)
			if j.Nearest != (driver.Place{}) || i == 1 && n.successor() != "" {
				t.Errorf("join %d: %+v", i, j)
			}
			defer func() {
				ok(t, s.Pass(soon(t, 10*time.Second), "m/a", j.Place))
				if i == 0 && len(tr.list("/app/~/m/a")) > 1 {
					t.Errorf("left behind: %q", tr.list("/app/~/m/a"))
				}
			}()
		}
	})
}

func TestJoinWorksWithoutItsSuccessorNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		contend(t, tr, s)
		tr.mu.Lock()
		next := tr.nodes["/app/~/m/a"].creates + 1
		tr.mu.Unlock()
		tr.put("/app/~/m/a/"+successorName(next+1), "") // the service counts it as created
		own := joinFollowing(t, s, 1)
		n, _ := parseNode(own.Place.Key)
		if len(successors(tr)) != 1 {
			t.Errorf("successor nodes %q", successors(tr))
		}
		ok(t, s.Pass(soon(t, 10*time.Second), "m/a", n.Place))
	})
}

// TestSuccessorNodeDeletionIsRetried while its follower waits; another entry
// passes meanwhile.
func TestSuccessorNodeDeletionIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		b := openFake(t, f, testTTL)
		contend(t, tr, s, b)
		first, second, third := joinFollowing(t, s, 1), joinFollowing(t, s, 2), joinFollowing(t, b, 3)
		done := follow(soon(t, 20*time.Second), b, third.Place, third.Nearest)
		tr.remove("/app/~/m/a/" + second.Place.Key)
		n, _ := parseNode(second.Place.Key)
		tr.on(func(op int32, node string) treeFate {
			if op == opDelete && node == "/app/~/m/a/"+n.successor() {
				return treeFate{lost: true, code: zk.ErrCode(-4)}
			}
			return treeFate{}
		})
		if err := s.Leave(soon(t, 10*time.Second), "m/a", second.Place); !errors.Is(err, driver.ErrGone) {
			t.Errorf("Leave = %v; want ErrGone", err)
		}
		tr.on(nil)
		ok(t, s.Pass(soon(t, 10*time.Second), "m/a", first.Place))
		if got := <-done; got.err != nil || got.passed {
			t.Errorf("Follow = %+v", got)
		}
	})
}

// TestFollowerOfDeletedEntryWakesAfterAFailedWrite: an operator deleted the
// entry alone, and the follower waits for the successor node.
func TestFollowerOfDeletedEntryWakesAfterAFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, a, first, done := contendedPair(t)
		eventually(t, "watch", func() bool { return tr.watched() == 1 })
		tr.remove("/app/~/m/a/" + first.Place.Key)
		if err := a.Write(t.Context(), "m/a", first.Place, []byte("v")); !errors.Is(err, driver.ErrGone) {
			t.Fatalf("Write = %v", err)
		}
		if err := a.Leave(t.Context(), "m/a", first.Place); !errors.Is(err, driver.ErrGone) {
			t.Fatalf("Leave = %v", err)
		}
		if got := <-done; got.err != nil {
			t.Errorf("the follower was not woken: %+v; successor nodes %q", got, successors(tr))
		}
	})
}
