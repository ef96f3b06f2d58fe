package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/driver"
)

// gate is an etcd that delays its replies until the gate is open. It counts the
// requests, and passes their keys to react.
type gate struct {
	clientv3.KV
	b *Batcher

	mu     sync.Mutex
	opened chan struct{}
	sizes  []int // of the requests, in operations
	react  func(ctx context.Context, keys []string) error
}

func newGate() *gate {
	r := &gate{opened: make(chan struct{})}
	r.b = New(r)
	return r
}

// keyOf is the key that a delete or a join names.
func keyOf(op clientv3.Op) string {
	if op.IsTxn() {
		_, then, _ := op.Txn()
		op = then[0]
	}
	return string(op.KeyBytes())
}

// pass records a request, and returns its replies, which name the keys.
func (r *gate) pass(ctx context.Context, ops ...clientv3.Op) ([]*pb.ResponseOp, error) {
	r.mu.Lock()
	r.sizes = append(r.sizes, len(ops))
	opened, react := r.opened, r.react
	r.mu.Unlock()
	select {
	case <-opened:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var keys []string
	var answers []*pb.ResponseOp
	for _, op := range ops {
		key := keyOf(op)
		keys = append(keys, key)
		one := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{
			ResponseDeleteRange: &pb.DeleteRangeResponse{Deleted: int64(len(key))},
		}}
		if op.IsTxn() {
			one = &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{
				ResponseTxn: &pb.TxnResponse{Succeeded: key != "taken"},
			}}
		}
		answers = append(answers, one)
	}
	if react != nil {
		if err := react(ctx, keys); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func (r *gate) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	answers, err := r.pass(ctx, op)
	if err != nil {
		return clientv3.OpResponse{}, err
	}
	return part(&pb.ResponseHeader{Revision: 7}, answers[0]), nil
}

func (r *gate) Txn(ctx context.Context) clientv3.Txn { return &txn{r: r, ctx: ctx} }

type txn struct {
	clientv3.Txn
	r   *gate
	ctx context.Context
	ops []clientv3.Op
}

func (t *txn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.ops = ops
	return t
}

func (t *txn) Commit() (*clientv3.TxnResponse, error) {
	answers, err := t.r.pass(t.ctx, t.ops...)
	if err != nil {
		return nil, err
	}
	return &clientv3.TxnResponse{
		Header: &pb.ResponseHeader{Revision: 7}, Succeeded: true, Responses: answers,
	}, nil
}

// open lets all requests pass.
func (r *gate) open() { close(r.opened) }

// close stops the requests from now on.
func (r *gate) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened, r.sizes = make(chan struct{}), nil
}

type outcome struct {
	key  string
	resp clientv3.OpResponse
	err  error
}

// join sends joins, each of the queue named like its key, until all of them are
// answered or wait.
func (r *gate) join(ctx context.Context, keys ...string) <-chan outcome {
	return r.send(ctx, keys, func(key string) (driver.Queue, clientv3.Op) {
		return driver.Queue(key), clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(key, "")}, nil)
	})
}

func (r *gate) delete(keys ...string) <-chan outcome {
	return r.send(context.Background(), keys, func(key string) (driver.Queue, clientv3.Op) {
		return "", clientv3.OpDelete(key)
	})
}

func (r *gate) send(
	ctx context.Context, keys []string, op func(key string) (driver.Queue, clientv3.Op),
) <-chan outcome {
	out := make(chan outcome, len(keys))
	for _, key := range keys {
		go func() {
			queue, op := op(key)
			resp, err := r.b.Send(ctx, queue, op)
			out <- outcome{key, resp, err}
		}()
	}
	synctest.Wait()
	return out
}

// fill sends so many requests that others wait.
func (r *gate) fill() <-chan outcome {
	return r.join(context.Background(), some("ahead", maxInFlight)...)
}

func some(name string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint(name, i))
	}
	return keys
}

// take receives n outcomes, without an error.
func take(t *testing.T, n int, from <-chan outcome) {
	t.Helper()
	for range n {
		got := <-from
		if got.err != nil {
			t.Errorf("%s: %v", got.key, got.err)
			continue
		}
		if txn := got.resp.Txn(); txn != nil {
			if txn.Succeeded != (got.key != "taken") || txn.Header.Revision != 7 {
				t.Errorf("%s: %+v", got.key, txn)
			}
		} else if del := got.resp.Del(); del.Deleted != int64(len(got.key)) || del.Header.Revision != 7 {
			t.Errorf("%s: %+v", got.key, del)
		}
	}
}

// wantIdle fails if the Batcher counts a request in flight or waiting.
func (r *gate) wantIdle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	if r.b.inFlight != 0 || r.b.waiting() != 0 {
		t.Errorf("%d in flight, %d wait", r.b.inFlight, r.b.waiting())
	}
}

func (r *gate) waiting(t *testing.T, want int) {
	t.Helper()
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	if n := r.b.waiting(); n != want {
		t.Errorf("%d wait, want %d", n, want)
	}
}

func withGate(t *testing.T, test func(t *testing.T, r *gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newGate()
		test(t, r)
		r.wantIdle(t)
	})
}

// TestWaitingRequestsShareATransaction with others of their kind. Each has its
// own outcome.
func TestWaitingRequestsShareATransaction(t *testing.T) {
	withGate(t, func(t *testing.T, r *gate) {
		const n = maxInBatch + 8
		ahead := r.fill()
		rest := r.join(t.Context(), append(some("queue", n-1), "taken")...)
		gone := r.delete(some("key", 3)...)
		r.waiting(t, n+3)
		r.open()
		take(t, maxInFlight, ahead)
		take(t, n, rest)
		take(t, 3, gone)
		slices.Sort(r.sizes)
		if want := []int{1, 1, 3, 8, maxInBatch}; !slices.Equal(r.sizes, want) {
			t.Errorf("requests of %v operations, want %v", r.sizes, want)
		}
	})
}

// TestOneJoinOfAQueueWaits: two joins of one queue in one transaction would
// both find it empty. The others do not wait for it.
func TestOneJoinOfAQueueWaits(t *testing.T) {
	withGate(t, func(t *testing.T, r *gate) {
		ahead := r.fill()
		rest := r.join(t.Context(), "queue", "queue", "queue", "other")
		r.waiting(t, 2)
		if n := len(r.sizes); n != maxInFlight+2 {
			t.Errorf("%d requests", n)
		}
		r.open()
		take(t, maxInFlight, ahead)
		take(t, 4, rest)
	})
}

func TestCancelledWaitingRequestIsNotSent(t *testing.T) {
	withGate(t, func(t *testing.T, r *gate) {
		ahead := r.fill()
		ctx, cancel := context.WithCancel(t.Context())
		rest := r.join(ctx, "queue")
		cancel()
		if got := <-rest; !errors.Is(got.err, context.Canceled) {
			t.Error(got.err)
		}
		r.waiting(t, 0)
		r.open()
		take(t, maxInFlight, ahead)
		if n := len(r.sizes); n != maxInFlight {
			t.Errorf("%d requests", n)
		}
	})
}

// TestCancelledRequestLeavesItsBatchToTheOthers. The last cancellation cancels
// the batch.
func TestCancelledRequestLeavesItsBatchToTheOthers(t *testing.T) {
	for _, others := range []bool{false, true} {
		withGate(t, func(t *testing.T, r *gate) {
			ahead := r.fill()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			gone := r.join(ctx, "one", "two")
			var rest <-chan outcome
			if others {
				rest = r.join(t.Context(), "other")
			}
			opened := r.opened
			r.close()
			close(opened)
			take(t, maxInFlight, ahead)
			synctest.Wait()
			cancel()
			for range 2 {
				if got := <-gone; !errors.Is(got.err, context.Canceled) {
					t.Error(got.err)
				}
			}
			if others {
				r.open()
				take(t, 1, rest)
			}
		})
	}
}

// TestRefusedBatchIsSentOneByOne: etcd may refuse only one of the requests.
func TestRefusedBatchIsSentOneByOne(t *testing.T) {
	withGate(t, func(t *testing.T, r *gate) {
		r.react = func(_ context.Context, keys []string) error {
			if slices.Contains(keys, "secret") {
				return rpctypes.ErrPermissionDenied
			}
			return nil
		}
		ahead := r.fill()
		rest, secret := r.join(t.Context(), some("queue", 3)...), r.join(t.Context(), "secret")
		r.open()
		take(t, maxInFlight, ahead)
		take(t, 3, rest)
		if got := <-secret; !errors.Is(got.err, rpctypes.ErrPermissionDenied) {
			t.Error(got.err)
		}
	})
}

// TestUncertainBatchIsUncertainForEachRequest: a batch is not sent again if its
// reply is lost, or if etcd runs out of space.
func TestUncertainBatchIsUncertainForEachRequest(t *testing.T) {
	for _, outcome := range []error{rpctypes.ErrTimeout, rpctypes.ErrNoSpace} {
		withGate(t, func(t *testing.T, r *gate) {
			r.react = func(_ context.Context, keys []string) error {
				if len(keys) > 1 {
					return outcome
				}
				return nil
			}
			ahead := r.fill()
			rest := r.join(t.Context(), some("queue", 3)...)
			r.open()
			take(t, maxInFlight, ahead)
			for range 3 {
				if got := <-rest; !errors.Is(got.err, outcome) {
					t.Errorf("%s: %v, want %v", got.key, got.err, outcome)
				}
			}
		})
	}
}

func TestRequestsDoNotWaitForASilentMember(t *testing.T) {
	withGate(t, func(t *testing.T, r *gate) {
		ahead := r.fill()
		silent := r.opened
		r.close()
		r.open()
		for range 2 { // the timer is set twice
			began := time.Now()
			take(t, 3, r.join(t.Context(), some("queue", 3)...))
			if waited := time.Since(began); waited != longestWait {
				t.Errorf("waited %v", waited)
			}
		}
		close(silent)
		take(t, maxInFlight, ahead)
	})
}

// TestRequestWithMetadataIsSentAlone: the metadata belong to its caller only.
func TestRequestWithMetadataIsSentAlone(t *testing.T) {
	withGate(t, func(t *testing.T, r *gate) {
		ahead := r.fill()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "trace", "1")
		rest := r.join(ctx, "queue")
		r.waiting(t, 0)
		r.open()
		take(t, maxInFlight, ahead)
		take(t, 1, rest)
	})
}
