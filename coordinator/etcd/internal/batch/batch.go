// Package batch sends small requests of one etcd client together: joins of
// queues and deletes of keys.
//
// Two requests may be in flight. Further requests wait, and are sent together
// in one transaction when one of the two is answered. With 64 goroutines this
// doubles the throughput: the cost of a request hardly depends on its size.
//
// A batch is as safe as its requests. Each join is a transaction within the
// transaction, with its own conditions and outcome. etcd compares before it
// writes, so two joins of one queue would both find it empty: only one join of
// a queue waits, and others are sent alone. All entries of a batch have the
// same revision, and thus the same token, each in its own queue. If the reply
// is lost, each contender sends its own request again. Joins and deletes are
// not mixed: an etcd that is out of space refuses every transaction with a put.
package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

const (
	maxInFlight = 2

	// maxInBatch bounds a batch. By default a member refuses transactions of
	// more than 128 operations.
	maxInBatch = 32

	// longestWait bounds how long a request waits: one member may be silent
	// while others are not.
	longestWait = 50 * time.Millisecond
)

// Batcher sends the requests of one client.
type Batcher struct {
	kv clientv3.KV

	mu          sync.Mutex
	inFlight    int
	joins       []*request
	deletes     []*request
	deletesNext bool
	armed       bool // waitedLong will be called
}

// New returns a Batcher for a client.
func New(kv clientv3.KV) *Batcher { return &Batcher{kv: kv} }

type request struct {
	queue driver.Queue // of a join
	op    clientv3.Op
	batch *batch        // nil before it is sent; guarded by Batcher.mu
	done  chan struct{} // closed when the fields below are set
	resp  clientv3.OpResponse
	err   error
	// alone: the batch was refused, maybe because of another request, and
	// nothing was applied. The caller sends the request alone.
	alone bool
}

// batch is one transaction of several requests. It is cancelled when all
// callers have given up.
type batch struct {
	requests []*request
	left     int // requests not given up; guarded by Batcher.mu
	cancel   context.CancelFunc
}

// Send sends op, a transaction that joins a queue, or a delete, whose queue is
// empty: at once if fewer than two requests are in flight, else with the next
// batch of its kind. A request whose context has gRPC metadata is sent alone:
// the metadata are the caller's.
func (b *Batcher) Send(
	ctx context.Context, queue driver.Queue, op clientv3.Op,
) (clientv3.OpResponse, error) {
	if b.admit(ctx) {
		defer b.answered()
		return b.kv.Do(ctx, op)
	}
	r := &request{queue: queue, op: op, done: make(chan struct{})}
	if !b.wait(r) {
		return b.kv.Do(ctx, op)
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		b.giveUp(r)
		return clientv3.OpResponse{}, ctx.Err()
	}
	if r.alone {
		return b.kv.Do(ctx, op)
	}
	return r.resp, r.err
}

// admit reports whether a request is sent at once. The caller then has to call
// answered.
func (b *Batcher) admit(ctx context.Context) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	goes := b.inFlight < maxInFlight // then no request waits
	if !goes {
		_, goes = metadata.FromOutgoingContext(ctx)
	}
	if goes {
		b.inFlight++
	}
	return goes
}

// wait reports whether r waits for a batch. Of one queue only one join waits.
func (b *Batcher) wait(r *request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	sameQueue := func(q *request) bool { return q.queue == r.queue }
	switch {
	case !r.op.IsTxn():
		b.deletes = append(b.deletes, r)
	case slices.ContainsFunc(b.joins, sameQueue):
		return false
	default:
		b.joins = append(b.joins, r)
	}
	if !b.armed {
		b.armed = true
		time.AfterFunc(longestWait, b.waitedLong)
	}
	b.sendMore()
	return true
}

func (b *Batcher) waitedLong() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
	for b.waiting() > 0 {
		b.sendOldest()
	}
}

func (b *Batcher) waiting() int { return len(b.joins) + len(b.deletes) }

// giveUp is called when the caller of r no longer waits. A batch with r may
// still apply it, as with every request whose reply is lost.
func (b *Batcher) giveUp(r *request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := r.batch
	if t == nil {
		is := func(q *request) bool { return q == r }
		b.joins, b.deletes = slices.DeleteFunc(b.joins, is), slices.DeleteFunc(b.deletes, is)
		return
	}
	if t.left--; t.left == 0 {
		t.cancel()
	}
}

func (b *Batcher) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	b.sendMore()
}

// sendMore sends batches while fewer than maxInFlight are in flight. The
// caller holds b.mu.
func (b *Batcher) sendMore() {
	for b.inFlight < maxInFlight && b.waiting() > 0 {
		b.sendOldest()
	}
}

// sendOldest sends a batch of the oldest joins or, alternately, deletes. The
// caller holds b.mu, and has checked that a request waits.
func (b *Batcher) sendOldest() {
	from := &b.joins
	if len(b.joins) == 0 || b.deletesNext && len(b.deletes) > 0 {
		from = &b.deletes
	}
	n := min(len(*from), maxInBatch)
	ctx, cancel := context.WithCancel(context.Background())
	t := &batch{requests: (*from)[:n:n], left: n, cancel: cancel}
	*from = (*from)[n:]
	for _, r := range t.requests {
		r.batch = t
	}
	b.deletesNext = from == &b.joins
	b.inFlight++
	go b.sendBatch(ctx, t)
}

// sendBatch sends a batch, and sets its requests' outcomes.
func (b *Batcher) sendBatch(ctx context.Context, t *batch) {
	defer b.answered()
	defer t.cancel()
	if first := t.requests[0]; len(t.requests) == 1 {
		first.resp, first.err = b.kv.Do(ctx, first.op)
		close(first.done)
		return
	}
	var ops []clientv3.Op
	for _, r := range t.requests {
		ops = append(ops, r.op)
	}
	resp, err := b.kv.Txn(ctx).Then(ops...).Commit()
	// An etcd that runs out of space may have applied the refused request.
	refused := err != nil && errors.Is(answer.Kind(err), driver.ErrRefused) &&
		!answer.Is(err, rpctypes.ErrNoSpace)
	for i, r := range t.requests {
		if r.err, r.alone = err, refused; err == nil {
			r.resp = part(resp.Header, resp.Responses[i])
		}
		close(r.done)
	}
}

// part is the reply to one request of a batch.
func part(header *pb.ResponseHeader, one *pb.ResponseOp) clientv3.OpResponse {
	if txn := one.GetResponseTxn(); txn != nil {
		txn.Header = header
		return (*clientv3.TxnResponse)(txn).OpResponse()
	}
	deleted := one.GetResponseDeleteRange()
	deleted.Header = header
	return (*clientv3.DeleteResponse)(deleted).OpResponse()
}
