package virtualetcd_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/semaphore"
)

// contended is a name that one client holds. take waits for it with another
// client, until release.
type contended func(t *testing.T, holder, waiter *coordinator.Client) (take func(context.Context) error, release func())

var recipes = map[string]contended{
	"mutex": func(t *testing.T, holder, waiter *coordinator.Client) (func(context.Context) error, func()) {
		a, b := must(mutex.New(holder, "a")), must(mutex.New(waiter, "a"))
		held := must(a.Lock(t.Context()))
		return func(ctx context.Context) error {
			_, err := b.Lock(ctx)
			return err
		}, func() { check(t, held.Unlock(t.Context())) }
	},
	"semaphore": func(t *testing.T, holder, waiter *coordinator.Client) (func(context.Context) error, func()) {
		a, b := must(semaphore.New(holder, "a", 2)), must(semaphore.New(waiter, "a", 2))
		held := must(a.Acquire(t.Context(), 2))
		return func(ctx context.Context) error {
			_, err := b.Acquire(ctx, 1)
			return err
		}, func() { check(t, held.Release(t.Context())) }
	},
	"election": func(t *testing.T, holder, waiter *coordinator.Client) (func(context.Context) error, func()) {
		a, b := must(election.New(holder, "a")), must(election.New(waiter, "a"))
		held := must(a.Campaign(t.Context(), nil))
		return func(ctx context.Context) error {
			_, err := b.Campaign(ctx, nil)
			return err
		}, func() { check(t, held.Resign(t.Context())) }
	},
}

// The member that serves the waiter stops to apply, with or without an answer
// to reads. The waiter is admitted by another member within about a TTL.
func TestWaiterLeavesAMemberThatStopsToApply(t *testing.T) {
	for name, prepare := range recipes {
		for _, condition := range []virtualetcd.Condition{virtualetcd.Stalled, virtualetcd.Mute} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					waiter, link := w.client("")
					holder, other := w.client("")
					take, release := prepare(w.t, w.baton(holder), w.baton(waiter))
					got := make(chan error, 1)
					go func() { got <- take(w.t.Context()) }()
					time.Sleep(3 * ttl)
					serving := link.Serving()
					serving.Suffer(condition)
					release()
					time.Sleep(ttl * 5 / 4)
					if condition == virtualetcd.Mute { // each request that goes to it costs a part of a TTL
						time.Sleep(ttl)
					}
					synctest.Wait()
					select {
					case err := <-got:
						check(w.t, err)
					default:
						w.t.Fatal("the waiter still waits")
					}
					if now := link.Serving(); now == serving && condition == virtualetcd.Stalled {
						w.t.Error("the waiter's watches stay at the member that stalls")
					}
					_ = other
				})
			})
		}
	}
}

// An operator switches authentication on while clients run. Those with a user
// go on.
func TestWaitersSurviveThatAuthenticationIsSwitchedOn(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx := w.t.Context()
		check(w.t, w.AddRoot())
		holder, _ := w.client("root")
		waiter, _ := w.client("root")
		take, release := recipes["mutex"](w.t, w.baton(holder), w.baton(waiter))
		session := w.baton(waiter) // whose session and watches are from before, too
		check(w.t, must(must(mutex.New(session, "b")).Lock(ctx)).Unlock(ctx))
		check(w.t, w.EnableAuth())
		got := make(chan error, 1)
		go func() { got <- take(ctx) }()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(got) > 0 {
			w.t.Fatalf("the waiter ended: %v", <-got)
		}
		release()
		check(w.t, <-got)
	})
}

// TestWaitAsksTwoMembersAfterOneWasSilent: requests go to the members in turn.
// Others of the same client may come between the reads of a wait at such a pace
// that each of them meets the member that answers none.
func TestWaitAsksTwoMembersAfterOneWasSilent(t *testing.T) {
	for phase := range 12 {
		inWorld(t, func(w *world) {
			waiter, link := w.client("")
			holder, _ := w.client("")
			take, release := recipes["mutex"](w.t, w.baton(holder), w.baton(waiter))
			between := func() { // a request that has no other effect
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				_, _ = waiter.Get(ctx, "between", clientv3.WithSerializable())
			}
			var reads atomic.Int32
			w.OnRequest(func(r virtualetcd.Request) virtualetcd.Fate {
				read, ok := r.Message.(*pb.RangeRequest)
				if ok && r.Link == link && string(read.Key) != "between" {
					reads.Add(1)
					go between()
					go between()
				}
				return virtualetcd.Fate{}
			})
			got := make(chan error, 1)
			first, end := context.WithTimeout(w.t.Context(), 3*ttl)
			defer end()
			_ = take(first) // it has a session, and watches at a member
			ill := w.Members()[0]
			if ill == link.Serving() {
				ill = w.Members()[1]
			}
			ill.Suffer(virtualetcd.Mute)
			for range phase {
				between()
			}
			reads.Store(0)
			go func() { got <- take(w.t.Context()) }()
			time.Sleep(2 * ttl)
			release()
			time.Sleep(ttl / 2) // the first read may meet the silent member again
			synctest.Wait()
			select {
			case err := <-got:
				check(w.t, err)
			default:
				w.t.Errorf("phase %d: the waiter still waits after %d reads", phase, reads.Load())
				ill.Heal()
				check(w.t, <-got)
			}
		})
	}
}

// TestRequestThatASilentMemberTookIsRepeatedAtTwo: a view of the queue is no
// read of a wait, and is repeated by its caller.
func TestRequestThatASilentMemberTookIsRepeatedAtTwo(t *testing.T) {
	inWorld(t, func(w *world) {
		waiter, link := w.client("")
		holder, _ := w.client("")
		take, release := recipes["mutex"](w.t, w.baton(holder), w.baton(waiter))
		first, end := context.WithTimeout(w.t.Context(), ttl)
		defer end()
		_ = take(first) // it has a session
		var mu sync.Mutex
		var views []time.Time // when they arrived
		w.OnRequest(func(r virtualetcd.Request) virtualetcd.Fate {
			txn, ok := r.Message.(*pb.TxnRequest)
			if !ok || r.Link != link || len(txn.Success) == 0 || txn.Success[0].GetRequestRange() == nil {
				return virtualetcd.Fate{}
			}
			mu.Lock()
			defer mu.Unlock()
			if views = append(views, time.Now()); len(views) == 1 {
				return virtualetcd.Fate{DelayReply: ttl / 2}
			}
			return virtualetcd.Fate{}
		})
		got := make(chan error, 1)
		go func() { got <- take(w.t.Context()) }()
		time.Sleep(ttl)
		synctest.Wait()
		mu.Lock()
		atOnce := false
		for i := 2; i < len(views); i++ {
			atOnce = atOnce || views[i].Sub(views[i-1]) < 100*time.Millisecond
		}
		if !atOnce {
			w.t.Errorf("requests for a view at %v, want two at once after the first", views)
		}
		mu.Unlock()
		release()
		check(w.t, <-got)
	})
}
