package zookeeper

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// TestUserIsToldThatAServerHasShortenedTheSession, at once: the service ends it
// before the deadline of its holds.
func TestUserIsToldThatAServerHasShortenedTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		c, err := coordinator.New(f.driver("/app"), coordinator.WithTTL(testTTL),
			coordinator.WithLogger(slog.New(slog.DiscardHandler)))
		ok(t, err)
		defer func() { ok(t, c.Close(t.Context())) }()
		s, err := c.Session(t.Context())
		ok(t, err)
		f.set(func() {
			f.grant = func(asked hello) (hello, bool) {
				asked.timeout /= 2
				return asked, true
			}
		})
		f.cut()
		began := time.Now()
		<-s.Context().Done()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the session's context ended after %v", took)
		}
		cause := context.Cause(s.Context())
		if !errors.Is(cause, coordinator.ErrSessionLost) || !strings.Contains(cause.Error(), "maxSessionTimeout") {
			t.Errorf("the cause is %v", cause)
		}
	})
}

// TestLongOutageIsDialledSeldom, by a client that lost its session and waits
// for another: thousands of clients must not keep the servers from electing.
func TestLongOutageIsDialledSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		d := f.driver("/app").(*service)
		var away atomic.Bool
		var dials atomic.Int64
		d.Conf.Dial.Connect = func(ctx context.Context, addr string) (net.Conn, error) {
			if away.Load() {
				dials.Add(1)
				return nil, errors.New("refused")
			}
			return f.dial(ctx, addr)
		}
		c, err := coordinator.New(d, coordinator.WithTTL(testTTL), coordinator.WithLogger(slog.New(slog.DiscardHandler)))
		ok(t, err)
		defer func() { ok(t, c.Close(t.Context())) }()
		first, err := c.Session(t.Context())
		ok(t, err)
		away.Store(true)
		f.cut()
		<-first.Context().Done()
		if n := dials.Load(); n < 50 {
			t.Errorf("%d dials while the session could be saved", n)
		}
		next := make(chan error, 1)
		go func() {
			_, err := c.Session(t.Context())
			next <- err
		}()
		time.Sleep(time.Minute) // pauses grow
		before := dials.Load()
		time.Sleep(time.Hour)
		// Each attempt to open begins with a round.
		if n, most := dials.Load()-before, int64(time.Hour/time.Second); n > most {
			t.Errorf("%d dials in an hour; want at most one a second", n)
		}
		away.Store(false)
		began := time.Now()
		ok(t, <-next)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the session opened %v after the outage", took)
		}
	})
}
