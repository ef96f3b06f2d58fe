package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

// fakeWard records the calls, with the time since its start.
type fakeWard struct {
	began    time.Time
	deaf     bool // only Kill ends it
	immune   bool // Kill fails
	code     int
	log      []string
	extended []time.Time
	failing  error // of Extend
	done     chan struct{}
	spared   bool

	mu   sync.Mutex
	rest chan struct{} // of processes that the command left; nil: there are none
}

func newFakeWard(deaf bool) *fakeWard {
	return &fakeWard{began: time.Now(), deaf: deaf, done: make(chan struct{})}
}

// leave lets the command end while processes that it started run.
func (w *fakeWard) leave() {
	w.mu.Lock()
	w.rest = make(chan struct{})
	w.mu.Unlock()
	w.end()
}

func (w *fakeWard) note(what string) {
	w.log = append(w.log, fmt.Sprintf("%s after %v", what, time.Since(w.began)))
}

func (w *fakeWard) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range []chan struct{}{w.done, w.rest} {
		select {
		case <-c:
		default:
			if c != nil {
				close(c)
				return
			}
		}
	}
}

func (w *fakeWard) Gone() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rest != nil {
		return w.rest
	}
	return w.done
}

func (w *fakeWard) Left() []string {
	select {
	case <-w.Gone():
		return nil
	default:
		return []string{"worker (7)"}
	}
}

func (w *fakeWard) Spare()           { w.spared = true }
func (w *fakeWard) Spared() []string { return nil }

func (w *fakeWard) Done() <-chan struct{} { return w.done }
func (w *fakeWard) Code() int             { return w.code }
func (w *fakeWard) Signal(s os.Signal)    { w.note(s.String()) }
func (w *fakeWard) Kill() error {
	w.note("kill")
	if w.immune {
		return syscall.EPERM
	}
	w.end()
	return nil
}
func (w *fakeWard) Terminate() {
	if w.note("terminate"); !w.deaf {
		w.end()
	}
}

func (w *fakeWard) Extend(deadline time.Time) error {
	w.extended = append(w.extended, deadline)
	return w.failing
}

// scene is a held mutex and a command that runs under it.
type scene struct {
	service *memory.Service
	client  *coordinator.Client
	lock    *mutex.Lock
	ward    *fakeWard
	keeper  *keeper
	said    []string
}

func newScene(t *testing.T, ward *fakeWard, grace time.Duration) *scene {
	t.Helper()
	s := &scene{service: memory.NewService(), ward: ward}
	renewed := make(chan struct{}, 1)
	r := &run{renewed: renewed}
	c, err := coordinator.New(s.service.Driver(), coordinator.WithTTL(10*time.Second),
		coordinator.WithObserver(event.ObserverFunc(r.observe)), coordinator.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	m, err := mutex.New(c, "name")
	if err != nil {
		t.Fatal(err)
	}
	if s.lock, err = m.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.client = c
	s.keeper = &keeper{hold: s.lock, ward: ward, grace: grace, renewed: renewed, say: func(format string, args ...any) {
		s.said = append(s.said, fmt.Sprintf(format, args...))
	}}
	return s
}

func (s *scene) wants(t *testing.T, ended bool, log ...string) {
	t.Helper()
	if got := s.keeper.keep(); got != ended {
		t.Errorf("keep returns %v, want %v", got, ended)
	}
	if !slices.Equal(s.ward.log, log) {
		t.Errorf("the command got %q, want %q; messages: %q", s.ward.log, log, s.said)
	}
}

// The TTL is 10 s and the margin 1 s: a hold lives for 9 s after the last
// renewal.
func TestCommandGetsSIGTERMBeforeTheDeadlineAndSIGKILLAtIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 2*time.Second)
		s.service.Stop()
		s.wants(t, true, "terminate after 7s", "kill after 9s")
		if !strings.Contains(strings.Join(s.said, "\n"), "lost in 2s") {
			t.Errorf("messages: %q", s.said)
		}
	})
}

func TestCommandThatEndsOnSIGTERMIsNotKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(false), 2*time.Second)
		s.service.Stop()
		s.wants(t, true, "terminate after 7s")
	})
}

func TestRenewalsMoveTheDeadlineOfTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 2*time.Second)
		time.AfterFunc(time.Minute, s.ward.end)
		s.wants(t, false)
		if len(s.ward.extended) < 20 || !slices.IsSortedFunc(s.ward.extended, time.Time.Compare) {
			t.Errorf("the deadlines are %v", s.ward.extended)
		}
	})
}

func TestLateRenewalDoesNotCancelTheSIGKILL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 2*time.Second)
		s.service.Stop()
		time.AfterFunc(7500*time.Millisecond, s.service.Start)
		s.wants(t, true, "terminate after 7s", "kill after 9s")
		if err := s.lock.Err(); err != nil {
			t.Errorf("the renewed hold is over: %v", err)
		}
		if len(s.ward.extended) > 0 {
			t.Errorf("the guard got the deadlines %v", s.ward.extended)
		}
	})
}

func TestRemovalOfTheHoldEndsTheCommandAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 2*time.Second)
		time.AfterFunc(4*time.Second, func() {
			s.service.Remove(s.service.Queues()[0], s.service.Snapshot(s.service.Queues()[0])[0].ID)
		})
		s.wants(t, true, "terminate after 4s", "kill after 6s")
		if !strings.Contains(strings.Join(s.said, "\n"), "others may hold the name already") {
			t.Errorf("messages: %q", s.said)
		}
	})
}

// The session expires at the service when less than the grace is left until the
// deadline.
func TestGraceEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 4*time.Second)
		s.service.Stop()
		time.AfterFunc(4500*time.Millisecond, func() { s.service.Start(); s.service.Expire(s.lock.Session()) })
		if ended := s.keeper.keep(); !ended {
			t.Error("the command ended by itself")
		}
		if last := s.ward.log[len(s.ward.log)-1]; last > "kill after 9s" {
			t.Errorf("the command got %q", s.ward.log)
		}
	})
}

func TestWithoutGraceTheCommandIsKilledAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 0)
		s.service.Stop()
		s.wants(t, true, "kill after 9s")
	})
}

func TestKeepRunningSendsNoSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 0)
		s.keeper.runOn = true
		s.service.Stop()
		time.AfterFunc(time.Minute, s.ward.end)
		s.wants(t, false)
		if !strings.Contains(strings.Join(s.said, "\n"), "runs on") {
			t.Errorf("messages: %q", s.said)
		}
	})
}

// The guard killed the command while this process was stopped.
func TestKillByTheGuardCountsAsLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 2*time.Second)
		s.service.Stop()
		s.ward.code = 128 + 9
		time.Sleep(10 * time.Second)
		s.ward.end()
		if !s.keeper.keep() {
			t.Errorf("keep reports that the command ended by itself; messages: %q", s.said)
		}
	})
}

// A command with another user's rights, as under sudo, cannot be signalled.
func TestCommandThatCannotBeKilledIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ward := newFakeWard(true)
		ward.immune = true
		s := newScene(t, ward, 2*time.Second)
		s.service.Stop()
		time.AfterFunc(time.Minute, s.ward.end)
		s.wants(t, true, "terminate after 7s", "kill after 9s")
		if !strings.Contains(strings.Join(s.said, "\n"), "runs on without the hold: operation not permitted") {
			t.Errorf("messages: %q", s.said)
		}
	})
}

func TestRestGetsItsGraceThenSIGTERMThenSIGKILL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 2*time.Second)
		time.AfterFunc(5*time.Second, s.ward.leave)
		s.wants(t, false, "terminate after 7s", "kill after 9s")
		if !s.ward.spared || len(s.said) != 1 || !strings.Contains(s.said[0], "worker (7)") {
			t.Errorf("messages: %q; daemons spared: %v", s.said, s.ward.spared)
		}
	})
}

func TestRestThatEndsByItselfIsWaitedForInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 2*time.Second)
		time.AfterFunc(5*time.Second, s.ward.leave)
		time.AfterFunc(6*time.Second, s.ward.end)
		s.wants(t, false)
		if len(s.said) > 0 {
			t.Errorf("messages: %q", s.said)
		}
	})
}

func TestRestThatCannotBeKilledIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ward := newFakeWard(true)
		ward.immune = true
		s := newScene(t, ward, 2*time.Second)
		time.AfterFunc(5*time.Second, s.ward.leave)
		s.wants(t, false, "terminate after 7s", "kill after 9s")
		if !strings.Contains(strings.Join(s.said, "\n"), "cannot be killed and runs on without the hold: worker (7)") {
			t.Errorf("messages: %q", s.said)
		}
		// Until then the guard repeats the SIGKILL: a later deadline would end
		// that. A renewal at 9s moves it by the TTL less the margin.
		if last := ward.extended[len(ward.extended)-1].Sub(ward.began); last > 9*time.Second+9*time.Second {
			t.Errorf("the deadline was moved to %v after the SIGKILL", last)
		}
	})
}

func TestSignalReachesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 2*time.Second)
		signals := make(chan os.Signal, 1)
		s.keeper.signals = signals
		time.AfterFunc(5*time.Second, s.ward.leave)
		time.AfterFunc(6*time.Second, func() { signals <- syscall.SIGHUP; synctest.Wait(); s.ward.end() })
		s.wants(t, false, "hangup after 6s")
	})
}

func TestRestGetsSIGKILLAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 4*time.Second)
		s.service.Stop()
		time.AfterFunc(2*time.Second, s.ward.leave)
		s.wants(t, false, "terminate after 5s", "kill after 9s")
	})
	// The hold is removed while the rest has its grace.
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 4*time.Second)
		time.AfterFunc(2*time.Second, s.ward.leave)
		time.AfterFunc(3*time.Second, func() {
			s.service.Remove(s.service.Queues()[0], s.service.Snapshot(s.service.Queues()[0])[0].ID)
		})
		s.wants(t, false, "terminate after 3s", "kill after 7s")
	})
}

func TestLossIsReportedOnceAfterAStop(t *testing.T) {
	for range 20 { // the keeper sees several reasons at once, and takes any
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, newFakeWard(true), 2*time.Second)
			s.service.Stop()
			s.keeper.say = func(format string, args ...any) {
				if len(s.said) == 0 {
					time.Sleep(time.Millisecond) // so that the other reasons are there
				}
				s.said = append(s.said, fmt.Sprintf(format, args...))
			}
			time.Sleep(20 * time.Second) // the process is stopped
			s.keeper.keep()
			if len(s.said) != 1 {
				t.Errorf("messages: %q", s.said)
			}
		})
	}
}

func TestDeadGuardIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, newFakeWard(true), 2*time.Second)
		s.ward.failing = errors.New("guard process: it has exited")
		time.AfterFunc(time.Minute, s.ward.end)
		s.wants(t, false)
		if len(s.said) != 1 || !strings.Contains(s.said[0], "it has exited") {
			t.Errorf("messages: %q", s.said)
		}
	})
}
