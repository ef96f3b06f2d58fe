package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes"
)

// shown is the sequencer of a hold.
func (w place) shown(h held) fence.Sequencer {
	w.Helper()
	s, err := h.Sequencer(w.Context())
	check(w, err)
	return s
}

// check asks another client whether the grant of a sequencer holds.
func (w place) check(s fence.Sequencer, by int) bool {
	w.Helper()
	err := w.all[by].Check(w.Context(), s)
	if err != nil && !errors.Is(err, fence.ErrStale) {
		w.Fatal(err)
	}
	return err == nil
}

// TestSequencerHoldsForAsLongAsTheGrant: also when a contender joins, after
// engine.SettleAfter, and when other processes parse its text.
func TestSequencerHoldsForAsLongAsTheGrant(t *testing.T) {
	worlds(t, append(ways(), reading), 3, func(w place, ask way) {
		first := w.take(ask, 0)
		s := w.shown(first)
		kind, name, _ := ask.queue.Split()
		if s.Kind != kind || s.Name != name || s.Token != first.token || s.Validate() != nil {
			w.Errorf("%v of %s with token %d", s, ask.queue, first.token)
		}
		next := w.queue(w.Context(), ask, 1)
		for range 4 {
			if again := w.shown(first); again != s || !w.check(s, 2) {
				w.Errorf("%v is %v by now", s, again)
			}
			time.Sleep(100 * time.Millisecond)
		}
		w.release(first)
		if w.check(s, 2) {
			w.Error("valid after its release")
		}
		if _, err := first.Sequencer(w.Context()); !errors.Is(err, coordinator.ErrReleased) {
			w.Errorf("after the release: %v", err)
		}
		second := w.granted(next)
		later := w.shown(second)
		if err := later.In(s.Scope); err != nil || later.Token <= s.Token {
			w.Errorf("%v comes after %v: %v", later, s, err)
		}
		if !w.check(later, 2) {
			w.Error("the next sequencer is not valid")
		}
		w.svc.Expire(second.session)
		if w.check(later, 2) {
			w.Error("valid after its session")
		}
		synctest.Wait()
		if _, err := second.Sequencer(w.Context()); !lost(err) {
			w.Errorf("after the loss: %v", err)
		}
	})
}

// TestSequencerCostsNothingButTheFirst: the first one ever reads, writes and
// reads the identity again; the first of a session reads it. A permit's entry
// is converted, as it would be anyway.
func TestSequencerCostsNothingButTheFirst(t *testing.T) {
	worlds(t, append(ways(), reading), 2, func(w place, ask way) {
		cost := func(h held, by int) int {
			before := w.links[by].Stats()
			w.shown(h)
			after := w.links[by].Stats()
			return after.Total() - before.Total() - (after.Requests[memory.OpRenew] - before.Requests[memory.OpRenew])
		}
		conversions := 0
		if ask.name == "permits" {
			conversions = 1
		}
		for i, first := range []int{3, 1} {
			h := w.take(ask, i)
			if n := cost(h, i); n != first+conversions {
				w.Errorf("client %d: %d requests, want %d and %d conversions", i, n, first,
					conversions)
			}
			if n := cost(h, i); n != 0 {
				w.Errorf("client %d, again: %d requests", i, n)
			}
			w.release(h)
			h = w.take(ask, i)
			if n := cost(h, i); n != conversions {
				w.Errorf("client %d, another hold: %d requests, want %d", i, n, conversions)
			}
			before := w.links[i].Stats().Requests[memory.OpConvert]
			time.Sleep(time.Second)
			if n := w.links[i].Stats().Requests[memory.OpConvert] - before; n != 0 {
				w.Errorf("%d conversions more when the hold has lasted", n)
			}
			w.release(h)
		}
	})
}

// TestConversionEndsASequencer: a writer's sequencer must not be valid for a
// reader.
func TestConversionEndsASequencer(t *testing.T) {
	inWorld(t, func(w world) {
		show := func(h *recipes.Hold) fence.Sequencer {
			w.Helper()
			s, err := h.Sequencer(w.Context())
			check(w, err)
			return s
		}
		upper, lower := w.both()
		writing := show(upper)
		if show(lower) != writing {
			w.Errorf("within a write it is %v, and %v of the write", show(lower), writing)
		}
		w.release(upper)
		if _, err := upper.Sequencer(w.Context()); !errors.Is(err, coordinator.ErrReleased) {
			w.Errorf("of a released handle: %v", err)
		}
		reads := show(lower)
		if err := reads.In(writing.Scope); err != nil || reads.Token != writing.Token || reads == writing {
			w.Errorf("%v and %v: %v", writing, reads, err)
		}
		if err := w.b.client.Check(w.Context(), writing); !errors.Is(err, fence.ErrStale) {
			w.Errorf("the writer's: %v", err)
		}
		if err := w.b.client.Check(w.Context(), reads); err != nil {
			w.Errorf("the reader's: %v", err)
		}
		wantErr(w.T, lower.Convert(w.Context(), "no mode"), coordinator.ErrInvalid)
		if show(lower) != reads {
			w.Error("changed by a conversion that was refused")
		}
		w.release(lower)
	})
}

// TestSequencerWaitsForTheConversionUnderWay: it must name the converted entry.
func TestSequencerWaitsForTheConversionUnderWay(t *testing.T) {
	for _, fate := range []memory.Fate{{DelayRequest: time.Second}, {DropReply: true},
		{DropRequest: true}} {
		inWorld(t, func(w world) {
			w.on(memory.OpConvert, fate, memory.Fate{})
			h := w.hold(w.a, w.Context(), showing)
			s, err := h.Sequencer(w.Context())
			check(w, err)
			w.wantModes("h")
			time.Sleep(time.Second)
			if err := w.b.client.Check(w.Context(), s); err != nil {
				w.Errorf("%+v: %v", fate, err)
			}
			w.release(h)
		})
	}
}

func TestSequencerThatCannotBeHadSaysWhy(t *testing.T) {
	inWorld(t, func(w world) {
		h := w.hold(w.a, w.Context(), showing)
		w.a.link.Cut()
		ctx := w.bounded(time.Second)
		if _, err := h.Sequencer(ctx); !errors.Is(err, coordinator.ErrUnavailable) ||
			!errors.Is(err, context.DeadlineExceeded) || h.Err() != nil {
			w.Errorf("cut off: %v", err)
		}
		w.a.link.Heal()
		if _, err := h.Sequencer(w.Context()); err != nil {
			w.Errorf("healed: %v", err)
		}
		w.svc.Remove(name, h.ID())
		synctest.Wait()
		time.Sleep(time.Second)
		if _, err := h.Sequencer(w.Context()); !errors.Is(err, coordinator.ErrRemoved) {
			w.Errorf("removed: %v", err)
		}
		wantErr(w.T, h.Release(w.Context()), coordinator.ErrRemoved)
	})
}
