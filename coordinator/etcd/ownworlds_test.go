package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/baton-go/baton/coordinator/driver"
)

// world has contenders of two sessions in one queue, who join, follow, leave,
// convert, lose replies and their entries and are forgotten at random, and use
// the names of earlier ones.
type world struct {
	*pair
	t     *testing.T
	rnd   *rand.Rand
	names map[*session][]driver.Contender // of contenders who have left
	in    []*inWorld                      // in the order of the queue
	lost  []*inWorld                      // their joins have got no reply

	created atomic.Pointer[chan struct{}] // watches are created when it is closed
	loses   atomic.Pointer[string]        // the key of a join whose reply gets lost
}

type inWorld struct {
	driver.Contender
	s          *session
	own, ahead driver.Place // ahead is zero if there is none to follow
	cancel     context.CancelFunc
	end        chan outcome[bool] // nil without a wait
}

func newWorld(t *testing.T, seed uint64) *world {
	f, c := newFake(t)
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), names: map[*session][]driver.Contender{}}
	f.opens = func() {
		if created := w.created.Load(); created != nil {
			<-*created
		}
	}
	f.before = func(ctx context.Context, r *pb.TxnRequest) error {
		key := w.loses.Load()
		if key == nil || !slices.ContainsFunc(r.Success, func(op *pb.RequestOp) bool {
			return string(op.GetRequestPut().GetKey()) == *key
		}) {
			return nil
		}
		w.loses.Store(nil)
		_, _ = f.Txn(ctx, r)
		return rpctypes.ErrGRPCTimeout
	}
	w.pair = &pair{fake: f, a: open(t, f, c), b: open(t, f, c)}
	return w
}

// TestWaitsInRandomWorldsEndWhenAnEntryHasLeft, and only then.
func TestWaitsInRandomWorldsEndWhenAnEntryHasLeft(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				for range 80 {
					w.disturbed(w.steps)
				}
				for _, c := range w.lost {
					w.enter(c)
				}
				w.lost = nil
				for len(w.in) > 0 {
					w.leave(w.in[0])
				}
				w.wantWatches(t, 0)
				for _, s := range []*session{w.a, w.b} {
					if n, m := len(s.ownWatches.of), len(s.memory.contenders); n != 0 || m != 0 {
						t.Errorf("%d own watches and %d contenders are left", n, m)
					}
				}
			})
		})
	}
}

// disturbed calls do, mostly while something is wrong with the watches, and
// then checks the waits.
func (w *world) disturbed(do func()) {
	restore, within := func() {}, ownWatchDelay+time.Second/4 // a refused wait begins again
	switch w.rnd.IntN(8) {
	case 0:
		restore = w.lag()
	case 1:
		created := make(chan struct{})
		w.created.Store(&created)
		restore = func() { close(created) }
	case 2:
		w.refuse(rpctypes.ErrNoLeader)
		restore = func() { w.refuse(nil) }
	case 3: // the waits leave the member without its help
		catchUp := w.stall(2)
		defer catchUp()
		within = 2 * w.a.TTL()
	}
	do()
	restore()
	time.Sleep(within)
	synctest.Wait()
	for i := range w.in {
		w.verify(i)
	}
}

func (w *world) steps() {
	settles := w.rnd.IntN(2) == 0
	for range 1 + w.rnd.IntN(5) {
		w.step()
		if settles {
			synctest.Wait()
		}
	}
}

func (w *world) step() {
	if len(w.lost) > 0 && w.rnd.IntN(6) == 0 {
		c := w.lost[0]
		w.lost = w.lost[1:]
		if w.rnd.IntN(3) == 0 {
			check(w.t, c.s.Forget(w.t.Context(), queue, c.ID))
		} else {
			w.enter(c)
		}
		return
	}
	if len(w.in) == 0 {
		w.join()
		return
	}
	c := w.in[w.rnd.IntN(len(w.in))]
	switch n := w.rnd.IntN(20); {
	case n < 5:
		w.join()
	case n < 11:
		w.follow(c)
	case n < 15:
		w.leave(c)
	case n < 17:
		w.leave(w.in[0])
	case n < 18:
		w.over(w.b.Remove(w.t.Context(), queue, c.own.Key, tokenOf(w.b, c.own)))
	case n < 19:
		w.compact()
	case w.in[0].end == nil:
		w.convert(w.in[0])
	}
}

func (w *world) join() {
	s := w.a
	if w.rnd.IntN(4) == 0 {
		s = w.b
	}
	c := &inWorld{Contender: contender(), s: s}
	if n := len(w.names[s]); n > 0 {
		c.Contender, w.names[s] = w.names[s][n-1], w.names[s][:n-1]
	}
	c.Follows, c.Mode = true, []string{"x", "z"}[w.rnd.IntN(2)]
	if w.rnd.IntN(8) > 0 {
		w.enter(c)
		return
	}
	key := s.keys.Contender(queue, s.ID(), c.ID) + c.Mode
	w.loses.Store(&key)
	if _, err := s.Join(w.t.Context(), queue, c.Contender); err == nil {
		w.t.Fatal("a join without a reply")
	}
	c.Again = true
	w.lost = append(w.lost, c)
}

func (w *world) enter(c *inWorld) {
	j := join(w.t, c.s, c.Contender)
	c.own, c.ahead = j.Place, j.Nearest
	w.in = append(w.in, c)
	slices.SortFunc(w.in, func(a, b *inWorld) int {
		return cmp.Compare(tokenOf(a.s, a.own), tokenOf(b.s, b.own))
	})
}

func (w *world) follow(c *inWorld) {
	if c.end != nil || c.ahead.Key == "" {
		return
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	own, ahead, end := c.own, c.ahead, make(chan outcome[bool], 1)
	c.cancel, c.end = cancel, end
	go func() {
		for {
			passed, err := c.s.Follow(ctx, queue, own, ahead)
			if !errors.Is(err, driver.ErrUnavailable) {
				// A member that has stalled may not answer.
				soon, cancel := context.WithTimeout(w.t.Context(), time.Second/8)
				view, _ := c.s.Ahead(soon, queue, own)
				cancel()
				if err == nil && slices.Contains(view.Ahead, ahead) {
					w.t.Error("a view after the wait shows what has left")
				}
				end <- outcome[bool]{passed, err}
				return
			}
			time.Sleep(time.Second / 20)
		}
	}()
}

func (w *world) leave(c *inWorld) {
	leave := c.s.Leave
	if w.in[0] == c && len(w.lost) == 0 { // one of those may be ahead
		leave = c.s.Pass
	}
	if c.end != nil {
		c.cancel()
	}
	forget := c.Again || w.rnd.IntN(6) == 0
	if !forget || w.rnd.IntN(2) == 0 {
		w.over(leave(w.t.Context(), queue, c.own))
	}
	if forget {
		check(w.t, c.s.Forget(w.t.Context(), queue, c.ID))
	} else {
		w.names[c.s] = append(w.names[c.s], c.Contender)
	}
	w.in = slices.DeleteFunc(w.in, func(other *inWorld) bool { return other == c })
}

// over checks the error of a request that removes an entry.
func (w *world) over(err error) {
	if !errors.Is(err, driver.ErrGone) {
		check(w.t, err)
	}
}

func (w *world) convert(c *inWorld) {
	p, err := c.s.Convert(w.t.Context(), queue, driver.Joined{Place: c.own}, "y", nil)
	if err == nil { // else it was removed, or was converted before
		c.own, c.ahead = p, driver.Place{}
	}
}

func (w *world) has(p driver.Place) bool {
	e, _ := w.a.keys.Entry(queue, p)
	w.mu.Lock()
	defer w.mu.Unlock()
	kv := w.kvs[e.Key]
	return kv != nil && e.Is(kv)
}

// verify checks the wait of a contender against the keys.
func (w *world) verify(i int) {
	c := w.in[i]
	if c.end == nil {
		return
	}
	own, ahead := w.has(c.own), w.has(c.ahead)
	select {
	case got := <-c.end:
		c.end = nil
		gone := errors.Is(got.err, driver.ErrGone)
		if gone && own || !gone && (got.err != nil || ahead) || got.got && own && i > 0 {
			w.t.Fatalf("number %d, in the queue: own %t, ahead %t; %+v", i, own, ahead, got)
		}
	default:
		if !own || !ahead {
			w.t.Fatalf("number %d waits, in the queue: own %t, ahead %t", i, own, ahead)
		}
	}
}
