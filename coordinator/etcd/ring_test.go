package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// ring is two contenders of two sessions that take turns. It is the second that follows the first.
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

// turn lets each of them in and join again.
func (r *ring) turn(t *testing.T) {
	t.Helper()
	end := r.follow(t.Context())
	check(t, r.a.Pass(t.Context(), queue, r.first))
	r.told(t, end, outcome[bool]{got: true})
	r.again(t)
}

// again is what follows when the second was let in.
func (r *ring) again(t *testing.T) {
	t.Helper()
	r.first = join(t, r.a, r.as[0]).Place
	check(t, r.b.Pass(t.Context(), queue, r.second))
	r.second = join(t, r.b, r.as[1]).Place
	synctest.Wait()
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

func (r *ring) removed(t *testing.T, s *session, p driver.Place) {
	t.Helper()
	e, _ := s.keys.Entry(queue, p)
	check(t, s.Remove(t.Context(), queue, p.Key, driver.Token(s.keys.Rank(queue, e))))
	synctest.Wait()
}

// cut ends the watches in the queue, compacted or without a word.
func (r *ring) cut(compacted bool) {
	r.cutThose(compacted, func(w *watcher) bool { return len(w.op.RangeBytes()) > 0 }) // not a sentinel's
}

func (r *ring) cutThose(compacted bool, cut func(w *watcher) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.watchers {
		if !cut(w) {
			continue
		}
		delete(r.watchers, w)
		if compacted {
			w.out <- clientv3.WatchResponse{Header: r.header(), Canceled: true, CompactRevision: r.rev}
		}
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
				r.turn(t)
				test(t, r)
			})
		})
	}
}

// TestMessageOfALeavingTellsOfTheNextLifeToo: etcd may put events of several revisions into one message.
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
