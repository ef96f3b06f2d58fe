package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// pipe is a log handler and an observer that blocks while it is full. All its
// methods share a lock, as those of a careless handler do: a channel, since
// virtual time stands still while a goroutine waits for a mutex.
type pipe struct {
	lock  chan struct{}
	full  chan struct{} // closed when it is read again
	lines []string
	seen  []event.Event
}

func newPipe() *pipe { return &pipe{lock: make(chan struct{}, 1), full: make(chan struct{})} }

func (p *pipe) Enabled(_ context.Context, level slog.Level) bool {
	p.lock <- struct{}{}
	defer func() { <-p.lock }()
	return level >= slog.LevelInfo
}

func (p *pipe) WithAttrs([]slog.Attr) slog.Handler { return p }
func (p *pipe) WithGroup(string) slog.Handler      { return p }

func (p *pipe) Handle(ctx context.Context, r slog.Record) error {
	p.lock <- struct{}{}
	defer func() { <-p.lock }()
	<-p.full
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	p.lines = append(p.lines, text)
	return ctx.Err()
}

func (p *pipe) Observe(e event.Event) {
	p.lock <- struct{}{}
	defer func() { <-p.lock }()
	<-p.full
	p.seen = append(p.seen, e)
}

// TestBlockedLogOrObserverDelaysNoCall: each call ends by its own context or at
// once, also those around a loss, which is logged and observed.
func TestBlockedLogOrObserverDelaysNoCall(t *testing.T) {
	for what, with := range map[string]func(*pipe) coordinator.Option{
		"log":      func(p *pipe) coordinator.Option { return coordinator.WithLogger(slog.New(p)) },
		"observer": func(p *pipe) coordinator.Option { return coordinator.WithObserver(p) },
	} {
		synctest.Test(t, func(t *testing.T) {
			w, p := world{T: t, svc: memory.NewService()}, newPipe()
			w.client, w.link = w.another(with(p))
			m := w.mutex()
			calls := make(chan string, 1)
			go func() {
				defer close(calls)
				l := w.lock(m)
				w.svc.Expire(l.Session())
				<-l.Context().Done()
				if err := l.Unlock(t.Context()); !errors.Is(err, coordinator.ErrSessionLost) {
					t.Errorf("%s: Unlock of a lost lock = %v", what, err)
				}
				calls <- "lost"
				l = w.lock(m) // on a new session
				check(w, l.Unlock(t.Context()))
				calls <- "released"
				w.lock(m)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				check(w, w.client.Close(ctx))
				if took := time.Since(began); took != time.Second {
					t.Errorf("%s: Close took %v, its context lasts a second", what, took)
				}
				calls <- "closed"
			}()
			for _, want := range []string{"lost", "released", "closed"} {
				select {
				case <-calls:
				case <-time.After(time.Minute):
					t.Errorf("%s: blocks before it is %s", what, want)
				}
			}
			close(p.full)
			for range calls {
			}
			synctest.Wait()
			if what == "log" && len(p.lines) != 3 || what == "observer" && len(p.seen) != 14 {
				t.Errorf("%s: delivered %q %v", what, p.lines, p.seen)
			}
		})
	}
}

// TestCloseWithoutADeadlineWaitsATTLForABlockedLog.
func TestCloseWithoutADeadlineWaitsATTLForABlockedLog(t *testing.T) {
	for _, opens := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, p := world{T: t, svc: memory.NewService()}, newPipe()
			w.client, w.link = w.another(coordinator.WithLogger(slog.New(p)))
			if opens {
				w.session()
			}
			engine.Of(w.client).Log().Warn("line")
			began := time.Now()
			check(w, w.client.Close(context.Background()))
			if took := time.Since(began); took != engine.DefaultTTL {
				t.Errorf("Close took %v", took)
			}
			close(p.full)
		})
	}
}

// TestFullLogDropsTheNewestLinesAndCountsThem, in their place.
func TestFullLogDropsTheNewestLinesAndCountsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := world{T: t, svc: memory.NewService()}, newPipe()
		w.client, w.link = w.another(coordinator.WithLogger(slog.New(p)))
		log := engine.Of(w.client).Log()
		log.Warn("first")
		synctest.Wait() // it blocks
		for n := range engine.MostItems + 10 {
			log.Warn("line", "n", n)
		}
		close(p.full)
		synctest.Wait()
		log.Warn("last")
		check(w, w.client.Close(t.Context()))
		if n := len(p.lines); n != 1+engine.MostItems+2 || p.lines[0] != "first" || p.lines[n-1] != "last" ||
			!strings.HasSuffix(p.lines[n-2], " dropped=10") {
			t.Fatalf("%d lines, at last %q", n, p.lines[n-2:])
		}
		for n, line := range p.lines[1 : 1+engine.MostItems] {
			if want := fmt.Sprintf("line n=%d", n); line != want {
				t.Fatalf("line %d is %q", n, line)
			}
		}
	})
}

// TestSlowObserverSeesTheEndOfWhatItSawBegin, and no other end: figures that
// add at a beginning and subtract at an end return to zero.
func TestSlowObserverSeesTheEndOfWhatItSawBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := world{T: t, svc: memory.NewService()}, newPipe()
		w.client, w.link = w.another(coordinator.WithObserver(p))
		c, r, sent := engine.Of(w.client), rand.New(rand.NewPCG(1, 2)), 0
		send := func(events ...event.Event) {
			for _, e := range events {
				c.Observe(e)
				sent++
			}
		}
		life := func(token driver.Token) []event.Event {
			e := event.Event{Session: "s", Queue: queue, Token: token}
			kinds := []event.Kind{event.Joined, event.Granted, event.HeldLong, event.Lost}
			switch r.IntN(3) {
			case 0:
				kinds = []event.Kind{event.Joined, event.NotGranted}
			case 1:
				kinds = []event.Kind{event.Joined, event.Granted, event.Reentered, event.Released}
			}
			var all []event.Event
			for _, e.Kind = range kinds {
				all = append(all, e)
			}
			return all
		}
		session := []event.Event{{Kind: event.SessionOpened, Session: "s"}, {Kind: event.SessionSuspended, Session: "s"}}
		send(session[0], event.Event{Kind: event.Cleaning, Session: "s", Queue: queue})
		synctest.Wait() // it blocks
		var alive [][]event.Event
		for token := driver.Token(1); token <= 3*engine.MostItems/2; token++ {
			alive = append(alive, life(token))
			n := r.IntN(len(alive))
			k := r.IntN(len(alive[n]) + 1)
			send(alive[n][:k]...)
			if alive[n] = alive[n][k:]; len(alive[n]) == 0 {
				alive = append(alive[:n], alive[n+1:]...)
			}
			send(event.Event{Kind: event.SessionRenewed, Session: "s"})
		}
		send(session[1], event.Event{Kind: event.Cleaning, Session: "s", Queue: queue}) // not taken
		half := len(alive) / 2
		for _, rest := range alive[:half] {
			send(rest...)
		}
		close(p.full)
		synctest.Wait()
		for _, rest := range alive[half:] {
			send(rest...)
		}
		for range 2 {
			send(event.Event{Kind: event.CleanedUp, Session: "s", Queue: queue})
		}
		send(event.Event{Kind: event.SessionEnded, Session: "s", State: event.StateSuspended})
		check(w, w.client.Close(t.Context()))
		p.judge(t, sent)
	})
}

// judge checks that what the observer has seen is consistent.
func (p *pipe) judge(t *testing.T, sent int) {
	dropped, reports, stage, cleaning := 0, 0, map[driver.Token]event.Kind{}, 0
	for _, e := range p.seen {
		last := stage[e.Token]
		switch e.Kind {
		case event.Dropped:
			dropped += e.Count
			reports++
		case event.Joined:
			stage[e.Token] = e.Kind
		case event.Granted, event.NotGranted:
			if last != event.Joined {
				t.Fatalf("%v after %v", e, last)
			}
			stage[e.Token] = e.Kind
		case event.HeldLong, event.Released, event.Lost:
			if last != event.Granted && last != event.HeldLong {
				t.Fatalf("%v after %v", e, last)
			}
			stage[e.Token] = e.Kind
		case event.Cleaning:
			cleaning++
		case event.CleanedUp:
			cleaning--
		case event.SessionSuspended:
			t.Errorf("a full mailbox took %v", e)
		case event.SessionEnded:
			if e.State != event.StateConnected {
				t.Errorf("the suspension was missed, and the state before the end is %v", e.State)
			}
		}
	}
	for token, last := range stage {
		if last != event.NotGranted && last != event.Released && last != event.Lost {
			t.Errorf("%d ends as %v", token, last)
		}
	}
	if dropped == 0 || len(p.seen)-reports+dropped != sent || cleaning != 0 {
		t.Errorf("sent %d, seen %d, dropped %d; %d clean-ups are left", sent, len(p.seen), dropped, cleaning)
	}
}
