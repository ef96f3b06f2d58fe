package etcd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

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

func (h *hasty) follow(ctx context.Context) <-chan outcome[bool] { return h.followAs(ctx, true) }

func (h *hasty) followAs(ctx context.Context, sole bool) <-chan outcome[bool] {
	end := make(chan outcome[bool], 1)
	go func() {
		passed, err := h.s.Follow(ctx, line, h.second, h.first, sole)
		end <- outcome[bool]{passed, err}
	}()
	synctest.Wait()
	return end
}

// ends has the outcome, which must be there, and no watch left once it would stand.
func (h *hasty) ends(t *testing.T, end <-chan outcome[bool], want outcome[bool]) {
	t.Helper()
	h.endsWith(t, end, want)
	h.watching(t, 0, "/mutex/")
}

func (h *hasty) endsWith(t *testing.T, end <-chan outcome[bool], want outcome[bool]) {
	t.Helper()
	h.endsNow(t, end, want)
	select {
	case <-h.stands:
	default:
		close(h.stands)
	}
	synctest.Wait()
}

// endsNow leaves the watch on its way.
func (h *hasty) endsNow(t *testing.T, end <-chan outcome[bool], want outcome[bool]) {
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
		"the caller gives up during the look": func(t *testing.T, h *hasty) {
			ctx, cancel := context.WithCancelCause(t.Context())
			h.before = func(ctx context.Context, _ *pb.TxnRequest) error {
				<-ctx.Done()
				return ctx.Err()
			}
			end := h.follow(ctx)
			cause := errors.New("enough")
			cancel(cause)
			h.ends(t, end, outcome[bool]{err: cause})
		},
		"the first has left, with a mark": func(t *testing.T, h *hasty) {
			third := contender()
			third.Follows = true
			h.first, h.second = h.second, join(t, h.ahead, third).Place
			h.ahead, h.s = h.s, h.ahead
			h.s.hand.looked(true)
			check(t, h.ahead.Pass(t.Context(), line, h.first))
			h.ends(t, h.followAs(t.Context(), false), outcome[bool]{got: true})
		},
		"the look fails": func(t *testing.T, h *hasty) {
			looks := 0
			h.before = func(context.Context, *pb.TxnRequest) error {
				if looks++; looks == 1 {
					return rpctypes.ErrGRPCTimeout
				}
				return nil
			}
			end := h.follow(t.Context())
			check(t, h.ahead.Leave(t.Context(), line, h.first))
			close(h.stands)
			h.ends(t, end, outcome[bool]{got: true})
			if looks != 2+1 { // quorum too
				t.Errorf("%d looks", looks)
			}
		},
		"the session is lost": func(t *testing.T, h *hasty) {
			_, err := h.s.c.Revoke(t.Context(), h.s.lease)
			check(t, err)
			h.endsWith(t, h.follow(t.Context()), outcome[bool]{err: driver.ErrSessionLost})
		},
		"the member at hand is behind the first's leaving": func(t *testing.T, h *hasty) {
			catchUp := h.lag()
			end := h.follow(t.Context())
			close(h.stands)
			synctest.Wait()
			check(t, h.ahead.Leave(t.Context(), line, h.first))
			synctest.Wait()
			if len(end) > 0 {
				t.Fatalf("told %+v before the member was", <-end)
			}
			catchUp()
			h.ends(t, end, outcome[bool]{got: true})
		},
		"the member at hand is behind both joins": func(t *testing.T, h *hasty) {
			catchUp := h.lag()
			behind := contender()
			behind.Follows = true
			h.first, h.second = join(t, h.ahead, contender()).Place, join(t, h.s, behind).Place
			end := h.follow(t.Context())
			if len(end) > 0 {
				t.Fatalf("told %+v", <-end)
			}
			close(h.stands)
			check(t, h.ahead.Leave(t.Context(), line, h.first))
			synctest.Wait()
			catchUp()
			h.ends(t, end, outcome[bool]{got: true})
		},
		"the first leaves while the watch is made anew": func(t *testing.T, h *hasty) {
			end := h.follow(t.Context())
			close(h.stands)
			synctest.Wait()
			h.stands = make(chan struct{})
			h.s.hand.hasty.Store(0)
			h.mu.Lock()
			for w := range h.watchers {
				if len(w.op.RangeBytes()) > 0 {
					delete(h.watchers, w)
					w.out <- clientv3.WatchResponse{Header: h.header(), Canceled: true, CompactRevision: h.rev}
				}
			}
			h.mu.Unlock()
			synctest.Wait()
			check(t, h.ahead.Leave(t.Context(), line, h.first))
			close(h.stands)
			h.ends(t, end, outcome[bool]{got: true})
		},
		"only after one that was found gone": func(t *testing.T, h *hasty) {
			h.s.hand.hasty.Store(0)
			check(t, h.ahead.Leave(t.Context(), line, h.first))
			end := h.follow(t.Context())
			if len(end) > 0 {
				t.Fatalf("told %+v", <-end)
			}
			close(h.stands)
			h.ends(t, end, outcome[bool]{got: true})
			if n := h.s.hand.hasty.Load(); n != hasteFor {
				t.Errorf("hasty for %d looks", n)
			}
		},
		"only while no other watch is being opened": func(t *testing.T, h *hasty) {
			check(t, h.ahead.Leave(t.Context(), line, h.first))
			h.endsNow(t, h.follow(t.Context()), outcome[bool]{got: true})
			end := h.follow(t.Context())
			if len(end) > 0 {
				t.Fatalf("told %+v", <-end)
			}
			close(h.stands)
			h.ends(t, end, outcome[bool]{got: true})
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
			close(h.stands)
			synctest.Wait()
			h.stands = make(chan struct{})
		}
		if early != hasteFor {
			t.Errorf("%d early looks, want %d", early, hasteFor)
		}
		h.watching(t, 0, "/mutex/")
	})
}
