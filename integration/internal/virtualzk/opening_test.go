package virtualzk_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/virtualzk"
)

// TestSessionThatNoCallerWaitsForIsEnded: a caller that gives up while its
// session opens leaves none at the service, at whichever moment. A driver that
// is closed at once leaves none, either.
func TestSessionThatNoCallerWaitsForIsEnded(t *testing.T) {
	const oneWay = 40 * time.Millisecond
	for _, user := range []*url.Userinfo{nil, url.UserPassword("u", "p")} {
		for _, closed := range []bool{false, true} {
			for after := time.Duration(0); after < 8*oneWay; after += oneWay / 2 {
				synctest.Test(t, func(t *testing.T) {
					e := virtualzk.New(virtualzk.Config{Members: 3, Random: rand.New(rand.NewPCG(1, 2))})
					link := e.Link("")
					link.Delay(oneWay, oneWay)
					where := e.URL("/x")
					where.User = user
					d, err := zookeeper.OpenWith(where, zookeeper.Dialer(link.Dial))
					must(t, err)
					ctx, cancel := context.WithTimeout(t.Context(), after)
					defer cancel()
					began := time.Now()
					s, err := d.Open(ctx, 10*time.Second)
					if took := time.Since(began); took > after || err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("given up after %v: Open = %v after %v", after, err, took)
					}
					if err == nil {
						must(t, s.Close(t.Context()))
					}
					if !closed {
						time.Sleep(500 * time.Millisecond)
					}
					must(t, d.Close(t.Context()))
					time.Sleep(oneWay) // for what was sent
					if live := e.Sessions(); len(live) > 0 {
						t.Errorf("given up after %v, with credentials: %t: %d sessions remain", after, user != nil, len(live))
					}
					e.Close()
					time.Sleep(5 * time.Second) // the client library's Close waits for a reply
				})
			}
		}
	}
}

// TestOpeningThatIsGivenUpGoesOnForAMoment, and only while a request is under
// way: a closed driver leaves nothing.
func TestOpeningThatIsGivenUpGoesOnForAMoment(t *testing.T) {
	for what, c := range map[string]struct {
		fault   func(*virtualzk.Ensemble, *virtualzk.Link)
		longest time.Duration
	}{
		"no server is up":   {func(e *virtualzk.Ensemble, _ *virtualzk.Link) { e.Stop(-1) }, 0},
		"nothing passes":    {func(_ *virtualzk.Ensemble, l *virtualzk.Link) { l.Cut() }, 0},
		"no server answers": {func(e *virtualzk.Ensemble, _ *virtualzk.Link) { e.Pause(0) }, 500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := virtualzk.New(virtualzk.Config{Random: rand.New(rand.NewPCG(1, 2))})
			link := e.Link("")
			c.fault(e, link)
			d, err := zookeeper.OpenWith(e.URL("/x"), zookeeper.Dialer(link.Dial))
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			defer cancel()
			if _, err := d.Open(ctx, 10*time.Second); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: Open = %v", what, err)
			}
			began := time.Now()
			early, stop := context.WithTimeout(t.Context(), c.longest/5)
			defer stop()
			err = d.Close(early)
			if took := time.Since(began); took != c.longest/5 || (err != nil) != (c.longest > 0) {
				t.Errorf("%s: Close = %v after %v, with %v", what, err, took, c.longest/5)
			}
			must(t, d.Close(t.Context()))
			if took := time.Since(began); took != c.longest {
				t.Errorf("%s: Close of the driver took %v, want %v", what, took, c.longest)
			}
			dials := link.Dials()
			time.Sleep(time.Minute)
			if n := link.Dials() - dials; n > 0 {
				t.Errorf("%s: %d connections of a closed driver", what, n)
			}
			e.Close()
			time.Sleep(5 * time.Second) // the client library's Close waits for a reply
		})
	}
}
