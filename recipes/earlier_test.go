package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/rwlock"
)

// In these tests the client's session ends by its clock, but the service still
// has it, with all its entries, and receives nothing for it. The client
// acquires again, on a new session, while its old entry is in the queue.

// deafen makes the service receive nothing more for a session: it cannot be
// renewed or ended.
func (w place) deafen(i int) {
	id := w.session(i).ID()
	w.svc.OnRequest(func(r memory.Request) memory.Fate {
		return memory.Fate{DropRequest: r.Session == id}
	})
}

// TestNoGrantRestsOnAnEntryOfAnEarlierSession: the client waits for its old
// entry as for any other, and gets a greater token. Calls of the old hold
// affect neither.
func TestNoGrantRestsOnAnEntryOfAnEarlierSession(t *testing.T) {
	worlds(t, ways(), 2, func(w place, ask way) {
		began := time.Now()
		old := w.take(ask, 0)
		w.deafen(0)
		<-old.ctx.Done()
		if !lost(old.err()) || time.Since(began) >= ttl {
			w.Fatalf("the session ended with %v after %v", old.err(), time.Since(began))
		}
		again := w.queue(context.Background(), ask, 0)
		if again.over() || len(w.svc.Snapshot(ask.queue)) != 2 {
			w.Fatalf("with its own old entry there: over %v, %v, %d in the queue", again.over(),
				again.err, len(w.svc.Snapshot(ask.queue)))
		}
		if err := old.release(context.Background()); !lost(err) {
			w.Errorf("release of the old hold = %v", err)
		}
		if len(w.svc.Snapshot(ask.queue)) != 2 {
			w.Error("the release of a lost hold deleted an entry")
		}
		h := w.granted(again)
		if again.at.Sub(began) < ttl {
			w.Errorf("granted after %v, with the old entry there until %v", again.at.Sub(began),
				ttl)
		}
		if h.session == old.session || h.token <= old.token {
			w.Errorf("granted %+v after %+v", h, old)
		}
		if err := old.release(context.Background()); !errors.Is(err, coordinator.ErrNotHeld) {
			w.Errorf("second release of the old hold = %v", err)
		}
		if h.err() != nil || len(w.svc.Snapshot(ask.queue)) != 1 {
			w.Errorf("the new hold was affected: %v", h.err())
		}
		w.release(h)
	})
}

// TestNoReentryRestsOnAnEarlierSession: a lost hold is not re-entered, in no
// mode. A live context that carries a lost hold is like any other: a call with
// it is queued.
func TestNoReentryRestsOnAnEarlierSession(t *testing.T) {
	worlds(t, append(ways(), reading), 2, func(w place, ask way) {
		old := w.take(ask, 0)
		w.deafen(0)
		<-old.ctx.Done()
		for range 2 { // with and without the old entry
			for _, how := range append(ways(), reading) {
				if how.queue != ask.queue {
					continue
				}
				if h, err := how.ask(old.ctx, w.all[0]); !lost(err) {
					w.Errorf("%s with the context of a lost hold = %+v, %v", how.name, h, err)
				}
				ctx, cancel := context.WithTimeout(context.WithoutCancel(old.ctx),
					100*time.Millisecond)
				h, err := how.ask(ctx, w.all[0])
				cancel()
				queued := len(w.svc.Snapshot(ask.queue)) > 0 &&
					(ask.name != reading.name || how.name != reading.name)
				switch {
				case err == nil && (h.session == old.session || h.token <= old.token):
					w.Errorf("%s re-entered the lost hold: %+v", how.name, h)
				case err == nil:
					w.release(h)
				case !queued || !errors.Is(err, context.DeadlineExceeded):
					w.Errorf("%s with the values of a lost hold's context: %v", how.name, err)
				}
			}
			time.Sleep(2 * ttl)
		}
		if n := len(w.svc.Snapshot(ask.queue)); n != 0 {
			w.Errorf("%d in the queue", n)
		}
		if err := old.release(context.Background()); !lost(err) {
			w.Errorf("release = %v", err)
		}
	})
}

// TestNoDowngradeRestsOnAnEarlierSession: a lost writer does not become a
// reader, whichever step of the downgrade follows the loss.
func TestNoDowngradeRestsOnAnEarlierSession(t *testing.T) {
	for name, before := range map[string]bool{"read lock taken before the loss": true,
		"after it": false} {
		t.Run(name, func(t *testing.T) {
			worlds(t, ways()[1:2], 2, func(w place, ask way) {
				l, err := rwlock.New(w.all[0], "n")
				check(w, err)
				writer, err := l.Lock(context.Background())
				check(w, err)
				var reader *rwlock.Lock
				if before {
					reader, err = l.RLock(writer.Context())
					check(w, err)
				}
				next := w.queue(context.Background(), ask, 1)
				w.deafen(0)
				<-writer.Context().Done()
				if !before {
					if reader, err = l.RLock(writer.Context()); !lost(err) {
						w.Errorf("RLock of a lost writer = %v, %v", reader, err)
					}
				}
				if err := writer.Unlock(context.Background()); !lost(err) {
					w.Errorf("Unlock of the lost writer = %v", err)
				}
				if before {
					if !lost(reader.Err()) || !lost(reader.Unlock(context.Background())) {
						w.Errorf("the reader's Err: %v", reader.Err())
					}
				}
				h := w.granted(next)
				if n := w.svc.Stats().Requests[memory.OpConvert]; n != 0 {
					w.Errorf("%d conversions of a lost hold", n)
				}
				w.release(h)
			})
		})
	}
}

// TestWaiterOfALostSessionReturnsAtOnceAndNeverWins: at once if the service
// ends the session, and at the deadline if the client is cut off. The lock,
// released just after, goes to another contender.
func TestWaiterOfALostSessionReturnsAtOnceAndNeverWins(t *testing.T) {
	for name, end := range map[string]func(w place, i int){
		"expired": func(w place, i int) { w.svc.Expire(w.session(i).ID()) },
		"cut off": func(w place, i int) { w.links[i].Cut() },
		"deaf":    func(w place, i int) { w.links[i].HoldReplies() },
	} {
		t.Run(name, func(t *testing.T) {
			worlds(t, append(ways(), reading), 3, func(w place, ask way) {
				first := ask
				if ask.name == reading.name { // readers wait for writers only
					first = ways()[1]
				}
				h := w.take(first, 0)
				victim := w.queue(context.Background(), ask, 1)
				behind := w.queue(context.Background(), first, 2)
				began := time.Now()
				end(w, 1)
				if name != "expired" {
					w.release(h) // hands over to the waiter, which is cut off
				}
				<-victim.done
				if !lost(victim.err) {
					w.Fatalf("the waiter got %v", victim.err)
				}
				bound := ttl
				if name == "expired" {
					bound = 0
				}
				if took := victim.at.Sub(began); took > bound {
					w.Errorf("the waiter returned after %v", took)
				}
				if name == "expired" {
					if behind.over() {
						w.Error("the next waiter overtook the first")
					}
					w.release(h)
				}
				next := w.granted(behind)
				w.links[1].Heal()
				synctest.Wait()
				if next.err() != nil || len(w.svc.Snapshot(ask.queue)) != 1 {
					w.Errorf("the next hold was affected: %v", next.err())
				}
				w.release(next)
			})
		})
	}
}
