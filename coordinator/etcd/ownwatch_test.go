package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/baton-go/baton/coordinator/driver"
)

// line is a queue of contenders of one session, each of which follows the one
// ahead, and another session, which can remove their entries.
type line struct {
	*pair
	t      *testing.T
	places []driver.Place
	as     []driver.Contender
	ends   []<-chan outcome[bool]
}

// inLine runs a test on a line of so many contenders, none of which waits yet.
func inLine(t *testing.T, contenders int, test func(t *testing.T, l *line)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		l := &line{pair: &pair{fake: f, a: open(t, f, c), b: open(t, f, c)}, t: t}
		zero := join(t, l.b, contender()).Place // else the first would leave no marker
		for range contenders {
			l.join()
		}
		check(t, l.b.Leave(t.Context(), queue, zero))
		test(t, l)
		l.wantWatches(t, 0)
		if n := len(l.a.ownWatches.of); n != 0 {
			t.Errorf("%d own watches are left", n)
		}
	})
}

func (l *line) join() {
	c := contender()
	c.Follows = true
	l.as, l.places = append(l.as, c), append(l.places, join(l.t, l.a, c).Place)
	l.ends = append(l.ends, nil)
}

// follow has contender i wait for the one ahead.
func (l *line) follow(ctx context.Context, contenders ...int) {
	for _, i := range contenders {
		l.ends[i] = l.followOne(ctx, i, i-1)
	}
	synctest.Wait()
}

func (l *line) followOne(ctx context.Context, own, ahead int) <-chan outcome[bool] {
	end, me, its := make(chan outcome[bool], 1), l.places[own], l.places[ahead]
	go func() {
		passed, err := l.a.Follow(ctx, queue, me, its)
		end <- outcome[bool]{passed, err}
	}()
	return end
}

// remove removes the entry of contender i, as an operator does.
func (l *line) remove(i int) {
	l.t.Helper()
	check(l.t, l.b.Remove(l.t.Context(), queue, l.places[i].Key, tokenOf(l.a, l.places[i])))
	synctest.Wait()
}

func tokenOf(s *session, p driver.Place) driver.Token {
	e, _ := s.keys.Entry(queue, p)
	return driver.Token(s.keys.Rank(queue, e))
}

// refuse has further watches refused, unless err is nil.
func (r *pair) refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = func(string) error { return err }
}

// wantEnds checks how some waits have ended, and that all others go on.
func (l *line) wantEnds(want map[int]outcome[bool]) {
	l.t.Helper()
	synctest.Wait()
	for i, end := range l.ends {
		if end == nil {
			continue
		}
		if w, ok := want[i]; ok {
			l.wantEnd(l.t, end, w)
			l.ends[i] = nil
		} else {
			l.wantWait(l.t, end)
		}
	}
}

func wantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, not %v", err, want)
	}
}

var (
	leftNow   = outcome[bool]{}
	passedNow = outcome[bool]{got: true}
	goneNow   = outcome[bool]{err: driver.ErrGone}
)

// TestWaitersOfASessionShareOneWatch: one watch and one request for all of
// them, and each event wakes those that it concerns.
func TestWaitersOfASessionShareOneWatch(t *testing.T) {
	inLine(t, 50, func(t *testing.T, l *line) {
		ctx, cancel := context.WithCancel(t.Context())
		requests := l.sent(func() {
			for i := 1; i < 50; i++ {
				l.follow(ctx, i)
			}
		})
		l.wantWatches(t, 1)
		if requests != 1 {
			t.Errorf("%d requests of 49 waits", requests)
		}
		check(t, l.a.Pass(t.Context(), queue, l.places[0]))
		l.wantEnds(map[int]outcome[bool]{1: passedNow})
		check(t, l.a.Leave(t.Context(), queue, l.places[1]))
		l.wantEnds(map[int]outcome[bool]{2: leftNow})
		l.remove(20)
		l.wantEnds(map[int]outcome[bool]{20: goneNow, 21: leftNow})
		requests = l.sent(func() {
			l.join() // it waits for the last one, and needs no watch of its own
			l.follow(ctx, 50)
		})
		l.wantWatches(t, 1)
		if requests != 1 {
			t.Errorf("%d requests to join and wait", requests)
		}
		for w := range l.watchers { // else a join would wake the waiters
			if strings.Contains(string(w.op.KeyBytes()), "/mutex/") && !w.op.IsFilterPut() {
				t.Error("the watch shows joins")
			}
		}
		_, err := l.a.Convert(t.Context(), queue, driver.Joined{Place: l.places[2], Token: 1}, "y", nil)
		check(t, err)
		l.wantEnds(map[int]outcome[bool]{3: leftNow})
		cancel()
		synctest.Wait()
		for i, end := range l.ends {
			if end != nil {
				l.wantEnd(t, end, outcome[bool]{err: context.Canceled})
				l.ends[i] = nil
			}
		}
	})
}

// TestOwnWatchMissesNothing of what happens before it exists, while it is
// created again, and before a contender waits.
func TestOwnWatchMissesNothing(t *testing.T) {
	// Contender 1 waits from the beginning, if at all; 4 and 5 are of interest.
	for name, test := range map[string]func(l *line){
		"before the watch": func(l *line) {
			l.remove(4)
			l.follow(l.t.Context(), 4, 5)
			l.wantEnds(map[int]outcome[bool]{4: goneNow, 5: leftNow})
		},
		"while the watch is created": func(l *line) {
			created := make(chan struct{})
			l.opens = func() { <-created }
			l.follow(l.t.Context(), 4, 5)
			l.remove(4)
			check(l.t, l.a.Leave(l.t.Context(), queue, l.places[0]))
			close(created)
			l.wantEnds(map[int]outcome[bool]{4: goneNow, 5: leftNow})
		},
		"passed while the watch is created": func(l *line) {
			created := make(chan struct{})
			l.opens = func() { <-created }
			held := make(chan error, 1) // the holder waits for the end of its entry
			go func() { held <- l.a.Watch(l.t.Context(), queue, l.places[0]) }()
			synctest.Wait()
			l.follow(l.t.Context(), 1, 4)
			check(l.t, l.a.Pass(l.t.Context(), queue, l.places[0]))
			close(created)
			l.wantEnds(map[int]outcome[bool]{1: passedNow})
			check(l.t, <-held)
		},
		"before the watch of others": func(l *line) {
			l.remove(4)
			l.follow(l.t.Context(), 1)
			l.follow(l.t.Context(), 4, 5)
			l.wantEnds(map[int]outcome[bool]{4: goneNow, 5: leftNow})
		},
		"during the watch of others": func(l *line) {
			l.follow(l.t.Context(), 1)
			l.remove(4)
			l.follow(l.t.Context(), 4, 5)
			l.wantEnds(map[int]outcome[bool]{4: goneNow, 5: leftNow})
		},
		"of one that joined during the watch of others": func(l *line) {
			l.follow(l.t.Context(), 1)
			l.join()
			l.join()
			l.remove(6)
			l.follow(l.t.Context(), 6, 7)
			l.wantEnds(map[int]outcome[bool]{6: goneNow, 7: leftNow})
		},
		"while the watch is created again": func(l *line) {
			l.follow(l.t.Context(), 1, 4, 5)
			again := make(chan struct{})
			l.opens = func() { <-again }
			l.compact()
			synctest.Wait()
			l.remove(4)
			l.follow(l.t.Context(), 3)
			l.remove(3)
			l.wantEnds(nil)
			close(again)
			l.wantEnds(map[int]outcome[bool]{3: goneNow, 4: goneNow, 5: leftNow})
		},
		"an earlier entry of the key": func(l *line) {
			l.follow(l.t.Context(), 1)
			check(l.t, l.a.Leave(l.t.Context(), queue, l.places[5]))
			check(l.t, l.a.Leave(l.t.Context(), queue, l.places[4]))
			for _, i := range []int{4, 5} {
				l.places[i] = join(l.t, l.a, l.as[i]).Place
			}
			l.follow(l.t.Context(), 5)
			l.wantEnds(nil)
			l.remove(4)
			l.wantEnds(map[int]outcome[bool]{5: leftNow})
		},
		"an earlier entry of a name that is in use again": func(l *line) {
			l.follow(l.t.Context(), 1) // the watch does not read after the joins
			l.join()
			l.join()
			check(l.t, l.a.Leave(l.t.Context(), queue, l.places[6]))
			l.wantEnds(nil)
			l.places = append(l.places, join(l.t, l.a, l.as[6]).Place)
			l.follow(l.t.Context(), 7)
			l.wantEnds(map[int]outcome[bool]{7: leftNow})
		},
		"an earlier marker of the key": func(l *line) {
			l.follow(l.t.Context(), 1, 5)
			check(l.t, l.a.Pass(l.t.Context(), queue, l.places[0]))
			l.wantEnds(map[int]outcome[bool]{1: passedNow})
			l.places[0] = join(l.t, l.a, l.as[0]).Place
			check(l.t, l.a.Pass(l.t.Context(), queue, l.places[1])) // deletes the marker
			l.follow(l.t.Context(), 3)
			end := make(chan outcome[bool], 1)
			go func() { end <- outcome[bool]{err: l.a.Watch(l.t.Context(), queue, l.places[0])} }()
			l.wantWait(l.t, end)
			l.remove(0)
			l.wantEnd(l.t, end, leftNow)
			l.wantEnds(nil)
		},
		"at a member that is behind": func(l *line) {
			l.follow(l.t.Context(), 1, 4, 5)
			catchUp := l.lag()
			l.remove(4)
			l.follow(l.t.Context(), 3)
			l.wantEnds(nil)
			catchUp()
			l.wantEnds(map[int]outcome[bool]{4: goneNow, 5: leftNow})
		},
		"by a lone wait for the own entry": func(l *line) {
			end := make(chan outcome[bool], 1)
			go func() { end <- outcome[bool]{err: l.a.Watch(l.t.Context(), queue, l.places[4])} }()
			l.wantWait(l.t, end)
			l.remove(4)
			l.wantEnd(l.t, end, leftNow)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, 6, func(t *testing.T, l *line) {
				test(l)
				for _, p := range l.places { // ends all waits
					_ = l.b.Remove(l.t.Context(), queue, p.Key, tokenOf(l.a, p))
				}
			})
		})
	}
}

// TestFollowerOfAnotherSessionNoticesThatItsOwnEntryIsGone after a second at
// the latest. If the watch for that is refused, the wait ends.
func TestFollowerOfAnotherSessionNoticesThatItsOwnEntryIsGone(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("refused %t", refused), func(t *testing.T) {
			withPair(t, func(t *testing.T, r *pair) {
				end := r.follow(t.Context())
				r.wantWatches(t, 1)
				want := goneNow
				if refused {
					want.err = driver.ErrRefused
					r.refuse(rpctypes.ErrPermissionDenied)
				} else {
					check(t, r.a.Remove(t.Context(), queue, r.second.Key, tokenOf(r.b, r.second)))
				}
				r.wantWait(t, end)
				time.Sleep(time.Second)
				r.wantEnd(t, end, want)
				r.refuse(nil)
			})
		})
	}
}

// TestOwnWatchThatFailsEndsTheWaits, which may begin again.
func TestOwnWatchThatFailsEndsTheWaits(t *testing.T) {
	inLine(t, 3, func(t *testing.T, l *line) {
		l.refuse(rpctypes.ErrNoLeader)
		l.follow(t.Context(), 1, 2)
		failed := outcome[bool]{err: driver.ErrUnavailable}
		l.wantEnds(map[int]outcome[bool]{1: failed, 2: failed})
		l.refuse(nil)
		l.follow(t.Context(), 1, 2)
		l.wantEnds(nil)
		l.remove(1)
		l.wantEnds(map[int]outcome[bool]{1: goneNow, 2: leftNow})
	})
}

// TestLostSessionEndsItsSharedWaits with that error, not with the deletion of
// their entries.
func TestLostSessionEndsItsSharedWaits(t *testing.T) {
	inLine(t, 3, func(t *testing.T, l *line) {
		l.follow(t.Context(), 1, 2)
		l.a.End()
		lost := outcome[bool]{err: driver.ErrSessionLost}
		l.wantEnds(map[int]outcome[bool]{1: lost, 2: lost})
	})
}

// TestFollowerOfTheSameSessionNoticesAPass once it is sent, if it does not
// fail.
func TestFollowerOfTheSameSessionNoticesAPass(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, l *line, pass func() error){
		"with a late reply": func(t *testing.T, l *line, pass func() error) {
			reply := make(chan struct{})
			l.before = func(ctx context.Context, r *pb.TxnRequest) error {
				l.before = nil
				_, err := l.Txn(ctx, r)
				<-reply
				return errors.Join(err, rpctypes.ErrGRPCTimeout)
			}
			l.follow(t.Context(), 1)
			end := make(chan error, 1)
			go func() { end <- pass() }()
			l.wantEnds(map[int]outcome[bool]{1: passedNow})
			close(reply)
			wantIs(t, <-end, driver.ErrUnavailable)
		},
		"that is not sent yet when it follows": func(t *testing.T, l *line, pass func() error) {
			send := make(chan struct{})
			l.before = func(context.Context, *pb.TxnRequest) error {
				l.before = nil
				<-send
				return nil
			}
			l.follow(t.Context(), 4)
			end := make(chan error, 1)
			go func() { end <- pass() }()
			synctest.Wait()
			l.follow(t.Context(), 1)
			close(send)
			check(t, <-end)
			l.wantEnds(map[int]outcome[bool]{1: passedNow})
		},
		"not of one that failed": func(t *testing.T, l *line, pass func() error) {
			l.follow(t.Context(), 1)
			l.before = func(context.Context, *pb.TxnRequest) error { return rpctypes.ErrGRPCTimeout }
			wantIs(t, pass(), driver.ErrUnavailable)
			l.before = nil
			l.follow(t.Context(), 4)
			l.wantEnds(nil)
			check(t, l.a.Leave(t.Context(), queue, l.places[0]))
			l.wantEnds(map[int]outcome[bool]{1: leftNow})
		},
		"nor of one that failed before it follows": func(t *testing.T, l *line, pass func() error) {
			l.follow(t.Context(), 4)
			l.before = func(context.Context, *pb.TxnRequest) error { return rpctypes.ErrGRPCTimeout }
			wantIs(t, pass(), driver.ErrUnavailable)
			l.before = nil
			l.follow(t.Context(), 1)
			check(t, l.a.Leave(t.Context(), queue, l.places[0]))
			l.wantEnds(map[int]outcome[bool]{1: leftNow})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, 5, func(t *testing.T, l *line) {
				test(t, l, func() error { return l.a.Pass(t.Context(), queue, l.places[0]) })
				l.remove(3)
				l.wantEnds(map[int]outcome[bool]{4: leftNow})
			})
		})
	}
}

// TestFollowersOfOneEntryEndOnTheirOwn, in any order.
func TestFollowersOfOneEntryEndOnTheirOwn(t *testing.T) {
	inLine(t, 1, func(t *testing.T, l *line) {
		const followers = 20
		var cancels []context.CancelFunc
		for i := 1; i <= followers; i++ {
			l.join()
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			l.ends[i] = l.followOne(ctx, i, 0)
		}
		synctest.Wait()
		order := rand.Perm(followers)
		for _, i := range order[5:] {
			cancels[i]()
			l.wantEnds(map[int]outcome[bool]{i + 1: {err: context.Canceled}})
		}
		check(t, l.a.Pass(t.Context(), queue, l.places[0]))
		want := map[int]outcome[bool]{}
		for _, i := range order[:5] {
			want[i+1] = passedNow
			defer cancels[i]()
		}
		l.wantEnds(want)
	})
}

// TestFirstWatchOfAnEntryNeedsNoGoroutine besides its caller's. Others share
// one.
func TestFirstWatchOfAnEntryNeedsNoGoroutine(t *testing.T) {
	inLine(t, 4, func(t *testing.T, l *line) {
		ctx, cancel := context.WithCancel(t.Context())
		watch := func(i int) <-chan error {
			end := make(chan error, 1)
			go func() { end <- l.a.Watch(ctx, queue, l.places[i]) }()
			synctest.Wait()
			return end
		}
		first := watch(0)
		if n := len(l.a.ownWatches.of); n != 0 {
			t.Errorf("%d own watches", n)
		}
		others := []<-chan error{watch(1), watch(2), watch(3)}
		l.wantWatches(t, 2)
		l.remove(0)
		check(t, <-first)
		first = watch(1)
		l.wantWatches(t, 1) // it shares
		l.remove(1)
		check(t, <-first)
		check(t, <-others[0])
		cancel()
		for _, end := range others[1:] {
			wantIs(t, <-end, context.Canceled)
		}
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		first = watch(3)
		if n := len(l.a.ownWatches.of); n != 0 {
			t.Errorf("%d own watches", n)
		}
		l.remove(3)
		check(t, <-first)
	})
}

// lateReplies keeps the reply to each transaction that makes an entry, from
// when it is applied until the entry's channel is closed.
type lateReplies struct {
	*fake
	of map[string]chan struct{} // by the entry's key
}

func (l lateReplies) Txn(
	ctx context.Context, r *pb.TxnRequest, _ ...grpc.CallOption,
) (*pb.TxnResponse, error) {
	resp, err := l.fake.Txn(ctx, r)
	for _, op := range r.Success {
		if kept := l.of[string(op.GetRequestPut().GetKey())]; kept != nil && resp.GetSucceeded() {
			<-kept
		}
	}
	return resp, err
}

// TestLateReplyToAForgottenJoinHidesNothing from the contender that follows the
// entry, which has left.
func TestLateReplyToAForgottenJoinHidesNothing(t *testing.T) {
	inLine(t, 2, func(t *testing.T, l *line) {
		l.follow(t.Context(), 1) // the watch does not read after the joins
		late := lateReplies{l.fake, map[string]chan struct{}{}}
		client := l.a.Conn.Client
		client.KV = clientv3.NewKVFromKVClient(late, client)
		var replies []chan struct{}
		var joins []chan driver.Joined
		cs := []driver.Contender{contender(), contender()}
		for _, c := range cs {
			reply, joined := make(chan struct{}), make(chan driver.Joined, 1)
			replies, joins = append(replies, reply), append(joins, joined)
			c.Follows = true
			late.of[l.a.keys.Contender(queue, l.a.ID(), c.ID)+c.Mode] = reply
			go func() { joined <- join(t, l.a, c) }()
			synctest.Wait()
		}
		check(t, l.a.Forget(t.Context(), queue, cs[0].ID))
		synctest.Wait() // the watch has shown that
		close(replies[0])
		ahead := (<-joins[0]).Place
		close(replies[1])
		behind := <-joins[1]
		if behind.Nearest != ahead {
			t.Fatalf("joined behind %v, not %v", behind.Nearest, ahead)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if passed, err := l.a.Follow(ctx, queue, behind.Place, ahead); passed || err != nil {
			t.Errorf("Follow = %t, %v", passed, err)
		}
		check(t, l.a.Pass(t.Context(), queue, l.places[0]))
		l.wantEnds(map[int]outcome[bool]{1: passedNow})
	})
}

// TestViewAfterAWaitLacksWhatTheSessionItselfRemoved, at a member that is
// behind: its watch has not shown the removal (V1).
func TestViewAfterAWaitLacksWhatTheSessionItselfRemoved(t *testing.T) {
	for name, remove := range map[string]func(l *line, ctx context.Context) error{
		"Leave":  func(l *line, ctx context.Context) error { return l.a.Leave(ctx, queue, l.places[1]) },
		"Forget": func(l *line, ctx context.Context) error { return l.a.Forget(ctx, queue, l.as[1].ID) },
		"Leave of what was removed": func(l *line, ctx context.Context) error {
			l.remove(1)
			if err := l.a.Leave(ctx, queue, l.places[1]); !errors.Is(err, driver.ErrGone) {
				return fmt.Errorf("Leave = %w", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, 3, func(t *testing.T, l *line) {
				created := make(chan struct{})
				l.opens = func() { <-created }
				l.follow(t.Context(), 2)
				catchUp := l.lag()
				check(t, remove(l, t.Context()))
				close(created)
				l.wantEnds(map[int]outcome[bool]{2: leftNow})
				view, err := l.a.Ahead(t.Context(), queue, l.places[2])
				check(t, err)
				if n := len(view.Ahead); n != 1 {
					t.Errorf("%d places ahead", n)
				}
				catchUp()
			})
		})
	}
}

// TestViewAfterAWaitLacksWhatAJoinDidNotFind: its entry was made and removed,
// and a repeated join is refused.
func TestViewAfterAWaitLacksWhatAJoinDidNotFind(t *testing.T) {
	inLine(t, 1, func(t *testing.T, l *line) {
		c := contender()
		c.Follows, c.Record = true, setRecord(t, l.b, "one", 0)
		l.loseReply()
		if _, err := l.a.Join(t.Context(), queue, c); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatal(err)
		}
		behind := contender()
		behind.Follows = true
		j := join(t, l.a, behind)
		created := make(chan struct{})
		l.opens = func() { <-created }
		end := make(chan outcome[bool], 1)
		go func() {
			passed, err := l.a.Follow(t.Context(), queue, j.Place, j.Nearest)
			end <- outcome[bool]{passed, err}
		}()
		l.wantWait(t, end)
		catchUp := l.lag()
		check(t, l.b.Remove(t.Context(), queue, j.Nearest.Key, tokenOf(l.a, j.Nearest)))
		setRecord(t, l.b, "two", c.Record)
		c.Again = true
		_, err := l.a.Join(t.Context(), queue, c)
		wantIs(t, err, driver.ErrStale)
		close(created)
		l.wantEnd(t, end, leftNow)
		view, err := l.a.Ahead(t.Context(), queue, j.Place)
		check(t, err)
		if slices.Contains(view.Ahead, j.Nearest) {
			t.Error("the view shows what has left")
		}
		catchUp()
	})
}

// TestCancelledWaitersLeaveNothing, not even while their watch is created.
func TestCancelledWaitersLeaveNothing(t *testing.T) {
	for _, late := range []bool{false, true} {
		inLine(t, 1000, func(t *testing.T, l *line) {
			created := make(chan struct{})
			l.opens = func() { <-created }
			if !late {
				close(created)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			for i := 1; i < 1000; i++ {
				l.follow(ctx, i)
			}
			cause := errors.New("enough")
			cancel(cause)
			for i := 1; i < 1000; i++ {
				l.wantEnd(t, l.ends[i], outcome[bool]{err: cause})
			}
			if late {
				close(created)
			}
		})
	}
}
