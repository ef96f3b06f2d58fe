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
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// world has contenders of two sessions in one queue, who join, follow, watch
// their entries, leave, convert, lose replies and their entries, fail to pass
// and are forgotten at random, and use the names of earlier ones. The first
// session may end, and another one replaces it.
type world struct {
	*pair
	client *clientv3.Client
	t      *testing.T
	rnd    *rand.Rand
	names  map[*session][]driver.Contender // of contenders who have left
	in     []*inWorld                      // in the order of the queue
	lost   []*inWorld                      // their joins have got no reply

	created atomic.Pointer[chan struct{}] // watches are created when it is closed
	cuts    atomic.Pointer[cut]           // the next request that fails
}

// cut is a transaction on a key that is not answered.
type cut struct {
	key     string
	applied bool
}

func (c *cut) hits(r *pb.TxnRequest) bool {
	return slices.ContainsFunc(r.Success, func(op *pb.RequestOp) bool {
		return string(op.GetRequestPut().GetKey()) == c.key ||
			string(op.GetRequestDeleteRange().GetKey()) == c.key
	})
}

type inWorld struct {
	driver.Contender
	s          *session
	own, ahead driver.Place // ahead is zero if there is none to follow
	watches    bool         // its wait is for its own entry alone
	failed     bool         // its Pass has failed
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
		cut := w.cuts.Load()
		if cut == nil || !cut.hits(r) {
			return nil
		}
		w.cuts.Store(nil)
		if cut.applied {
			_, _ = f.Txn(ctx, r)
		}
		return rpctypes.ErrGRPCTimeout
	}
	w.client, w.pair = c, &pair{fake: f, a: open(t, f, c), b: open(t, f, c)}
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
					if w.rnd.IntN(20) == 0 {
						w.steps()
						w.endSession()
					}
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
	w.cuts.Store(&cut{key, true})
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
	if c.end != nil {
		return
	}
	c.watches = c.ahead.Key == "" || w.rnd.IntN(6) == 0
	ctx, cancel := context.WithCancel(w.t.Context())
	own, ahead, end := c.own, c.ahead, make(chan outcome[bool], 1)
	c.cancel, c.end = cancel, end
	wait := func() (passed bool, err error) { return c.s.Follow(ctx, queue, own, ahead) }
	if c.watches {
		ahead = driver.Place{}
		wait = func() (passed bool, err error) {
			if err = c.s.Watch(ctx, queue, own); err == nil {
				err = driver.ErrGone
			}
			return false, err
		}
	}
	go func() {
		for {
			passed, err := wait()
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
	passes := w.in[0] == c && len(w.lost) == 0 && !c.failed // one of those may be ahead
	if passes {
		leave = c.s.Pass
	}
	if c.end != nil {
		c.cancel()
		c.end = nil
	}
	if passes && w.rnd.IntN(4) == 0 && w.failsToPass(c) {
		c.failed = true
		return
	}
	forget := c.Again || c.failed || w.rnd.IntN(6) == 0
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

// failsToPass has the first contender call Pass, which may be applied, and
// reports whether that has failed. An entry that it knows no tail key for is
// deleted with another request, which does not fail.
func (w *world) failsToPass(c *inWorld) bool {
	e, _ := w.a.keys.Entry(queue, c.own)
	w.cuts.Store(&cut{e.Key, w.rnd.IntN(2) == 0})
	err := c.s.Pass(w.t.Context(), queue, c.own)
	return w.cuts.Swap(nil) == nil && err != nil
}

// endSession ends all waits of the first session, and its entries.
func (w *world) endSession() {
	synctest.Wait()
	old := w.a
	if w.rnd.IntN(2) == 0 {
		old.End()
	}
	check(w.t, old.Close(w.t.Context()))
	synctest.Wait()
	isOld := func(c *inWorld) bool { return c.s == old }
	for _, c := range w.in {
		if isOld(c) && c.end != nil && len(c.end) == 0 {
			w.t.Error("a wait outlives its session")
		}
	}
	if n := len(old.ownWatches.of); n != 0 {
		w.t.Errorf("%d own watches outlive their session", n)
	}
	w.in, w.lost = slices.DeleteFunc(w.in, isOld), slices.DeleteFunc(w.lost, isOld)
	delete(w.names, old)
	w.a = open(w.t, w.fake, w.client)
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
	own, ahead := w.has(c.own), c.watches || w.has(c.ahead)
	first := !slices.ContainsFunc(w.in[:i], func(c *inWorld) bool { return w.has(c.own) })
	select {
	case got := <-c.end:
		c.end = nil
		gone := errors.Is(got.err, driver.ErrGone)
		if gone && own || !gone && (got.err != nil || ahead) || got.got && own && !first {
			w.t.Fatalf("number %d, in the queue: own %t, ahead %t; %+v", i, own, ahead, got)
		}
	default:
		if !own || !ahead {
			w.t.Fatalf("number %d waits, in the queue: own %t, ahead %t", i, own, ahead)
		}
	}
}
