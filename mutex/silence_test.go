package mutex_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
)

// messages counts what is logged.
type messages struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (m *messages) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.buf.Write(p)
}

func (m *messages) count(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Count(m.buf.String(), text)
}

func logTo(h slog.Handler) coordinator.Option { return coordinator.WithLogger(slog.New(h)) }

// stuck is a handler that blocks at each warning until it is closed.
type stuck chan struct{}

func (s stuck) Enabled(context.Context, slog.Level) bool { return true }
func (s stuck) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s stuck) WithGroup(string) slog.Handler            { return s }
func (s stuck) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		<-s
	}
	return nil
}

// TestBlockedLogDelaysNoLossSignal: a client that is cut off warns that nothing
// answers, and the log does not take the warning.
func TestBlockedLogDelaysNoLossSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, log := memory.NewService(), make(stuck)
		a, b := join(t, svc, logTo(log)), join(t, svc)
		held := a.lock()
		a.link.Cut()
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, _ = a.m.Contenders(ctx)
		}()
		next := b.lock()
		select {
		case <-held.Context().Done():
		default:
			t.Error("granted to another, and the context of the first holder lives")
		}
		close(log)
		b.unlock(next)
		a.link.Heal()
		time.Sleep(time.Minute)
		for _, p := range []party{a, b} {
			_ = p.client.Close(t.Context())
		}
	})
}

// TestSilenceIsLoggedOnceAMinute while joins are not answered and renewals are,
// as by an etcd whose disk is stuck.
func TestSilenceIsLoggedOnceAMinute(t *testing.T) {
	const silent = "the service has not answered"
	for _, ttl := range []time.Duration{2 * time.Second, 4 * time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			svc, log := memory.NewService(), &messages{}
			a := join(t, svc, logTo(slog.NewTextHandler(log, nil)), coordinator.WithTTL(ttl))
			a.unlock(a.lock())
			svc.OnRequest(func(r memory.Request) (f memory.Fate) {
				if r.Op == memory.OpJoin {
					f.DelayRequest = 2 * time.Minute
				}
				return f
			})
			ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
			defer cancel()
			go func() {
				time.Sleep(2 * time.Second)
				if log.count(silent) != 1 {
					t.Errorf("TTL %v: no warning within two seconds", ttl)
				}
			}()
			if _, err := a.m.Lock(ctx); !errors.Is(err, coordinator.ErrUnavailable) {
				t.Error(err)
			}
			if n := log.count(silent); n != 1 {
				t.Errorf("TTL %v: %d warnings in a minute", ttl, n)
			}
			svc.OnRequest(nil)
			time.Sleep(3 * time.Minute)
			_ = a.client.Close(t.Context())
		})
	}
}

// TestSlowOpenFitsTheCallersTime: opening takes 1.3 s, and the caller waits for
// 2.5 s. So the first attempt is not cut short, which would leave a session.
func TestSlowOpenFitsTheCallersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		a := join(t, svc)
		a.link.Delay(650*time.Millisecond, 650*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		if _, err := a.client.Session(ctx); err != nil || len(svc.Sessions()) != 1 {
			t.Errorf("%d sessions, %v", len(svc.Sessions()), err)
		}
		_ = a.client.Close(t.Context())
	})
}

// TestEachStrayAheadIsNamed although the session has read the queue shortly
// before for another call, which gave up during the read, and although the
// stray is behind many live contenders at first.
func TestEachStrayAheadIsNamed(t *testing.T) {
	for _, live := range []int{1, 12} {
		synctest.Test(t, func(t *testing.T) {
			svc, log := memory.NewService(), &messages{}
			a, b := join(t, svc, logTo(slog.NewTextHandler(log, nil))), join(t, svc)
			a.link.Delay(time.Millisecond, time.Millisecond)
			for range live {
				go func() {
					l := b.lock()
					time.Sleep(3 * time.Second)
					b.unlock(l)
				}()
			}
			synctest.Wait()
			place := svc.AddForeign(queue)
			var wg sync.WaitGroup
			for _, bound := range []time.Duration{1110 * time.Millisecond, 5 * time.Minute} {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), bound)
					defer cancel()
					if _, err := a.m.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := log.count("a stray entry"); n != 1 {
				t.Errorf("%d warnings behind %d live contenders and a stray", n, live)
			}
			svc.Remove(queue, place.Key)
			for _, p := range []party{a, b} {
				_ = p.client.Close(t.Context())
			}
		})
	}
}
