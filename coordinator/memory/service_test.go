package memory_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

func TestStopKeepsDataAndStartGivesTheFullTTL(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		own := join(t, w.s)
		watch := start(func() error { return w.s.Watch(t.Context(), queue, own.Place) })
		time.Sleep(ttl - time.Second)
		w.svc.Stop()
		wantErr(t, <-watch, driver.ErrUnavailable)
		wantErr(t, w.s.Renew(t.Context()), driver.ErrUnavailable)
		_, err := w.d.Open(t.Context(), ttl)
		wantErr(t, err, driver.ErrUnavailable)
		time.Sleep(time.Hour)
		wantEntries(t, w.svc, 1)
		w.svc.Start()
		w.svc.Start() // no effect while running: the ttl does not start again
		time.Sleep(ttl - 1)
		synctest.Wait()
		wantEntries(t, w.svc, 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wantEntries(t, w.svc, 0)
	})
}

func TestErrorOfAStoppedServiceIsHeldByACutLink(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		own := join(t, w.s)
		watch := start(func() error { return w.s.Watch(t.Context(), queue, own.Place) })
		synctest.Wait()
		w.d.Cut()
		w.svc.Stop()
		synctest.Wait()
		pending(t, watch)
		w.d.Heal()
		wantErr(t, <-watch, driver.ErrUnavailable)
	})
}

func TestActionsOfAnOperator(t *testing.T) {
	svc := memory.NewService()
	s := open(t, svc.Driver())
	byKey, byID := join(t, s), join(t, s)
	foreign := svc.AddForeign(queue)
	if foreign.ID != "" || foreign.Session != "" || foreign.Key == "" {
		t.Errorf("foreign place %+v, want a key and nothing else", foreign)
	}
	for _, x := range []struct {
		what string
		did  bool
		want bool
	}{
		{"Remove by key", svc.Remove(queue, byKey.Place.Key), true},
		{"Remove again", svc.Remove(queue, byKey.Place.Key), false},
		{"Remove by ID", svc.Remove(queue, byID.Place.ID), true},
		{"Remove foreign", svc.Remove(queue, foreign.Key), true},
		{"Remove in an empty queue", svc.Remove(queue, "e1"), false},
		{"Expire", svc.Expire(s.ID()), true},
		{"Expire again", svc.Expire(s.ID()), false},
	} {
		if x.did != x.want {
			t.Errorf("%s: %t, want %t", x.what, x.did, x.want)
		}
	}
	if queues := svc.Queues(); len(queues) != 0 {
		t.Errorf("queues %v are left", queues)
	}
}

func TestStatsCountWhatArrived(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		other := w.svc.Driver()
		ahead := join(t, open(t, other))
		own := join(t, w.s)
		watch := start(func() error { return w.s.Watch(t.Context(), queue, ahead.Place) })
		synctest.Wait()
		want := memory.Stats{Watches: 1, Sessions: 1, Entries: 1, Requests: map[memory.Op]int{
			memory.OpOpen: 1, memory.OpJoin: 1, memory.OpWatch: 1,
		}}
		wantStats(t, w.d.Stats(), want)
		w.svc.Remove(queue, ahead.Place.Key)
		must(t, <-watch)
		must(t, w.s.Watch(t.Context(), queue, ahead.Place)) // answered at once: no wake-up
		want.Watches, want.Wakeups, want.Requests[memory.OpWatch] = 0, 1, 2
		wantStats(t, w.d.Stats(), want)

		w.svc.OnRequest(func(memory.Request) memory.Fate { return memory.Fate{DropRequest: true} })
		_ = w.s.Renew(t.Context())
		w.svc.OnRequest(nil)
		w.svc.Stop()
		_ = w.s.Renew(t.Context())
		w.svc.Start()
		wantStats(t, w.d.Stats(), want)

		want.Sessions = 2
		want.Requests[memory.OpOpen], want.Requests[memory.OpJoin] = 2, 2
		wantStats(t, w.svc.Stats(), want)
		if got := w.svc.Stats().Total(); got != 6 {
			t.Errorf("%d requests in all, want 6", got)
		}
		if list := w.svc.Snapshot(queue); len(list) != 1 || list[0].Place != own.Place || list[0].Token != own.Token {
			t.Errorf("snapshot %+v, want %+v", list, own)
		}
		wantStats(t, w.svc.Stats(), want) // Snapshot sends no request
	})
}

func wantStats(t *testing.T, got, want memory.Stats) {
	t.Helper()
	for op, n := range want.Requests {
		if got.Requests[op] != n {
			t.Errorf("%d requests %s, want %d", got.Requests[op], op, n)
		}
	}
	if len(got.Requests) != len(want.Requests) || got.Wakeups != want.Wakeups || got.Watches != want.Watches ||
		got.Sessions != want.Sessions || got.Entries != want.Entries {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

func TestAnswerWinsOverTheEndOfTheContext(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		for range 50 { // select chooses at random
			ctx, cancel := context.WithCancel(t.Context())
			w.d.HoldReplies()
			done := start(func() error { return joinErr(ctx, w.s) })
			synctest.Wait()
			w.d.Heal()
			cancel()
			must(t, <-done)
		}
	})
}

func TestWatchAcceptsAPlaceTwiceAndRefusesNone(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		own := join(t, w.s)
		wantErr(t, w.s.Watch(t.Context(), queue), driver.ErrInvalid)
		watch := start(func() error { return w.s.Watch(t.Context(), queue, own.Place, own.Place) })
		synctest.Wait()
		must(t, w.s.Leave(t.Context(), queue, own.Place))
		must(t, <-watch)
		if stats := w.svc.Stats(); stats.Wakeups != 1 || stats.Watches != 0 {
			t.Errorf("stats %+v, want one wake-up and no watch", stats)
		}
	})
}

func TestOpenAcceptsOnlyTheScheme(t *testing.T) {
	for _, good := range []string{"memory://", "memory:///"} {
		d, err := memory.Open(parse(t, good))
		must(t, err)
		if d.String() != "memory://" {
			t.Errorf("String: %q", d)
		}
		if d.(*memory.Driver).Service().Stats().Sessions != 0 {
			t.Error("the service of a URL is not new")
		}
	}
	for _, bad := range []string{
		"memory://host", "memory://user@", "memory:///a,b", "memory:///a//b", "memory://?x=1", "memory://#x", "memory:x", "etcd://h",
	} {
		if d, err := memory.Open(parse(t, bad)); !errors.Is(err, driver.ErrInvalid) || d != nil {
			t.Errorf("Open(%q): %v, %v; want ErrInvalid", bad, d, err)
		}
	}
}

func TestNamedServiceIsSharedInTheProcess(t *testing.T) {
	service := func(url string) *memory.Service {
		d, err := memory.Open(parse(t, url))
		must(t, err)
		if d.String() != url {
			t.Errorf("String: %q, want %q", d, url)
		}
		return d.(*memory.Driver).Service()
	}
	first := service("memory:///" + t.Name() + "/a")
	if service("memory:///"+t.Name()+"/a") != first {
		t.Error("two clients of one name have two services")
	}
	private := service("memory://")
	if service("memory:///"+t.Name()+"/b") == first || service("memory://") == private {
		t.Error("clients of two names, or of none, have one service")
	}
}

func parse(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	must(t, err)
	return u
}

func TestExpireEndsAllSessionsOfAClient(t *testing.T) {
	bubble(t, func(t *testing.T, w wired) {
		more, other := open(t, w.d), open(t, w.svc.Driver())
		join(t, w.s)
		if !w.d.Expire() {
			t.Error("Expire = false")
		}
		for _, s := range []session{w.s, more} {
			wantErr(t, s.Renew(t.Context()), driver.ErrSessionLost)
		}
		must(t, other.Renew(t.Context()))
		wantEntries(t, w.svc, 0)
		if w.d.Expire() {
			t.Error("Expire again = true")
		}
	})
}
