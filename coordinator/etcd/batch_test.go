package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/driver"
)

// road is what a test does with requests on their way to a fake.
type road struct {
	f *served
	s *session

	mu     sync.Mutex
	closed chan struct{} // nil if nobody is stopped
	heard  []*pb.TxnRequest
	meet   func(r *pb.TxnRequest) error // nil for nothing
}

// newRoad has a session with a client of its own, and stops its requests, until the road is open.
func newRoad(t *testing.T) *road {
	r := &road{f: serve(t)}
	r.f.before = func(ctx context.Context, txn *pb.TxnRequest) error {
		r.mu.Lock()
		r.heard = append(r.heard, txn)
		closed, meet := r.closed, r.meet
		r.mu.Unlock()
		if closed != nil {
			select {
			case <-closed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if meet != nil {
			return meet(txn)
		}
		return nil
	}
	r.s = begin(t, r.f.own(t))
	r.batcher().patience = time.Hour
	r.heard = nil
	r.close()
	return r
}

func (r *road) batcher() *batcher { return r.s.wire.(*batcher) }

func (r *road) close() { r.gate(make(chan struct{})) }

func (r *road) open() { close(r.gate(nil)) }

// gate is for those who come from now on, and returns that which others may still wait for.
func (r *road) gate(next chan struct{}) (last chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, r.closed = r.closed, next
	return last
}

// sizes are of how many parts the requests were that came by.
func (r *road) sizes() (sizes []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, txn := range r.heard {
		sizes = append(sizes, len(txn.Success))
	}
	return sizes
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("still not: ", what)
		}
	}
}

func (r *road) untilHeard(t *testing.T, n int) {
	t.Helper()
	until(t, fmt.Sprint(n, " requests heard"), func() bool { return len(r.sizes()) >= n })
}

func (r *road) untilWaiting(t *testing.T, n int) {
	t.Helper()
	c := r.batcher()
	until(t, fmt.Sprint(n, " waiting"), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.waiting() == n
	})
}

// untilStill fails if a request is counted that is not under way.
func (r *road) untilStill(t *testing.T) {
	t.Helper()
	c := r.batcher()
	until(t, "nothing under way", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.underWay == 0 && c.waiting() == 0 && len(c.queues) == 0
	})
}

type arrival struct {
	queue  driver.Queue
	x      driver.Contender
	joined driver.Joined
	err    error
}

// join begins to join the queues.
func (r *road) join(ctx context.Context, queues ...driver.Queue) <-chan arrival {
	out := make(chan arrival, len(queues))
	for _, queue := range queues {
		go func() {
			x := contender()
			x.Follows = true
			j, err := r.s.Join(ctx, queue, x)
			out <- arrival{queue, x, j, err}
		}()
	}
	return out
}

// leave lets all leave on a closed road, of which nothing was heard before, until those who cannot go wait.
func (r *road) leave(t *testing.T, all []arrival) <-chan error {
	t.Helper()
	r.heard = nil
	r.close()
	left := make(chan error, len(all))
	for _, a := range all {
		go func() { left <- r.s.Pass(t.Context(), a.queue, a.joined.Place) }()
	}
	r.untilHeard(t, mostUnderWay)
	r.untilWaiting(t, len(all)-mostUnderWay)
	return left
}

// fill lets as many be under way that others wait.
func (r *road) fill(t *testing.T) <-chan arrival {
	t.Helper()
	var queues []driver.Queue
	for i := range mostUnderWay {
		queues = append(queues, driver.Queue(fmt.Sprintf("mutex/ahead%d", i)))
	}
	out := r.join(t.Context(), queues...)
	r.untilHeard(t, mostUnderWay)
	return out
}

// take receives so many, without an error.
func take(t *testing.T, n int, from <-chan arrival) (all []arrival) {
	t.Helper()
	for late := time.After(10 * time.Second); n > 0; n-- {
		select {
		case a := <-from:
			if a.err != nil {
				t.Fatalf("%s: %v", a.queue, a.err)
			}
			all = append(all, a)
		case <-late:
			t.Fatalf("%d still wait", n)
		}
	}
	return all
}

func someQueues(n int) (queues []driver.Queue) {
	for i := range n {
		queues = append(queues, driver.Queue(fmt.Sprintf("mutex/line%d", i)))
	}
	return queues
}

// entries counts those of the queues.
func (r *road) entries() (n int) {
	r.f.fake.mu.Lock()
	defer r.f.fake.mu.Unlock()
	for key := range r.f.kvs {
		if strings.HasPrefix(key, "ns/./mutex/") {
			n++
		}
	}
	return n
}

// TestThoseWhoWaitGoTogether: joins as well as deletes, each with its own outcome, and those of one kind only.
func TestThoseWhoWaitGoTogether(t *testing.T) {
	r := newRoad(t)
	ahead := r.fill(t)
	const n = mostInBatch + 8
	rest := r.join(t.Context(), someQueues(n)...)
	r.untilWaiting(t, n)
	r.open()
	all := slices.Concat(take(t, mostUnderWay, ahead), take(t, n, rest))
	for _, a := range all {
		if !a.joined.First || a.joined.Token == 0 {
			t.Errorf("%s: %+v", a.queue, a.joined)
		}
	}
	if sizes := r.sizes(); r.entries() != len(all) || len(sizes) != mostUnderWay+2 || slices.Max(sizes) != mostInBatch {
		t.Errorf("%d entries; requests of %v parts", r.entries(), sizes)
	}

	left := r.leave(t, all)
	rest = r.join(t.Context(), "mutex/new0", "mutex/new1") // cannot go with them
	r.untilWaiting(t, n+2)
	r.open()
	for range all {
		check(t, <-left)
	}
	take(t, 2, rest)
	if sizes := r.sizes(); r.entries() != 2 || len(sizes) != mostUnderWay+3 {
		t.Errorf("%d entries; requests of %v parts", r.entries(), sizes)
	}
	r.untilStill(t)
}

// TestOneOfALineWaits: two joins of one queue in one transaction would both find it empty. Others do not wait for nothing.
func TestOneOfAQueueWaits(t *testing.T) {
	r := newRoad(t)
	ahead := r.fill(t)
	const n = 5
	rest := r.join(t.Context(), append(slices.Repeat([]driver.Queue{queue}, n), "mutex/other")...)
	r.untilHeard(t, mostUnderWay+n-1)
	r.untilWaiting(t, 2)
	r.open()
	take(t, mostUnderWay, ahead)
	first, tokens := 0, make(map[driver.Token]bool)
	for _, a := range take(t, n+1, rest) {
		if a.queue == queue {
			tokens[a.joined.Token] = true
			if a.joined.First {
				first++
			}
		}
	}
	if first != 1 || len(tokens) != n {
		t.Errorf("%d are first in the queue, with %d tokens", first, len(tokens))
	}
	r.untilStill(t)
}

// TestDeletesOfALineGoTogether, as of permits, of which one name has many.
func TestDeletesOfAQueueGoTogether(t *testing.T) {
	r := newRoad(t)
	r.open()
	var all []arrival
	for range mostUnderWay + 10 {
		x := contender()
		j, err := r.s.Join(t.Context(), queue, x)
		check(t, err)
		all = append(all, arrival{queue, x, j, err})
	}
	left := r.leave(t, all)
	r.open()
	for range all {
		check(t, <-left)
	}
	if sizes := r.sizes(); r.entries() != 0 || len(sizes) != mostUnderWay+1 {
		t.Errorf("%d entries; requests of %v parts", r.entries(), sizes)
	}
	r.untilStill(t)
}

// TestWhoGivesUpWhileWaitingIsNotSent, and leaves its place.
func TestWhoGivesUpWhileWaitingIsNotSent(t *testing.T) {
	r := newRoad(t)
	ahead := r.fill(t)
	ctx, cancel := context.WithCancel(t.Context())
	rest := r.join(ctx, queue)
	r.untilWaiting(t, 1)
	cancel()
	if a := <-rest; !errors.Is(a.err, context.Canceled) {
		t.Error(a.err)
	}
	r.untilWaiting(t, 0)
	r.open()
	take(t, mostUnderWay, ahead)
	r.untilStill(t)
	if n := r.entries(); n != mostUnderWay {
		t.Errorf("%d entries", n)
	}
}

// TestWhoGivesUpInABatchLeavesItToOthers: it is given up with the last one.
func TestWhoGivesUpInABatchLeavesItToOthers(t *testing.T) {
	for _, others := range []bool{true, false} {
		t.Run(fmt.Sprint("others=", others), func(t *testing.T) {
			r := newRoad(t)
			ahead := r.fill(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			gone := r.join(ctx, someQueues(2)...)
			r.untilWaiting(t, 2)
			var rest <-chan arrival
			if others {
				rest = r.join(t.Context(), "mutex/other")
				r.untilWaiting(t, 3)
			}
			close(r.gate(make(chan struct{})))
			take(t, mostUnderWay, ahead)
			r.untilHeard(t, mostUnderWay+1)
			cancel()
			for range 2 {
				if a := <-gone; !errors.Is(a.err, context.Canceled) {
					t.Error(a.err)
				}
			}
			if others {
				r.open()
				take(t, 1, rest)
				if n := r.entries(); n != mostUnderWay+3 { // those two are for Forget
					t.Errorf("%d entries", n)
				}
			}
			r.untilStill(t)
		})
	}
}

// TestWhoGivesUpBeforeItsTurn: one that was to send its request itself makes way for the next.
func TestWhoGivesUpBeforeItsTurn(t *testing.T) {
	c := newBatcher(direct{})
	c.underWay = mostUnderWay
	p := &batched{op: clientv3.OpDelete("key"), done: make(chan struct{})}
	if !c.wait(p) || p.alone {
		t.Fatal("it did not wait")
	}
	c.answered()
	if c.giveUp(p); c.underWay != mostUnderWay-1 || !p.alone {
		t.Errorf("%d under way; %+v", c.underWay, p)
	}
}

// TestRefusedBatchIsSentOneByOne: what one may not do does not keep others from it.
func TestRefusedBatchIsSentOneByOne(t *testing.T) {
	r := newRoad(t)
	r.meet = func(txn *pb.TxnRequest) error {
		if strings.Contains(txn.String(), "mutex/secret") {
			return rpctypes.ErrGRPCPermissionDenied
		}
		return nil
	}
	ahead := r.fill(t)
	rest := r.join(t.Context(), append(someQueues(3), "mutex/secret")...)
	r.untilWaiting(t, 4)
	r.open()
	take(t, mostUnderWay, ahead)
	for range 4 {
		if a := <-rest; (a.queue == "mutex/secret") != errors.Is(a.err, driver.ErrRefused) || a.err == nil && !a.joined.First {
			t.Errorf("%s: %+v, %v", a.queue, a.joined, a.err)
		}
	}
	r.untilStill(t)
	if n := r.entries(); n != mostUnderWay+3 {
		t.Errorf("%d entries", n)
	}
}

// TestReplyOfABatchIsLost: each of those in it asks again, and has what it got.
func TestReplyOfABatchIsLost(t *testing.T) {
	r := newRoad(t)
	var lost atomic.Bool
	r.meet = func(txn *pb.TxnRequest) error {
		if len(txn.Success) == 1 || lost.Swap(true) {
			return nil
		}
		if _, err := r.f.Txn(context.Background(), txn); err != nil {
			return err
		}
		return rpctypes.ErrGRPCTimeout
	}
	ahead := r.fill(t)
	rest := r.join(t.Context(), someQueues(3)...)
	r.untilWaiting(t, 3)
	r.open()
	take(t, mostUnderWay, ahead)
	for range 3 {
		a := <-rest
		if !errors.Is(a.err, driver.ErrUnavailable) {
			t.Fatalf("%s: %v", a.queue, a.err)
		}
		a.x.Again = true
		j, err := r.s.Join(t.Context(), a.queue, a.x)
		if err != nil || !j.First {
			t.Errorf("%s: %+v, %v", a.queue, j, err)
		}
	}
	if n := r.entries(); n != mostUnderWay+3 {
		t.Errorf("%d entries", n)
	}
	r.untilStill(t)
}

// TestNobodyWaitsForASilentMember: those who have waited go, whatever becomes of the ones ahead.
func TestNobodyWaitsForASilentMember(t *testing.T) {
	r := newRoad(t)
	ahead := r.fill(t)
	r.batcher().patience = 20 * time.Millisecond
	stuck := r.gate(nil)
	for range 2 { // the timer is set again
		for _, a := range take(t, 3, r.join(t.Context(), someQueues(3)...)) {
			check(t, r.s.Pass(t.Context(), a.queue, a.joined.Place))
		}
	}
	close(stuck)
	take(t, mostUnderWay, ahead)
	r.untilStill(t)
}

// TestMetadataGoesAlone: it is the caller's, and no other's.
func TestMetadataGoesAlone(t *testing.T) {
	r := newRoad(t)
	ahead := r.fill(t)
	rest := r.join(metadata.AppendToOutgoingContext(t.Context(), "trace", "1"), queue)
	r.untilHeard(t, mostUnderWay+1)
	r.open()
	take(t, mostUnderWay, ahead)
	take(t, 1, rest)
	r.untilStill(t)
}
