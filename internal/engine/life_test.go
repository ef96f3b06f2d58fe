package engine_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

// TestOutagesUpToTheDocumentedLengthAreSurvived takes every TTL, service and
// outage of the table in docs/ttl.md, in 25 phases of the renewals, refused and
// silent. The slack is that of the drivers: see TestSlackFollowsTheTick of
// package zookeeper.
func TestOutagesUpToTheDocumentedLengthAreSurvived(t *testing.T) {
	page, err := os.ReadFile("../../docs/ttl.md")
	check(t, err)
	rows := regexp.MustCompile(`(?m)^\| \**(\d+) s\**[^|]*\| ([\d.]+) s \| ([\d.]+) s \| ([\d.]+) s \| ([\d.]+) s \|$`).FindAllStringSubmatch(string(page), -1)
	if len(rows) != 4 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		var figures []time.Duration
		for _, text := range row[1:] {
			d, err := time.ParseDuration(text + "s")
			check(t, err)
			figures = append(figures, d)
		}
		ttl := figures[0]
		for i, slack := range []time.Duration{
			0, ttl * 3 / 10, ttl/10 + time.Second, ttl/10 + time.Second/2,
		} {
			for phase := range time.Duration(25) {
				for _, silent := range []bool{false, true} {
					survive(t, ttl, slack, ttl/250*phase, figures[i+1], silent)
				}
			}
		}
	}
}

// survive checks that a session lives after an outage that begins in a phase of
// its renewals.
func survive(t *testing.T, ttl, slack, phase, outage time.Duration, silent bool) {
	synctest.Test(t, func(t *testing.T) {
		w := world{T: t, svc: memory.NewService(memory.WithSlack(slack))}
		w.client, w.link = w.another(coordinator.WithTTL(ttl))
		s := w.session()
		time.Sleep(2*ttl + phase)
		var gone atomic.Bool
		w.svc.OnRequest(func(memory.Request) memory.Fate {
			switch {
			case !gone.Load():
				return memory.Fate{}
			case silent:
				return memory.Fate{DelayRequest: time.Hour}
			}
			return memory.Fate{DropRequest: true}
		})
		gone.Store(true)
		time.Sleep(outage)
		gone.Store(false)
		time.Sleep(2 * ttl)
		if s.Err() != nil {
			t.Errorf("TTL %v, slack %v, silent %v: an outage of %v in phase %v cost the session: %v", ttl, slack, silent, outage, phase, s.Err())
		}
		_ = w.client.Close(t.Context())
	})
}

func TestDeadlineCountsFromTheSendingOfTheOpening(t *testing.T) {
	within(t, func(w world) {
		w.link.Delay(0, time.Second)
		asked := time.Now()
		s := w.session()
		if d, latest := s.Deadline().Sub(asked), s.TTL()-s.TTL()/10; d > latest {
			w.Errorf("the first deadline is %v after the opening was sent, want at most %v", d, latest)
		}
	})
}

func TestSlackIsTakenOffTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{T: t, svc: memory.NewService(memory.WithSlack(2 * time.Second))}
		w.client, w.link = w.another()
		asked := time.Now()
		s := w.session()
		if d := s.Deadline().Sub(asked); d != s.TTL()-s.TTL()/10-2*time.Second {
			t.Errorf("deadline %v after the opening", d)
		}
		if want := s.TTL()/10 + 2*time.Second; s.Margin() != want {
			t.Errorf("margin %v, want %v", s.Margin(), want)
		}
		_ = w.client.Close(t.Context())
	})
}

func TestSessionThatTakesTooLongToOpenIsNotUsed(t *testing.T) {
	within(t, func(w world) {
		opens := 0
		w.svc.OnRequest(func(r memory.Request) (f memory.Fate) {
			if r.Op == memory.OpOpen {
				opens++
				f.DropRequest = opens < 4 // the first attempts are short
				if opens == 4 {
					f.DelayReply = 9500 * time.Millisecond // within the TTL, beyond the deadline
				}
			}
			return f
		})
		s := w.session()
		if s.Err() != nil {
			w.Errorf("Session returned an ended session: %v", s.Err())
		}
		time.Sleep(time.Second)
		if n := len(w.svc.Sessions()); n != 1 {
			w.Errorf("%d sessions at the service: the late session was not ended", n)
		}
	})
}

// TestAttemptsToOpenBecomeLonger: one that meets a silent member is short, and
// a slow service has more time for the next one, up to the TTL.
func TestAttemptsToOpenBecomeLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 30 * time.Second
		svc := memory.NewService()
		var lasted []time.Duration
		c, err := coordinator.New(timedOpens{svc.Driver(), &lasted}, quiet, coordinator.WithTTL(ttl))
		check(t, err)
		healed := time.Now().Add(3 * ttl)
		svc.OnRequest(func(r memory.Request) (f memory.Fate) {
			if r.Op == memory.OpOpen && time.Now().Before(healed) {
				f.DelayReply = time.Hour
			}
			return f
		})
		if _, err := c.Session(t.Context()); err != nil {
			t.Error(err)
		}
		check(t, c.Close(t.Context()))
		want := []time.Duration{1250, 2500, 5000, 10000, 20000, 30000, 30000}
		for i, d := range lasted[:min(len(want), len(lasted)-1)] {
			if want := want[i] * time.Millisecond; d != want {
				t.Errorf("attempt %d lasted %v, want %v", i+1, d, want)
			}
		}
		if len(lasted) < len(want) {
			t.Errorf("%d attempts", len(lasted))
		}
	})
}

// timedOpens notes how long each Open lasts.
type timedOpens struct {
	driver.Driver
	lasted *[]time.Duration
}

func (d timedOpens) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	began := time.Now()
	s, err := d.Driver.Open(ctx, ttl)
	*d.lasted = append(*d.lasted, time.Since(began))
	return s, err
}

// TestSessionLostWhileItsGoroutinesStart: the opening took so long that a
// renewal is due at once, and it is told that the session is lost. With -race.
func TestSessionLostWhileItsGoroutinesStart(t *testing.T) {
	for range 300 {
		within(t, func(w world) {
			opens := 0
			w.svc.OnRequest(func(r memory.Request) (f memory.Fate) {
				switch r.Op {
				case memory.OpOpen:
					if opens++; opens == 1 {
						f.DelayReply = time.Second
					}
				case memory.OpRenew:
					f.Err = driver.ErrSessionLost
				}
				return f
			})
			<-w.session().Context().Done()
		})
	}
}

// TestNoSignOfTheEndComesBeforeErr: Err reports the end of a session before any
// other sign of it.
func TestNoSignOfTheEndComesBeforeErr(t *testing.T) {
	for range 50 {
		within(t, func(w world) {
			s := w.session()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for state, changed := s.State(); state != event.StateLost; state, changed = s.State() {
						select {
						case <-changed:
						case <-s.Context().Done():
						}
					}
					if s.Err() == nil {
						w.Error("lost, but Err says nothing")
					}
				})
				wg.Go(func() {
					time.Sleep(time.Until(s.Deadline()))
					if s.Err() == nil {
						w.Error("past its deadline, but Err says nothing")
					}
				})
			}
			w.link.Cut()
			wg.Wait()
			w.link.Reset()
			w.link.Heal()
		})
	}
}

// TestEndIsNoticedWhileARenewalWaits: the answer to a renewal does not arrive,
// the notification of the end does.
func TestEndIsNoticedWhileARenewalWaits(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		w.svc.OnRequest(memory.Once(memory.OpRenew, memory.Fate{DelayRequest: time.Hour}))
		time.Sleep(s.TTL()/4 + time.Millisecond) // a renewal is under way
		w.svc.Expire(s.ID())
		synctest.Wait()
		if !errors.Is(s.Err(), engine.ErrSessionLost) {
			w.Errorf("right after the expiry: %v", s.Err())
		}
	})
}

func TestLostSessionIsEndedAtTheServiceToo(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		w.link.HoldReplies() // renewals still reach the service
		<-s.Context().Done()
		w.link.Heal()
		time.Sleep(s.TTL()/10 - time.Millisecond)
		if ids := w.svc.Sessions(); len(ids) != 1 {
			w.Errorf("ended within the margin: %v", ids)
		}
		time.Sleep(time.Second)
		if ids := w.svc.Sessions(); len(ids) != 0 {
			w.Errorf("still there: %v", ids)
		}
	})
}

func TestCloseEndsASessionThatWasLostJustBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{T: t, svc: memory.NewService()}
		hold := make(chan struct{})
		release := sync.OnceFunc(func() { close(hold) })
		defer release()
		w.client, w.link = w.another(coordinator.WithObserver(event.DirectFunc(func(e event.Event) {
			if e.Kind == event.SessionEnded && !errors.Is(e.Err, engine.ErrClosed) {
				<-hold // blocks while the next session opens and the client closes
			}
		})))
		s := w.session()
		w.link.HoldReplies()
		<-s.Context().Done()
		w.link.Heal()
		w.session()
		go func() {
			time.Sleep(time.Second)
			release()
		}()
		check(t, w.client.Close(t.Context()))
		if ids := w.svc.Sessions(); len(ids) != 0 {
			t.Errorf("after Close: %v", ids)
		}
	})
}

func TestCloseWithADeadContextReleases(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		w.join(s)
		dead, cancel := context.WithCancel(w.Context())
		cancel()
		if err := w.client.Close(dead); err != nil {
			w.Errorf("Close = %v", err)
		}
		if st := w.svc.Stats(); st.Entries != 0 || st.Sessions != 0 {
			w.Errorf("left: %+v", st)
		}
	})
}

// TestCloseIsSentAgainWhileItIsNotAnswered: the first requests go to a member
// that hangs, or get lost. A session that was lost before is closed likewise.
func TestCloseIsSentAgainWhileItIsNotAnswered(t *testing.T) {
	for _, fate := range []memory.Fate{
		{DelayRequest: time.Hour}, {DelayReply: time.Hour}, {DropRequest: true}, {DropReply: true},
	} {
		for _, lost := range []bool{false, true} {
			within(t, func(w world) {
				s := w.session()
				w.join(s)
				sent := 0
				w.svc.OnRequest(func(r memory.Request) memory.Fate {
					if r.Op != memory.OpClose {
						return memory.Fate{}
					}
					if sent++; sent > 2 {
						return memory.Fate{}
					}
					return fate
				})
				began := time.Now()
				if lost {
					s.Lose()
					time.Sleep(8 * time.Second)
				} else if err := w.client.Close(w.Context()); err != nil {
					w.Errorf("%+v: Close = %v", fate, err)
				}
				st := w.svc.Stats()
				if took := time.Since(began); took > s.TTL()*8/10 || st.Entries != 0 || st.Sessions != 0 {
					w.Errorf("%+v, lost %v: after %v left: %+v", fate, lost, took, st)
				}
			})
		}
	}
}

func TestEveryCloseWaitsForTheFirst(t *testing.T) {
	within(t, func(w world) {
		w.session()
		w.link.Delay(time.Second, time.Second)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := w.client.Close(w.Context()); err != nil {
					w.Error(err)
				}
				if n := len(w.svc.Sessions()); n != 0 {
					w.Errorf("a Close returned with %d sessions at the service", n)
				}
			})
		}
		wg.Wait()
	})
}

func TestRefusedLeaveIsTriedUntilItIsAllowed(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		j := w.join(s)
		allowed := time.Now().Add(10 * time.Second)
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpLeave && time.Now().Before(allowed) {
				return memory.Fate{Err: driver.Wrap(driver.ErrRefused, errors.New("no permission"))}
			}
			return memory.Fate{}
		})
		if err := s.Leave(w.Context(), queue, j.Place); !errors.Is(err, engine.ErrRefused) {
			w.Errorf("Leave = %v", err)
		}
		time.Sleep(20 * time.Second)
		if left := w.svc.Snapshot(queue); len(left) != 0 {
			w.Errorf("left in the queue: %v", left)
		}
	})
}

// TestCloseThatTimedOutReturnsTheSameErrorEachTime, also if it returns at the
// moment when its context ends. The error says that the service did not answer.
func TestCloseThatTimedOutReturnsTheSameErrorEachTime(t *testing.T) {
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			w := world{T: t, svc: memory.NewService()}
			w.client, w.link = w.another()
			w.session()
			w.link.Cut()
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			defer cancel()
			began := time.Now()
			err := w.client.Close(ctx)
			if took := time.Since(began); took > time.Second || !engine.MayHaveApplied(err) {
				w.Errorf("%v after %v", err, took)
			}
			if again := w.client.Close(w.Context()); again != err { //nolint:errorlint // identity is meant
				w.Errorf("first %v, then %v", err, again)
			}
			if !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("close: %v", err)
			}
		})
	}
}

// TestNobodyClosesASessionWhoseHoldsDoNotKnowIt: a caller that needs another
// session closes the one that ends, while the goroutine that ends it is still
// notifying the holds.
func TestNobodyClosesASessionWhoseHoldsDoNotKnowIt(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		slow, blocked := make(chan struct{}), make(chan struct{})
		proceed := sync.OnceFunc(func() { close(blocked) })
		defer proceed()
		var stands, told, early atomic.Bool
		s.Hold(func() {}, func() {
			if stands.CompareAndSwap(false, true) { // as if it were not scheduled
				close(slow)
				<-blocked
			}
		}, func() {})
		s.Hold(func() {}, func() { told.Store(true) }, func() {})
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpClose && !told.Load() {
				early.Store(true)
			}
			return memory.Fate{}
		})
		go s.Lose()
		<-slow
		w.session()
		time.Sleep(s.TTL()) // the margin passes first
		proceed()
		synctest.Wait()
		if early.Load() || w.svc.Stats().Requests[memory.OpClose] != 1 {
			t.Error("the session was closed before a hold was notified, or not closed")
		}
	})
}
