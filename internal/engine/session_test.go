package engine_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
)

const queue = driver.Queue("test/queue")

var quiet = coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// world is a service with a client.
type world struct {
	*testing.T
	svc    *memory.Service
	link   *memory.Driver
	client *coordinator.Client
}

// within runs a test in virtual time, on a service with a client, and closes
// the client.
func within(t *testing.T, f func(w world), opts ...engine.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world{T: t, svc: memory.NewService()}
		w.client, w.link = w.another(opts...)
		f(w)
		if err := w.client.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// another returns another client of the service.
func (w world) another(opts ...engine.Option) (*coordinator.Client, *memory.Driver) {
	w.Helper()
	d := w.svc.Driver()
	c, err := coordinator.New(d, append([]engine.Option{quiet}, opts...)...)
	check(w, err)
	endWithTest(w.T, d, c)
	return c, d
}

// endWithTest closes a client whose test has failed: after t.Fatal no other
// line does, and what the client runs would be left in the bubble.
func endWithTest(t *testing.T, link *memory.Driver, c *coordinator.Client) {
	t.Cleanup(func() {
		if t.Failed() {
			link.Service().OnRequest(nil)
			link.Service().Start()
			link.Heal()
			_ = c.Close(context.Background())
			time.Sleep(10 * time.Minute) // for goroutines of the test that end by then
		}
	})
}

// check ends the test unless err is nil.
func check(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

func (w world) mutex() *mutex.Mutex {
	w.Helper()
	m, err := mutex.New(w.client, "jobs")
	check(w, err)
	return m
}

func (w world) lock(m *mutex.Mutex) *mutex.Lock {
	w.Helper()
	l, err := m.Lock(w.Context())
	check(w, err)
	return l
}

func (w world) session() *engine.Session {
	w.Helper()
	s, err := engine.Of(w.client).Session(w.Context())
	check(w, err)
	return s
}

func TestSessionIsRenewedUntilItEnds(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		time.Sleep(time.Hour)
		if s.Err() != nil || w.session() != s {
			w.Errorf("after an hour: %v", s.Err())
		}
		want := int(time.Hour / (engine.DefaultTTL / driver.RenewalsPerTTL))
		if n := w.svc.Stats().Requests[memory.OpRenew]; n < want-1 || n > want+1 {
			w.Errorf("%d renewals in an hour, want one every tenth of the TTL: %d", n, want)
		}
	})
}

// TestSessionEndsAtTheClientBeforeTheService is promise P2: in any phase of a
// partition and with any delay the client's session ends before the service's.
// In every other phase only requests are cut off, so that the last renewal that
// arrived is answered later.
func TestSessionEndsAtTheClientBeforeTheService(t *testing.T) {
	lost := memory.Fate{DelayRequest: time.Hour}
	for phase := range 80 {
		for _, delay := range []time.Duration{0, 300 * time.Millisecond, 2 * time.Second} {
			within(t, func(w world) {
				s := w.session()
				w.link.Delay(delay/4, delay-delay/4)
				time.Sleep(10*time.Second + time.Duration(phase)*34*time.Millisecond)
				if phase%2 == 0 {
					w.link.Cut()
				} else {
					w.svc.OnRequest(func(memory.Request) memory.Fate { return lost })
				}
				<-s.Context().Done()
				ended := time.Now()
				if !errors.Is(s.Err(), engine.ErrSessionLost) {
					w.Errorf("cause %v", s.Err())
				}
				if len(w.svc.Sessions()) != 1 {
					w.Errorf("phase %d, delay %v: the service ended the session before the client", phase, delay)
				}
				for len(w.svc.Sessions()) > 0 {
					time.Sleep(time.Millisecond)
				}
				if early := time.Since(ended); early > s.TTL()/2 {
					w.Errorf("phase %d, delay %v: %v early, which is more than the margin explains", phase, delay, early)
				}
				w.svc.OnRequest(nil)
				w.link.Reset()
				w.link.Heal()
			})
		}
	}
}

// TestAcknowledgementAfterTheDeadlineRevivesNothing: here no timer has run and
// no call has read the clock between the deadline and the answer.
func TestAcknowledgementAfterTheDeadlineRevivesNothing(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		s.StopAlarm()
		deadline := s.Deadline()
		w.link.HoldReplies()
		time.Sleep(time.Until(deadline))
		w.link.Heal()
		synctest.Wait()
		if !errors.Is(context.Cause(s.Context()), engine.ErrSessionLost) || !s.Deadline().Equal(deadline) {
			w.Errorf("the context's cause is %v, and the deadline was moved by %v", context.Cause(s.Context()), s.Deadline().Sub(deadline))
		}
	}, frozen)
}

func TestStateIsConnectedSuspendedOrLost(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		var seen []event.State
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				state, changed := s.State()
				seen = append(seen, state)
				if state == event.StateLost {
					return
				}
				<-changed
			}
		}()
		time.Sleep(time.Minute)
		w.svc.Stop()
		time.Sleep(4 * time.Second)
		w.svc.Start()
		time.Sleep(time.Minute)
		w.svc.Expire(s.ID())
		<-done
		want := []event.State{event.StateConnected, event.StateSuspended, event.StateConnected, event.StateLost}
		if !slices.Equal(seen, want) {
			w.Errorf("saw %v, want %v", seen, want)
		}
	})
}

// TestConcurrentCallersShareOneSession: a caller that opens, and gives up, does
// not stop the others.
func TestConcurrentCallersShareOneSession(t *testing.T) {
	within(t, func(w world) {
		w.link.Delay(500*time.Millisecond, 500*time.Millisecond)
		ctx, cancel := context.WithTimeout(w.Context(), 500*time.Millisecond)
		defer cancel()
		go func() { _, _ = engine.Of(w.client).Session(ctx) }()
		time.Sleep(time.Millisecond)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { w.session() })
		}
		wg.Wait()
		if n := w.svc.Stats().Requests[memory.OpOpen]; n != 2 {
			w.Errorf("%d sessions opened for 50 callers and one that gave up", n)
		}
	})
}

// TestLostReplyToJoinMakesOneEntry: the reply is lost, the join is repeated,
// and finds its own entry.
func TestLostReplyToJoinMakesOneEntry(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		drops := 2
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpJoin && drops > 0 {
				drops--
				return memory.Fate{DropReply: true}
			}
			return memory.Fate{}
		})
		j := w.join(s)
		if got := w.svc.Snapshot(queue); len(got) != 1 || got[0].Token != j.Token {
			w.Errorf("queue is %v, joined as %v", got, j)
		}
	})
}

// TestJoinThatArrivesAgainAfterTheLeaveLeavesNoGhost: the first request is
// stuck in a broken connection, the second joins, the contender leaves, and
// then the first arrives.
func TestJoinThatArrivesAgainAfterTheLeaveLeavesNoGhost(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		w.link.HoldRequests()
		time.AfterFunc(time.Second, w.link.Strand)
		j := w.join(s)
		check(w, s.Leave(w.Context(), queue, j.Place))
		w.link.Deliver()
		time.Sleep(time.Second)
		if left := w.svc.Snapshot(queue); len(left) != 0 {
			w.Errorf("the first request left a ghost: %v", left)
		}
	})
}

// TestRequestToASilentMemberIsRepeated: the first request goes to a member that
// was stopped; the next one is answered. When the member resumes, the first
// must not leave a ghost.
func TestRequestToASilentMemberIsRepeated(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		var stuck sync.Map // the operations that were stuck once
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			if _, before := stuck.LoadOrStore(r.Op, true); !before && r.Op != memory.OpRenew && r.Op != memory.OpForget && r.Op != memory.OpClose {
				return memory.Fate{DelayRequest: time.Minute}
			}
			return memory.Fate{}
		})
		began := time.Now()
		j := w.join(s)
		_, err := s.Ahead(w.Context(), queue, j.Place)
		check(w, err)
		_, err = s.List(w.Context(), queue, 0)
		check(w, err)
		check(w, s.Leave(w.Context(), queue, j.Place))
		if took := time.Since(began); took > 2*s.TTL() || s.Err() != nil {
			w.Errorf("took %v; session %v", took, s.Err())
		}
		time.Sleep(2 * time.Minute)
		if left := w.svc.Snapshot(queue); len(left) != 0 {
			w.Errorf("a request that arrived late left %v", left)
		}
	})
}

// TestCancelledJoinLeavesNoGhost cancels a join in every state: not sent, under
// way, applied, answered; and heals the link. Within a second nothing may be
// left, however late the request arrives.
func TestCancelledJoinLeavesNoGhost(t *testing.T) {
	for _, fate := range []memory.Fate{
		{},
		{DelayRequest: 2 * time.Second},
		{DelayReply: 2 * time.Second},
		{DropRequest: true},
		{DropReply: true},
		{DelayRequest: 900 * time.Millisecond, DropReply: true},
	} {
		within(t, func(w world) {
			s := w.session()
			w.svc.OnRequest(func(r memory.Request) memory.Fate {
				if r.Op == memory.OpJoin {
					return fate
				}
				return memory.Fate{}
			})
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			defer cancel()
			j, err := s.Join(ctx, queue, contender)
			if err == nil {
				if err := s.Leave(ctx, queue, j.Place); err != nil {
					w.Errorf("%+v: leave: %v", fate, err)
				}
			}
			time.Sleep(time.Second)
			if left := w.svc.Snapshot(queue); len(left) != 0 {
				w.Errorf("%+v: a ghost one second later: %v", fate, left)
			}
			time.Sleep(5 * time.Second)
			if left := w.svc.Snapshot(queue); len(left) != 0 {
				w.Errorf("%+v: a ghost came back: %v", fate, left)
			}
		})
	}
}

func TestCloseWhileASessionIsBeingOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{T: t, svc: memory.NewService()}
		w.client, w.link = w.another()
		w.link.Delay(time.Second, time.Second)
		got := make(chan error)
		go func() {
			_, err := engine.Of(w.client).Session(context.Background())
			got <- err
		}()
		time.Sleep(1500 * time.Millisecond)
		check(w, w.client.Close(w.Context()))
		if err := <-got; !errors.Is(err, engine.ErrClosed) {
			w.Errorf("Session = %v", err)
		}
	})
}

// TestStartStopStress closes clients at random times: nothing may hang, race,
// or stay.
func TestStartStopStress(t *testing.T) {
	for i := range 200 {
		synctest.Test(t, func(t *testing.T) {
			w := world{T: t, svc: memory.NewService()}
			w.client, w.link = w.another(coordinator.WithTTL(time.Second))
			w.link.Delay(50*time.Millisecond, 50*time.Millisecond)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for {
						s, err := engine.Of(w.client).Session(context.Background())
						if errors.Is(err, engine.ErrClosed) {
							return
						}
						if err == nil {
							<-s.Context().Done()
						}
					}
				})
			}
			wg.Go(func() {
				for _, id := range w.svc.Sessions() {
					w.svc.Expire(id)
				}
			})
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			for _, id := range w.svc.Sessions() {
				w.svc.Expire(id)
			}
			time.Sleep(time.Duration(i%5) * 20 * time.Millisecond)
			_ = w.client.Close(w.Context())
			wg.Wait()
		})
	}
}

// TestOpenGivenUpSaysWhyTheAttemptBeforeFailed: the caller's time is over in
// the middle of an attempt, which itself has nothing to say.
func TestOpenGivenUpSaysWhyTheAttemptBeforeFailed(t *testing.T) {
	within(t, func(w world) {
		refused, attempts := errors.New("connection refused"), 0
		w.svc.OnRequest(func(r memory.Request) (f memory.Fate) {
			if r.Op != memory.OpOpen {
				return f
			}
			if attempts++; attempts == 1 {
				f.Err = driver.Wrap(driver.ErrUnavailable, refused)
			} else {
				f.DelayReply = time.Hour
			}
			return f
		})
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		_, err := w.client.Session(ctx)
		for _, want := range []error{coordinator.ErrUnavailable, refused, context.DeadlineExceeded} {
			if !errors.Is(err, want) {
				w.Errorf("after %d attempts Session = %v, want %v", attempts, err, want)
			}
		}
	})
}
