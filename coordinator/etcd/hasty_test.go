package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator/driver"
)

// hasty is a contender behind another, in a session that looks before its watch stands, which takes as long as the test says.
type hasty struct {
	*fake
	ahead, s      *session
	first, second driver.Place
	stands        chan struct{}
}

func newHasty(t *testing.T) *hasty {
	f, c := newFake(t)
	h := &hasty{fake: f, ahead: open(t, f, c), s: open(t, f, c), stands: make(chan struct{})}
	behind := contender()
	behind.Follows = true
	h.first = join(t, h.ahead, contender()).Place
	h.second = join(t, h.s, behind).Place
	h.s.hand.looked(true)
	synctest.Wait()
	f.opens = func() { <-h.stands }
	return h
}

func (h *hasty) follow(ctx context.Context) <-chan outcome[bool] {
	end := make(chan outcome[bool], 1)
	go func() {
		passed, err := h.s.Follow(ctx, line, h.second, h.first, true)
		end <- outcome[bool]{passed, err}
	}()
	synctest.Wait()
	return end
}

// ends has the outcome, which must be there, and no watch left once it would stand.
func (h *hasty) ends(t *testing.T, end <-chan outcome[bool], want outcome[bool]) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-end:
		if got.got != want.got || !errors.Is(got.err, want.err) {
			t.Errorf("told %+v, want %+v", got, want)
		}
	default:
		t.Error("it waits on")
	}
	select {
	case <-h.stands:
	default:
		close(h.stands)
	}
	synctest.Wait()
	h.watching(t, 0, "/mutex/")
}

func TestFollowLooksBeforeTheWatchStands(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, h *hasty){
		"the first has left": func(t *testing.T, h *hasty) {
			check(t, h.ahead.Leave(t.Context(), line, h.first))
			h.ends(t, h.follow(t.Context()), outcome[bool]{got: true})
		},
		"the second was removed": func(t *testing.T, h *hasty) {
			(&file{f: h.fake, s: h.s, places: []driver.Place{h.second}}).remove(0, true)
			h.ends(t, h.follow(t.Context()), outcome[bool]{err: driver.ErrGone})
		},
		"the first leaves after the look, before the watch stands": func(t *testing.T, h *hasty) {
			end := h.follow(t.Context())
			check(t, h.ahead.Leave(t.Context(), line, h.first))
			close(h.stands)
			h.ends(t, end, outcome[bool]{got: true})
		},
		"the first leaves when the watch stands": func(t *testing.T, h *hasty) {
			var end <-chan outcome[bool]
			n := h.sent(func() {
				end = h.follow(t.Context())
				close(h.stands)
				synctest.Wait()
			})
			if n != 1 || len(end) > 0 {
				t.Errorf("%d requests, %d outcomes", n, len(end))
			}
			check(t, h.ahead.Leave(t.Context(), line, h.first))
			h.ends(t, end, outcome[bool]{got: true})
		},
		"the caller gives up before the watch stands": func(t *testing.T, h *hasty) {
			ctx, cancel := context.WithCancelCause(t.Context())
			end := h.follow(ctx)
			cause := errors.New("enough")
			cancel(cause)
			h.ends(t, end, outcome[bool]{err: cause})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newHasty(t)) })
		})
	}
}

// TestFollowLooksEarlyForAsLongAsThatPays counts waits that find the one ahead standing.
func TestFollowLooksEarlyForAsLongAsThatPays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHasty(t)
		early := 0
		for range 2 * hasteFor {
			ctx, cancel := context.WithCancel(t.Context())
			early += h.sent(func() { h.follow(ctx) })
			cancel()
			synctest.Wait()
		}
		if early != hasteFor {
			t.Errorf("%d early looks, want %d", early, hasteFor)
		}
		close(h.stands)
		synctest.Wait()
		h.watching(t, 0, "/mutex/")
	})
}
