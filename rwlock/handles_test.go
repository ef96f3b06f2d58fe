package rwlock_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/rwlock"
)

// TestHandlesOfOneHoldFollowAModel locks and unlocks handles of a hold at
// random, for reading and writing, with any of its contexts. The model is two
// counters: with write handles the entry is a writer's, with only read handles
// a reader's, and without handles it is gone. After the last write handle is
// unlocked there is never another.
func TestHandlesOfOneHoldFollowAModel(t *testing.T) {
	parties(t, func(a, _, _ party) {
		for seed := range uint64(100) {
			r := rand.New(rand.NewPCG(seed, 4))
			first := a.take(a.kind(r.IntN(2) == 0, false), a.Context())
			open, over := []*rwlock.Lock{first}, []*rwlock.Lock(nil)
			for len(open) > 0 {
				i := r.IntN(len(open))
				writers := len(slices.DeleteFunc(slices.Clone(open),
					func(l *rwlock.Lock) bool { return !l.Writer() }))
				switch choice := r.IntN(10); {
				case choice < 6 && len(open)+len(over) < 30: // lock
					writer := r.IntN(2) == 0
					l, err := a.kind(writer, r.IntN(2) == 0)(open[i].Context())
					if writer && writers == 0 {
						wantErr(t, err, rwlock.ErrUpgrade)
						continue
					}
					wantErr(t, err)
					open = append(open, l)
				default: // unlock
					a.unlock(open[i])
					over = append(over, open[i])
					open = slices.Delete(open, i, i+1)
				}
				a.checkHandles(seed, first.Token(), open, over)
			}
		}
	})
}

// checkHandles compares the queue and the handles with the model.
func (p party) checkHandles(seed uint64, token coordinator.Token, open, over []*rwlock.Lock) {
	p.Helper()
	live := map[bool]bool{} // kinds of handles that are open
	for _, l := range open {
		live[l.Writer()] = true
		if l.Err() != nil || l.Context().Err() != nil || l.Token() != token {
			p.Fatalf("seed %d: an open handle says %v, %v, token %d", seed, l.Err(),
				l.Context().Err(), l.Token())
		}
	}
	for _, l := range over {
		wantErr(p.T, l.Err(), coordinator.ErrReleased)
		if ended := context.Cause(l.Context()) != nil; ended && live[l.Writer()] &&
			p.sameLevel(l, open) {
			p.Fatalf("seed %d: the context of a kind that is still held has ended", seed)
		} else if !ended && !live[l.Writer()] {
			p.Fatalf("seed %d: the context of a kind that is no longer held is alive", seed)
		}
	}
	want := ""
	if live[true] {
		want = "w"
	} else if live[false] {
		want = "r"
	}
	got := ""
	for _, e := range p.svc.Snapshot(queue) {
		got += e.Mode
		if e.Token != token {
			p.Fatalf("seed %d: token %d, want %d", seed, e.Token, token)
		}
	}
	if got != want {
		p.Fatalf("seed %d: the queue is %q, want %q with %d handles open", seed, got, want,
			len(open))
	}
}

// sameLevel reports whether a released handle shares its context with an open
// one: reading can end within a write hold, and begin again with a new context.
func (p party) sameLevel(l *rwlock.Lock, open []*rwlock.Lock) bool {
	return slices.ContainsFunc(open, func(
		o *rwlock.Lock) bool {
		return o.Context().Done() == l.Context().Done()
	})
}
