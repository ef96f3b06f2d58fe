package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator/driver"
)

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
			r.cut(true)
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

// leavesUnseen has the first leave while the member at hand is behind, which tells of it when it catches up.
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

// TestFollowOfASessionThatIsLostWhileTheWatchIsMade: etcd keeps that watch until the stream ends.
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

// TestContendedQueueIsJoinedInOneRequest: a session remembers whether the last join of a queue
// found others.
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
