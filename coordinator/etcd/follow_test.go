package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// pair is two contenders of two sessions. The second follows the first.
type pair struct {
	*fake
	a, b          *session
	as            [2]driver.Contender
	first, second driver.Place
}

func newPair(t *testing.T) *pair {
	f, c := newFake(t)
	r := &pair{fake: f, a: open(t, f, c), b: open(t, f, c), as: [2]driver.Contender{contender(), contender()}}
	r.as[0].Follows, r.as[1].Follows = true, true
	zero := join(t, r.a, contender()).Place // so that the first joins a non-empty queue, and there is a tail key
	r.first, r.second = join(t, r.a, r.as[0]).Place, join(t, r.b, r.as[1]).Place
	check(t, r.a.Leave(t.Context(), queue, zero))
	return r
}

func withPair(t *testing.T, test func(t *testing.T, r *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newPair(t)
		test(t, r)
		r.wantWatches(t, 0)
	})
}

func (r *pair) follow(ctx context.Context) <-chan outcome[bool] {
	end := make(chan outcome[bool], 1)
	go func() {
		passed, err := r.b.Follow(ctx, queue, r.second, r.first)
		end <- outcome[bool]{passed, err}
	}()
	synctest.Wait()
	return end
}

func (r *pair) wantEnd(t *testing.T, end <-chan outcome[bool], want outcome[bool]) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-end:
		if got.got != want.got || !errors.Is(got.err, want.err) {
			t.Errorf("Follow = %+v, want %+v", got, want)
		}
	default:
		t.Error("Follow still waits")
	}
}

// wantWait fails the test if the wait has ended.
func (r *pair) wantWait(t *testing.T, end <-chan outcome[bool]) {
	t.Helper()
	synctest.Wait()
	if len(end) > 0 {
		t.Fatalf("Follow = %+v", <-end)
	}
}

// compact ends the watches in the queue, not those of sentinels.
func (r *pair) compact() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.watchers {
		if len(w.op.RangeBytes()) == 0 {
			continue
		}
		delete(r.watchers, w)
		w.out <- clientv3.WatchResponse{Header: r.header(), Canceled: true, CompactRevision: r.rev}
		close(w.out)
	}
}

// wantWatches fails the test unless the queue has n watches.
func (r *pair) wantWatches(t *testing.T, n int) {
	t.Helper()
	synctest.Wait()
	if have := r.watched("/mutex/"); have != n {
		t.Errorf("%d watches, want %d", have, n)
	}
}

func TestFollowReportsHowThePredecessorLeft(t *testing.T) {
	passed, left := outcome[bool]{got: true}, outcome[bool]{}
	for name, test := range map[string]func(t *testing.T, r *pair){
		"left before the wait, and the key was recreated": func(t *testing.T, r *pair) {
			check(t, r.a.Leave(t.Context(), queue, r.first))
			join(t, r.a, r.as[0])
			r.wantEnd(t, r.follow(t.Context()), left)
		},
		"passed while the member at hand was behind": func(t *testing.T, r *pair) {
			catchUp := r.lag()
			check(t, r.a.Pass(t.Context(), queue, r.first))
			end := r.follow(t.Context())
			r.wantWait(t, end)
			catchUp()
			r.wantEnd(t, end, passed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withPair(t, func(t *testing.T, r *pair) {
				test(t, r)
			})
		})
	}
}

// TestFollowReadsEventsOfSeveralEntriesInOneMessage: etcd may put events of
// several revisions, with two entries of one key, into one message.
func TestFollowReadsEventsOfSeveralEntriesInOneMessage(t *testing.T) {
	withPair(t, func(t *testing.T, r *pair) {
		end := r.follow(t.Context())
		catchUp := r.lag()
		check(t, r.a.Pass(t.Context(), queue, r.first))
		r.first = join(t, r.a, r.as[0]).Place
		check(t, r.a.Leave(t.Context(), queue, r.first))
		r.mu.Lock()
		all := held{rev: r.rev}
		for _, h := range r.past.held {
			all.events = append(all.events, h.events...)
		}
		r.past.held = []held{all}
		r.mu.Unlock()
		catchUp()
		r.wantEnd(t, end, outcome[bool]{got: true})
		r.wantEnd(t, r.follow(t.Context()), outcome[bool]{})
	})
}

// TestFollowUntilTheWatchIsCreated: the test decides when that is.
func TestFollowUntilTheWatchIsCreated(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, r *pair, created chan struct{}){
		"the first leaves while the watch is created": func(t *testing.T, r *pair, created chan struct{}) {
			end := r.follow(t.Context())
			check(t, r.a.Leave(t.Context(), queue, r.first))
			r.wantWait(t, end)
			close(created)
			r.wantEnd(t, end, outcome[bool]{})
		},
		"the caller gives up while the watch is created": func(t *testing.T, r *pair, created chan struct{}) {
			ctx, cancel := context.WithCancelCause(t.Context())
			end := r.follow(ctx)
			cause := errors.New("enough")
			cancel(cause)
			r.wantEnd(t, end, outcome[bool]{err: cause})
			close(created)
			r.wantWatches(t, 0)
		},
		"the member at hand is behind the leave": func(t *testing.T, r *pair, created chan struct{}) {
			leavesUnseen(t, r, created, r.lag())
		},
		"the member at hand is behind both joins": func(t *testing.T, r *pair, created chan struct{}) {
			check(t, r.a.Leave(t.Context(), queue, r.first))
			check(t, r.b.Leave(t.Context(), queue, r.second))
			catchUp := r.lag()
			r.first, r.second = join(t, r.a, r.as[0]).Place, join(t, r.b, r.as[1]).Place
			leavesUnseen(t, r, created, catchUp)
		},
		"the first leaves while the watch is recreated": func(t *testing.T, r *pair, created chan struct{}) {
			end := r.follow(t.Context())
			close(created)
			r.wantWait(t, end)
			again := make(chan struct{})
			r.opens = func() { <-again }
			r.compact()
			r.wantWait(t, end)
			check(t, r.a.Leave(t.Context(), queue, r.first))
			close(again)
			r.wantEnd(t, end, outcome[bool]{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			withPair(t, func(t *testing.T, r *pair) {
				created := make(chan struct{})
				r.opens = func() { <-created }
				test(t, r, created)
			})
		})
	}
}

// leavesUnseen has the first leave while the member at hand is behind. Its
// watch shows that when it catches up.
func leavesUnseen(t *testing.T, r *pair, created chan struct{}, catchUp func()) {
	t.Helper()
	end := r.follow(t.Context())
	close(created)
	r.wantWait(t, end)
	check(t, r.a.Leave(t.Context(), queue, r.first))
	r.wantWait(t, end)
	catchUp()
	r.wantEnd(t, end, outcome[bool]{})
}

// TestFollowOfASessionThatIsLostWhileTheWatchIsCreated: etcd keeps the watch
// until the stream ends.
func TestFollowOfASessionThatIsLostWhileTheWatchIsCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, created := newPair(t), make(chan struct{})
		r.opens = func() { <-created }
		end := r.follow(t.Context())
		_, err := r.b.Conn.Client.Revoke(t.Context(), r.b.Lease)
		check(t, err)
		close(created)
		r.wantEnd(t, end, outcome[bool]{err: driver.ErrSessionLost})
	})
}

// TestContendedQueueIsJoinedInOneRequest: a session remembers whether the last
// join of a queue found others.
func TestContendedQueueIsJoinedInOneRequest(t *testing.T) {
	f, c := newFake(t)
	a, b := open(t, f, c), open(t, f, c)
	x, y := contender(), contender()
	x.Follows, y.Follows = true, true
	meet := func() (requests int) {
		first := join(t, a, x)
		var second driver.Joined
		requests = f.sent(func() { second = join(t, b, y) })
		check(t, a.Leave(t.Context(), queue, first.Place))
		check(t, b.Leave(t.Context(), queue, second.Place))
		return requests
	}
	for i, want := range []int{2, 1, 1} {
		if n := meet(); n != want {
			t.Errorf("contended join %d took %d requests, want %d", i, n, want)
		}
	}
	for range 2 {
		j := join(t, b, y)
		check(t, b.Leave(t.Context(), queue, j.Place))
	}
	if n := meet(); n != 2 {
		t.Errorf("%d requests after the queue was found empty", n)
	}
}
