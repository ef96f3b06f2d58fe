package memory_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// TestOnStepReportsEachChangeAndItsOriginator once and in order.
func TestOnStepReportsEachChangeAndItsOriginator(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		var steps []string
		w.svc.OnStep(func(s memory.Step) {
			steps = append(steps, fmt.Sprintf("%s by %s: %s%s%s", s.Kind, s.By, s.Entry.Mode, s.Entry.Value, s.Record.Value))
		})
		own := join(t, w.s)
		must(t, w.s.Write(t.Context(), queue, own.Place, []byte("v")))
		_, err := w.s.Convert(t.Context(), queue, own, "y", nil)
		must(t, err)
		must(t, w.s.Forget(t.Context(), queue, own.Place.ID))
		_, err = w.s.SetRecord(t.Context(), queue, []byte("r"), 0)
		must(t, err)
		w.svc.RemoveRecord(queue)
		w.svc.Remove(queue, w.svc.AddForeign(queue).Key)
		must(t, w.s.Leave(t.Context(), queue, join(t, w.s).Place))
		join(t, w.s)
		time.Sleep(ttl)
		synctest.Wait()
		second := open(t, w.d)
		join(t, second)
		w.svc.Expire(second.ID())
		third := open(t, w.d)
		join(t, third)
		must(t, third.Close(t.Context()))
		want := []string{
			"joined by client: x", "written by client: xv", "converted by client: y", "left by client: y",
			"record by client: r", "record by operator: ", "joined by operator: ", "left by operator: ",
			"joined by client: x", "left by client: x", "joined by client: x", "left by clock: x",
			"joined by client: x", "left by operator: x", "joined by client: x", "left by client: x",
		}
		if !slices.Equal(steps, want) {
			t.Errorf("steps %q\nwant  %q", steps, want)
		}
		w.svc.OnStep(nil)
		join(t, open(t, w.d))
		if len(steps) != len(want) {
			t.Error("a step was reported after OnStep(nil)")
		}
	})
}

func TestOnStepRunsBeforeClientsAreNotified(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		own := join(t, w.s)
		done := start(func() error { return w.s.Watch(t.Context(), queue, own.Place) })
		synctest.Wait()
		woken := -1
		w.svc.OnStep(func(memory.Step) { woken = len(done) })
		must(t, w.s.Leave(t.Context(), queue, own.Place))
		must(t, <-done)
		if woken != 0 {
			t.Errorf("%d were woken before OnStep", woken)
		}
	})
}

// TestRequestShowsItsCallersContext: a fate can depend on the goroutine.
func TestRequestShowsItsCallersContext(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "me")
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Context.Value(key{}) == "me" {
				return memory.Fate{Err: driver.ErrRefused}
			}
			return memory.Fate{}
		})
		must(t, w.s.Renew(t.Context()))
		wantErr(t, w.s.Renew(ctx), driver.ErrRefused)
	})
}
