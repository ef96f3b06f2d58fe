package concurrency

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
)

// onMemory runs a test in virtual time, with sessions that differ from those of
// NewSession only in their service.
func onMemory(t *testing.T, f func(t *testing.T, svc *memory.Service, open func() *Session)) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		f(t, svc, func() *Session {
			s := &Session{}
			c, err := coordinator.New(keeper{sharer{svc.Driver()}, s})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close(context.Background()) })
			s.baton = c
			if s.session, err = c.Session(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.opened.Store(true)
			s.ctx, s.cancel = context.WithCancel(context.Background())
			context.AfterFunc(s.session.Context(), s.cancel)
			return s
		})
	})
}

// sharer is a service in memory whose queues other clients could share.
type sharer struct{ *memory.Driver }

func (sharer) SharedName(_, name string) (string, error) { return name, nil }

func (sharer) SharedValue(_, _ string, payload []byte) ([]byte, error) { return payload, nil }

const queue = "mutex/n"

// TestUnlockAfterALossReleasesNoOtherLock: the key of the holder is deleted,
// and another goroutine waits with the same Mutex.
func TestUnlockAfterALossReleasesNoOtherLock(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, open func() *Session) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m, third := NewMutex(open(), "n"), NewMutex(open(), "n")
		check := func(what string, err, want error) {
			t.Helper()
			if err != want { //nolint:errorlint // programs compare with ==
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		check("lock", m.Lock(ctx), nil)
		second := make(chan error, 1)
		go func() { second <- m.Lock(ctx) }()
		time.Sleep(time.Second)
		svc.Remove(queue, svc.Snapshot(queue)[0].Key)
		time.Sleep(time.Second)
		check("stale unlock", m.Unlock(ctx), ErrSessionExpired)
		check("second lock", <-second, nil)
		check("a third party", third.TryLock(ctx), ErrLocked)
		check("unlock", m.Unlock(ctx), nil)
		check("another unlock", m.Unlock(ctx), ErrLockReleased)
		check("a third party", third.Lock(ctx), nil)
	})
}

// TestErrorsAreBare: programs compare the errors of etcd's package with ==.
func TestErrorsAreBare(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, open func() *Session) {
		s := open()
		m, same := NewMutex(s, "n"), NewMutex(s, "n")
		if key := m.Key(); key != "" {
			t.Errorf("key %q before the first Lock", key)
		}
		if err := m.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("slow"))
		defer cancel()
		waits, waitsToo := make(chan error, 1), make(chan error, 1)
		go func() { waits <- same.Lock(t.Context()) }() // in the queue
		go func() { waitsToo <- m.Lock(t.Context()) }() // for its turn
		for what, got := range map[string][2]error{
			"at the end of a context": {NewMutex(open(), "n").Lock(short), context.DeadlineExceeded},
			"for a turn":              {m.Lock(short), context.DeadlineExceeded},
			"try":                     {same.TryLock(t.Context()), ErrLocked},
			"try the same":            {m.TryLock(t.Context()), ErrLocked},
		} {
			if got[0] != got[1] { //nolint:errorlint // see above
				t.Errorf("%s: %v, want %v", what, got[0], got[1])
			}
		}
		svc.Expire(s.session.ID())
		synctest.Wait()
		for what, got := range map[string]error{
			"waiting": <-waits, "waiting for a turn": <-waitsToo, "unlock": m.Unlock(t.Context()),
			"lock": m.Lock(t.Context()), "try": m.TryLock(t.Context()),
			"campaign": NewElection(s, "n").Campaign(t.Context(), "v"),
		} {
			if got != ErrSessionExpired { //nolint:errorlint // see above
				t.Errorf("%s after the session's end: %v", what, got)
			}
		}
	})
}

// TestObserveEndsWithTheSession, which is not replaced by another: nobody would
// close that.
func TestObserveEndsWithTheSession(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, open func() *Session) {
		s := open()
		out := NewElection(s, "n").Observe(t.Context())
		time.Sleep(time.Second)
		svc.Expire(s.session.ID())
		select {
		case _, ok := <-out:
			if ok {
				t.Error("a leader was sent")
			}
		case <-time.After(time.Minute):
			t.Error("the channel is not closed")
		}
		if n := len(svc.Sessions()); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}
