// Package batch sends small requests of one etcd client together: joins of
// queues and deletes of keys.
//
// Two requests may be in flight. Further requests wait, and go together in one
// transaction as soon as one of the two is answered. With 64 goroutines this
// doubles the throughput, since a request costs nearly the same however much is
// in it.
//
// A batch is as safe as its requests. Each join is a transaction within the
// transaction, with its own conditions and its own outcome. etcd compares
// before it writes, for all of them, so two joins of one queue would both find
// it empty: only one join of a queue waits, and another one is sent by itself.
// All entries of a batch have the same revision, and thus the same token, each
// in a queue of its own. If the reply is lost, each contender that joined sends
// its own request again. Joins and deletes do not go together: an etcd that is
// out of space refuses every transaction with a put.
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

	// maxInBatch bounds a batch. A member refuses transactions of more than
	// 128 operations, unless it was configured otherwise.
	maxInBatch = 32

	// longestWait bounds how long a request waits: one member may be silent
	// where others are not.
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

// request is a request that waits to become part of a batch.
type request struct {
	queue driver.Queue // of a join
	op    clientv3.Op
	batch *batch        // nil before it is sent; guarded by the lock of the Batcher
	done  chan struct{} // closed when what follows is there
	resp  clientv3.OpResponse
	err   error
	// alone says that the batch was refused, maybe because of another request,
	// and that nothing of it was applied. The caller sends the request by
	// itself.
	alone bool
}

// batch is one transaction of several requests. It is cancelled when the last
// caller has given up.
type batch struct {
	requests []*request
	left     int // requests not given up; guarded by the lock of the Batcher
	cancel   context.CancelFunc
}

// Send sends op, a transaction that joins a queue or a delete, whose queue is
// empty: at once if fewer than two requests are in flight, and else with the
// next batch of its kind. A request whose context has gRPC metadata goes alone:
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

// admit reports whether a request is sent at once. Then answered must be called
// afterwards.
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

// wait reports whether r waits for a batch. A join does not if another join of
// its queue does.
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

// waitedLong sends all requests that wait.
func (b *Batcher) waitedLong() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
	for b.waiting() > 0 {
		b.sendOldest()
	}
}

func (b *Batcher) waiting() int { return len(b.joins) + len(b.deletes) }

// giveUp is called when the caller of r no longer waits. If r is in a batch,
// the batch may or may not apply it, as with every request whose reply is lost.
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

// answered is called when a request was answered, or has failed.
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

// sendOldest sends a batch of the joins, or of the deletes, that have waited
// longest. The caller holds b.mu, and has seen that a request waits.
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

// sendBatch sends a batch, and hands its outcome to the callers.
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
	// An etcd that finds itself out of space may have applied what it refuses.
	refused := err != nil && errors.Is(answer.Kind(err), driver.ErrRefused) &&
		!answer.Is(err, rpctypes.ErrNoSpace)
	for i, r := range t.requests {
		if r.err, r.alone = err, refused; err == nil {
			r.resp = part(resp.Header, resp.Responses[i])
		}
		close(r.done)
	}
}

// part is one answer of a batch, as the answer to a request of its own.
func part(header *pb.ResponseHeader, one *pb.ResponseOp) clientv3.OpResponse {
	if txn := one.GetResponseTxn(); txn != nil {
		txn.Header = header
		return (*clientv3.TxnResponse)(txn).OpResponse()
	}
	deleted := one.GetResponseDeleteRange()
	deleted.Header = header
	return (*clientv3.DeleteResponse)(deleted).OpResponse()
}
