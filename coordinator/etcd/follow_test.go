package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// ring is two contenders of two sessions that take turns. It is the second that
// follows the first.
type ring struct {
	*fake
	a, b          *session
	as            [2]driver.Contender
	first, second driver.Place
}

func newRing(t *testing.T) *ring {
	f, c := newFake(t)
	r := &ring{fake: f, a: open(t, f, c), b: open(t, f, c), as: [2]driver.Contender{contender(), contender()}}
	r.as[0].Follows, r.as[1].Follows = true, true
	zero := join(t, r.a, contender()).Place // so that the first has somebody ahead when it joins, and a tail
	r.first, r.second = join(t, r.a, r.as[0]).Place, join(t, r.b, r.as[1]).Place
	check(t, r.a.Leave(t.Context(), queue, zero))
	return r
}

func rings(t *testing.T, test func(t *testing.T, r *ring)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		test(t, r)
		r.stand(t, 0)
	})
}

func (r *ring) follow(ctx context.Context) <-chan outcome[bool] {
	end := make(chan outcome[bool], 1)
	go func() {
		passed, err := r.b.Follow(ctx, queue, r.second, r.first)
		end <- outcome[bool]{passed, err}
	}()
	synctest.Wait()
	return end
}

func (r *ring) told(t *testing.T, end <-chan outcome[bool], want outcome[bool]) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-end:
		if got.got != want.got || !errors.Is(got.err, want.err) {
			t.Errorf("told %+v, want %+v", got, want)
		}
	default:
		t.Error("it waits on")
	}
}

// waits fails the test if the wait has ended.
func (r *ring) waits(t *testing.T, end <-chan outcome[bool]) {
	t.Helper()
	synctest.Wait()
	if len(end) > 0 {
		t.Fatalf("told %+v", <-end)
	}
}

// compact ends the watches in the queue, and not those of sentinels.
func (r *ring) compact() {
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

// stand fails the test unless there are n watches in the queue now.
func (r *ring) stand(t *testing.T, n int) {
	t.Helper()
	synctest.Wait()
	if have := r.watched("/mutex/"); have != n {
		t.Errorf("%d watches, want %d", have, n)
	}
}

func TestFollowReportsWhatBecomesOfThePredecessor(t *testing.T) {
	passed, left := outcome[bool]{got: true}, outcome[bool]{}
	for name, test := range map[string]func(t *testing.T, r *ring){
		"left before the wait, and another life after it": func(t *testing.T, r *ring) {
			check(t, r.a.Leave(t.Context(), queue, r.first))
			join(t, r.a, r.as[0])
			r.told(t, r.follow(t.Context()), left)
		},
		"passed while the member at hand was behind": func(t *testing.T, r *ring) {
			catchUp := r.lag()
			check(t, r.a.Pass(t.Context(), queue, r.first))
			end := r.follow(t.Context())
			r.waits(t, end)
			catchUp()
			r.told(t, end, passed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rings(t, func(t *testing.T, r *ring) {
				test(t, r)
			})
		})
	}
}

// TestMessageOfALeavingTellsOfTheNextLifeToo: etcd may put events of several
// revisions into one message.
func TestMessageOfALeavingTellsOfTheNextLifeToo(t *testing.T) {
	rings(t, func(t *testing.T, r *ring) {
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
		r.told(t, end, outcome[bool]{got: true})
		r.told(t, r.follow(t.Context()), outcome[bool]{})
	})
}

// TestFollowUntilTheWatchStands: the watch takes as long as the test says.
func TestFollowUntilTheWatchStands(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, r *ring, stands chan struct{}){
		"the first leaves while the watch is made": func(t *testing.T, r *ring, stands chan struct{}) {
			end := r.follow(t.Context())
			check(t, r.a.Leave(t.Context(), queue, r.first))
			r.waits(t, end)
			close(stands)
			r.told(t, end, outcome[bool]{})
		},
		"the caller gives up while the watch is made": func(t *testing.T, r *ring, stands chan struct{}) {
			ctx, cancel := context.WithCancelCause(t.Context())
			end := r.follow(ctx)
			cause := errors.New("enough")
			cancel(cause)
			r.told(t, end, outcome[bool]{err: cause})
			close(stands)
			r.stand(t, 0)
		},
		"the member at hand is behind the first's leaving": func(t *testing.T, r *ring, stands chan struct{}) {
			leavesUnseen(t, r, stands, r.lag())
		},
		"the member at hand is behind both joins": func(t *testing.T, r *ring, stands chan struct{}) {
			check(t, r.a.Leave(t.Context(), queue, r.first))
			check(t, r.b.Leave(t.Context(), queue, r.second))
			catchUp := r.lag()
			r.first, r.second = join(t, r.a, r.as[0]).Place, join(t, r.b, r.as[1]).Place
			leavesUnseen(t, r, stands, catchUp)
		},
		"the first leaves while the watch is made anew": func(t *testing.T, r *ring, stands chan struct{}) {
			end := r.follow(t.Context())
			close(stands)
			r.waits(t, end)
			again := make(chan struct{})
			r.opens = func() { <-again }
			r.compact()
			r.waits(t, end)
			check(t, r.a.Leave(t.Context(), queue, r.first))
			close(again)
			r.told(t, end, outcome[bool]{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			rings(t, func(t *testing.T, r *ring) {
				stands := make(chan struct{})
				r.opens = func() { <-stands }
				test(t, r, stands)
			})
		})
	}
}

// leavesUnseen has the first leave while the member at hand is behind, which
// tells of it when it catches up.
func leavesUnseen(t *testing.T, r *ring, stands chan struct{}, catchUp func()) {
	t.Helper()
	end := r.follow(t.Context())
	close(stands)
	r.waits(t, end)
	check(t, r.a.Leave(t.Context(), queue, r.first))
	r.waits(t, end)
	catchUp()
	r.told(t, end, outcome[bool]{})
}

// TestFollowOfASessionThatIsLostWhileTheWatchIsMade: etcd keeps that watch
// until the stream ends.
func TestFollowOfASessionThatIsLostWhileTheWatchIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, stands := newRing(t), make(chan struct{})
		r.opens = func() { <-stands }
		end := r.follow(t.Context())
		_, err := r.b.Conn.Client.Revoke(t.Context(), r.b.Lease)
		check(t, err)
		close(stands)
		r.told(t, end, outcome[bool]{err: driver.ErrSessionLost})
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
