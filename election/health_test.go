package election_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

// probe sends a request to a handler.
func probe(h http.Handler, method string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
	return w
}

// check compares status and part of the text of both handlers of h.
func check(t *testing.T, h *election.Health, ready int, readyText string, live int,
	liveText string) {
	t.Helper()
	synctest.Wait()
	for what, c := range map[string]struct {
		h    http.Handler
		code int
		text string
	}{"ready": {h.Ready(), ready, readyText}, "live": {h.Live(), live, liveText}} {
		w := probe(c.h, http.MethodGet)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.text) ||
			!strings.HasSuffix(w.Body.String(), "\n") {
			t.Errorf("%s: %d %q, want %d with %q", what, w.Code, w.Body, c.code, c.text)
		}
	}
}

func TestHealthOverTheLifeOfARun(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		h := new(election.Health)
		check(t, h, 503, "not leading", 200, "ok")
		term := b.campaign()
		drained := make(chan struct{})
		drain := sync.OnceFunc(func() { close(drained) })
		defer drain()
		r := a.run(func(ctx context.Context, _ *election.Term) error {
			<-ctx.Done()
			<-drained
			return nil
		}, election.WithHealth(h))
		check(t, h, 503, "candidate", 200, "ok")
		b.resign(term)
		check(t, h, 200, "leading, token", 200, "ok")
		time.Sleep(time.Hour)
		check(t, h, 200, "leading, token", 200, "ok")

		r.stop(errMine)
		check(t, h, 503, "stopping: mine", 200, "ok") // it leads, and is able to
		drain()
		_ = r.ended()
		check(t, h, 503, "not a candidate", 200, "ok")
	})
}

func TestHealthOverALoss(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		h := new(election.Health)
		stopped := make(chan struct{})
		stop := sync.OnceFunc(func() { close(stopped) })
		defer stop()
		r := a.run(func(ctx context.Context, _ *election.Term) error {
			<-ctx.Done()
			<-stopped
			return nil
		}, election.WithHealth(h), election.WithPause(time.Minute, time.Minute))
		a.svc.Expire(a.session().ID())
		check(t, h, 503, "session lost", 503, "work still runs")
		stop()
		check(t, h, 503, "session lost", 200, "ok") // pausing
		time.Sleep(2 * time.Minute)
		check(t, h, 200, "leading", 200, "ok")
		r.end()
	})
}

func TestHealthOfASuspendedLeader(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		h := new(election.Health)
		term := a.campaign()
		stop := h.Show(term)
		a.svc.Stop()
		time.Sleep(3 * time.Second) // a renewal was refused
		check(t, h, 200, "leading", 503, "suspended")
		a.svc.Start()
		time.Sleep(time.Second)
		check(t, h, 200, "leading", 200, "ok")
		a.svc.Stop()
		time.Sleep(time.Until(term.Deadline())) // by the clock: whether or not the timer has run
		if w := probe(h.Ready(), http.MethodGet); w.Code != 503 {
			t.Errorf("ready at the deadline: %d", w.Code)
		}
		check(t, h, 503, "session", 503, "work still runs")
		stop()
		check(t, h, 503, "not leading", 200, "ok")
		a.svc.Start()
	})
}

// TestLiveIgnoresWorkThatHasReturned while Run resigns.
func TestLiveIgnoresWorkThatHasReturned(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		h := new(election.Health)
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpLeave {
				if w := probe(h.Live(), http.MethodGet); w.Code != 200 {
					t.Errorf("while resigning: %d %s", w.Code, w.Body)
				}
			}
			return memory.Fate{}
		})
		if err := a.e.Run(t.Context(), func(context.Context, *election.Term) error { return nil },
			election.WithHealth(h)); err != nil {
			t.Error(err)
		}
	})
}

func TestHealthOfWorkAfterErrOverrun(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		h := new(election.Health)
		stuck := make(chan struct{})
		r := a.run(func(context.Context, *election.Term) error { <-stuck; return nil },
			election.WithHealth(h), election.WithDrain(time.Second))
		r.stop(nil)
		if err := r.ended(); !errors.Is(err, election.ErrOverrun) {
			t.Errorf("Run = %v", err)
		}
		check(t, h, 503, "not a candidate", 503, "still runs")
		close(stuck)
		check(t, h, 503, "not a candidate", 200, "ok")
	})
}

func TestHealthSaysWhyACampaignFails(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op == memory.OpJoin {
				return memory.Fate{
					Err: driver.Wrap(coordinator.ErrRefused, errors.New("no permission"))}
			}
			return memory.Fate{}
		})
		h := new(election.Health)
		r := a.run(a.until(new(stage)), election.WithHealth(h))
		check(t, h, 503, "no permission", 200, "ok")
		r.end()
	})
}

func TestHealthShowsTermsOfCampaign(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		h := new(election.Health)
		first := a.campaign()
		stop := h.Show(first)
		check(t, h, 200, "leading", 200, "ok")
		a.resign(first)
		check(t, h, 503, "released", 200, "ok") // its owner knows
		second := a.campaign()
		stopSecond := h.Show(second)
		stop() // late: the second one is shown by now
		check(t, h, 200, "leading", 200, "ok")
		stopSecond()
		stopSecond()
		check(t, h, 503, "not leading", 200, "ok")
		a.resign(second)
	})
}

// TestLiveDoesNotReportTheLastTermAsTheNext: reading the clock may end the
// session and notify an observer, which may show another term. The session's
// timer races with the test, so it is repeated until the test is first.
func TestLiveDoesNotReportTheLastTermAsTheNext(t *testing.T) {
	looked := false
	for i := 0; i < 1000 && !looked; i++ {
		parties(t, 1, func(t *testing.T, p ...party) {
			h := new(election.Health)
			var next *election.Term
			other, err := election.New(p[0].client, "other")
			must(t, err)
			a := join(t, p[0].svc, "x",
				coordinator.WithObserver(event.DirectFunc(func(e event.Event) {
					stack := make([]byte, 1<<16)
					if e.Kind == event.SessionEnded &&
						strings.Contains(string(stack[:runtime.Stack(stack, false)]),
							"Health).live") {
						looked = true
						h.Show(next)
					}
				})))
			term := a.campaign()
			next, err = other.Campaign(t.Context(), nil)
			must(t, err)
			h.Show(term)
			a.link.Cut()
			time.Sleep(time.Until(term.Deadline()))
			if w := probe(h.Live(), http.MethodGet); looked && w.Code != 200 {
				t.Errorf("live: %d %s", w.Code, w.Body)
			}
			synctest.Wait()
			a.link.Heal()
			_ = next.Resign(t.Context())
			_ = a.client.Close(t.Context())
		})
	}
	if !looked {
		t.Error("the session's timer was always first")
	}
}

// TestLiveIgnoresWorkThatHasResigned itself.
func TestLiveIgnoresWorkThatHasResigned(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		h := new(election.Health)
		err := p[0].e.Run(t.Context(), func(_ context.Context, term *election.Term) error {
			p[0].resign(term)
			check(t, h, 503, "released", 200, "ok")
			return nil
		}, election.WithHealth(h))
		if err != nil {
			t.Error(err)
		}
	})
}

func TestHealthHandlersFollowHTTP(t *testing.T) {
	h := new(election.Health)
	for _, handler := range []http.Handler{h.Ready(), h.Live()} {
		get, head, post := probe(handler, http.MethodGet), probe(handler, http.MethodHead),
			probe(handler, http.MethodPost)
		if head.Code != get.Code || head.Body.Len() != 0 {
			t.Errorf("HEAD: %d %q", head.Code, head.Body)
		}
		if post.Code != http.StatusMethodNotAllowed || post.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("POST: %d, %v", post.Code, post.Header())
		}
		for _, w := range []*httptest.ResponseRecorder{get, head, post} {
			if w.Header().Get("Cache-Control") != "no-store" ||
				!strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
				t.Errorf("%v", w.Header())
			}
		}
	}
}
