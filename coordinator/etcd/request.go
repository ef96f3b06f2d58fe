package etcd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/baton-go/baton/coordinator/driver"
)

// joins is what a session remembers of its own joins: the epoch to send with the next
// one, and which of those under way have been forgotten meanwhile.
//
// The epoch is the sentinel's mod revision. Each join compares it, each Forget raises it,
// so a join that was sent before a Forget cannot be applied after it. One hole
// is left: a join whose compare failed may try again with the new epoch, and if it is
// the very join that was forgotten, it must not. Hence the order
//
//	Forget:  mark the calls of this ID; send the transaction that raises the epoch
//	Join:    take the epoch unless the call is marked, in one critical section; send
//
// A call that is not marked yet took an epoch from before the Forget, which the
// Forget's transaction makes worthless, for the epoch it writes is newer than any
// that was ever known.
//
// Refusing to try again at all would need no book-keeping, but then one contender that
// gives up makes all other joins of its session fail.
type joins struct {
	mu    sync.Mutex
	epoch int64
	calls map[string]*call // by the prefix of the contender's key
	// unheard has, by the same, those with an attempt of this epoch that had no
	// answer, and may be applied late. One of an earlier epoch may not.
	unheard map[string]bool
	// mine has the prefixes of all keys that contenders may have, for a session that cannot
	// remove them by revoking its lease. Otherwise it is nil.
	mine map[string]bool
}

// call is the calls of Join under way for one contender, mostly one.
type call struct {
	n         int
	forgotten bool
}

// enter registers a call of Join. The check of alive happens under the same mutex as the
// reading of mine by asked: Close ends the session before it asks, so a
// join either is in its list or is refused here.
func (j *joins) enter(contender string, alive func() error) (*call, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := alive(); err != nil {
		return nil, err
	}
	c := j.calls[contender]
	if c == nil {
		c = &call{}
		j.calls[contender] = c
	}
	c.n++
	j.note(contender)
	return c, nil
}

// expect says that a contender may get a key of another prefix, as that of one
// who is converted. The check of alive is there for the same reason as in
// enter.
func (j *joins) expect(prefix string, alive func() error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := alive(); err != nil {
		return err
	}
	j.note(prefix)
	return nil
}

// note is called with the mutex held.
func (j *joins) note(prefix string) {
	if j.mine != nil {
		j.mine[prefix] = true
	}
}

func (j *joins) exit(contender string, c *call) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.n--; c.n == 0 && j.calls[contender] == c {
		delete(j.calls, contender)
	}
}

// take returns the epoch to send with an attempt. A forgotten call gets none.
func (j *joins) take(c *call) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.forgotten {
		return 0, driver.Wrap(driver.ErrUnavailable, errForgotten)
	}
	return j.epoch, nil
}

// forget marks the calls of the contender that are under way. Later ones start
// anew. They count as not answered, since nobody waits for their answers.
func (j *joins) forget(contender string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c := j.calls[contender]; c != nil {
		c.forgotten = true
		delete(j.calls, contender)
		j.unheard[contender] = true
	}
}

// lost says that an attempt had no answer.
func (j *joins) lost(contender string, c *call, epoch int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if epoch == j.epoch && !c.forgotten { // who is forgotten is counted already, and may have been settled since
		j.unheard[contender] = true
	}
}

// late reports whether a join of the contender may be applied yet.
func (j *joins) late(contender string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unheard[contender] || j.calls[contender] != nil
}

// raise learns an epoch. Answers may arrive in any order, so the newest wins; an
// old one would cost each join an attempt.
func (j *joins) raise(epoch int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if epoch > j.epoch {
		j.epoch = epoch
		clear(j.unheard)
	}
}

// asked lists the prefixes below which there may be an entry.
func (j *joins) asked() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Sorted(maps.Keys(j.mine))
}

// removed says that these contenders have no entry, converted or not, and can get none.
func (j *joins) removed(contenders ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mine == nil {
		return
	}
	for _, c := range contenders {
		delete(j.mine, c)
		delete(j.mine, converted(c))
	}
}

// kinds lists the answers of etcd whose gRPC code says too little.
var kinds = map[error]error{
	rpctypes.ErrLeaseNotFound: driver.ErrSessionLost,

	// The disk quota: grants and puts are refused while deletes, revokes and
	// keep-alives still work. Waiting does not help, an operator does.
	rpctypes.ErrNoSpace: driver.ErrRefused,

	// The user's token expired or somebody changed a role. The next attempt comes
	// with a new token.
	rpctypes.ErrInvalidAuthToken: driver.ErrUnavailable,
	rpctypes.ErrAuthOldRevision:  driver.ErrUnavailable,

	// This member cannot serve now; another one can, or this one later.
	rpctypes.ErrNotLeader:  driver.ErrUnavailable,
	rpctypes.ErrNotCapable: driver.ErrUnavailable,
	rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner): driver.ErrUnavailable,
}

// wrap is the one place where errors of etcd, gRPC and contexts become the errors
// of the contract. What etcd said stays reachable for errors.As, as an rpctypes.EtcdError.
//
// An answer of the service wins over the end of the context: it says more, and it
// may be final. Everything else that comes while ctx is over is ctx's
// doing and returned as its cause.
func wrap(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	kind := kindOf(err)
	if errors.Is(kind, driver.ErrUnavailable) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return driver.Wrap(kind, answer(err))
}

// kindOf never says that something was not applied: that is for ErrRefused alone,
// and only because the server checks before it proposes.
func kindOf(err error) error {
	known := answer(err)
	if kind, ok := kinds[known]; ok {
		return kind
	}
	switch codeOf(known) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.NotFound,
		codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return driver.ErrRefused
	default:
		// Unavailable, DeadlineExceeded, ResourceExhausted (too many requests), Canceled,
		// Internal, Unknown, and what never left this process: a client
		// that its owner closed, say. All may have been applied, all may pass.
		return driver.ErrUnavailable
	}
}

// answer finds etcd's own error in err. A refused watch reports the text of a
// gRPC error inside a string, "rpc error: code = ... desc = etcdserver: ...", which
// the client's own conversion does not recognize.
func answer(err error) error {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e
	}
	if errors.As(rpctypes.Error(err), &e) {
		return e
	}
	if _, desc, ok := strings.Cut(err.Error(), " desc = "); ok {
		if errors.As(rpctypes.Error(errors.New(desc)), &e) {
			return e
		}
	}
	return err
}

func codeOf(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

// isAnswer says whether err is the given error of etcd.
func isAnswer(err, want error) bool { return err != nil && errors.Is(answer(err), want) }

// wire sends the two requests of an uncontended lock.
type wire interface {
	// join sends a transaction that joins a queue if that is empty.
	join(ctx context.Context, queue driver.Queue, txn clientv3.Op) (*clientv3.TxnResponse, error)
	delete(ctx context.Context, key string) (*clientv3.DeleteResponse, error)
}

// direct sends each request by itself.
type direct struct{ c *clientv3.Client }

func (d direct) join(ctx context.Context, _ driver.Queue, txn clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := d.c.Do(ctx, txn)
	return resp.Txn(), err
}

func (d direct) delete(ctx context.Context, key string) (*clientv3.DeleteResponse, error) {
	return d.c.Delete(ctx, key)
}

// batcher sends the small requests of a client: joins of queues that are thought
// empty, and deletes. Two may be under way. The ones that come meanwhile wait,
// and go together in one transaction as soon as one of the two is answered. With
// 64 goroutines that doubles the throughput, since a request costs nearly the
// same however much is in it.
//
// A batch is as safe as its requests. Each join is a transaction within the
// transaction, with its own conditions and its own outcome. etcd compares
// before it writes, for all of them, so two joins of one queue would both find
// it empty: only one join of a queue waits, and another one is sent by itself.
// All entries of a batch have the same revision, and thus the same token, each
// in a queue of its own. If the reply is lost, each contender that joined sends
// its own request again. Joins and deletes do not go together: an etcd out of
// space refuses every transaction with a put.
type batcher struct {
	direct
	patience time.Duration // longestWait

	mu          sync.Mutex
	underWay    int // how many requests are under way
	joins       []*batched
	queues      map[driver.Queue]struct{} // of joins
	deletes     []*batched
	deletesNext bool
	armed       bool // waitedLong will be called
}

const (
	mostUnderWay = 2

	// mostInBatch bounds a batch. A member refuses transactions of more than
	// 128 parts, unless it was told otherwise.
	mostInBatch = 32

	// longestWait is how long a request waits at most: one member may be silent
	// where others are not.
	longestWait = 50 * time.Millisecond
)

// batched is a request that waits to become part of a batch.
type batched struct {
	queue driver.Queue // of a join
	op    clientv3.Op
	batch *batch        // nil before it is sent; guarded by the lock of batcher
	done  chan struct{} // closed when what follows is there

	// alone says that its caller sends it by itself: no other request waited, or
	// the batch was refused, maybe because of another request, and nothing of it
	// was applied.
	alone  bool
	header *pb.ResponseHeader
	resp   *pb.ResponseOp
	err    error
}

func (p *batched) isJoin() bool { return p.op.IsTxn() }

// batch is one transaction of several requests. It is cancelled when the last
// caller has given up.
type batch struct {
	requests []*batched
	left     int                // of them, those that have not given up; guarded by the lock of batcher
	cancel   context.CancelFunc // nil if it is single
}

// isSingle reports whether there is one request, which its caller sends.
func (t *batch) isSingle() bool { return t.cancel == nil }

func newBatcher(d direct) *batcher {
	return &batcher{direct: d, patience: longestWait, queues: make(map[driver.Queue]struct{})}
}

func (c *batcher) join(ctx context.Context, queue driver.Queue, txn clientv3.Op) (resp *clientv3.TxnResponse, err error) {
	if c.admit(ctx) {
		defer c.answered()
		return c.direct.join(ctx, queue, txn)
	}
	p := &batched{queue: queue, op: txn}
	err = c.send(ctx, p, func() (err error) {
		resp, err = c.direct.join(ctx, queue, txn)
		return err
	})
	if err == nil && resp == nil {
		own := p.resp.GetResponseTxn()
		resp = (*clientv3.TxnResponse)(&pb.TxnResponse{Header: p.header, Succeeded: own.Succeeded, Responses: own.Responses})
	}
	return resp, err
}

func (c *batcher) delete(ctx context.Context, key string) (resp *clientv3.DeleteResponse, err error) {
	if c.admit(ctx) {
		defer c.answered()
		return c.direct.delete(ctx, key)
	}
	p := &batched{op: clientv3.OpDelete(key)}
	err = c.send(ctx, p, func() (err error) {
		resp, err = c.direct.delete(ctx, key)
		return err
	})
	if err == nil && resp == nil {
		resp = (*clientv3.DeleteResponse)(&pb.DeleteRangeResponse{Header: p.header, Deleted: p.resp.GetResponseDeleteRange().Deleted})
	}
	return resp, err
}

// admit lets a request go that need not wait, of which answered must be told
// afterwards. One that has metadata to send goes alone: they are the caller's.
func (c *batcher) admit(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	goes := c.underWay < mostUnderWay // then nobody waits
	if !goes {
		_, goes = metadata.FromOutgoingContext(ctx)
	}
	if goes {
		c.underWay++
	}
	return goes
}

// send lets p wait for its batch. Without an error p has its answer, or alone was called.
func (c *batcher) send(ctx context.Context, p *batched, alone func() error) error {
	p.done = make(chan struct{})
	if !c.wait(p) {
		return alone()
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		c.giveUp(p)
		return ctx.Err()
	}
	if !p.alone {
		return p.err
	}
	if p.batch.isSingle() {
		defer c.answered()
	}
	return alone()
}

// wait reports whether p is to wait. A join of a queue that another one waits for is not.
func (c *batcher) wait(p *batched) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.isJoin() {
		c.deletes = append(c.deletes, p)
	} else if _, waits := c.queues[p.queue]; waits {
		return false
	} else {
		c.joins, c.queues[p.queue] = append(c.joins, p), struct{}{}
	}
	if !c.armed {
		c.armed = true
		time.AfterFunc(c.patience, c.waitedLong)
	}
	c.sendMore()
	return true
}

// waitedLong sends all requests that wait.
func (c *batcher) waitedLong() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	for c.waiting() > 0 {
		c.sendOldest()
	}
}

func (c *batcher) waiting() int { return len(c.joins) + len(c.deletes) }

// giveUp is for who does not wait any more. If it is in a batch, that may do
// its request or not, as with every one whose answer is lost.
func (c *batcher) giveUp(p *batched) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := p.batch
	if t == nil {
		is := func(q *batched) bool { return q == p }
		if p.isJoin() {
			c.joins = slices.DeleteFunc(c.joins, is)
			delete(c.queues, p.queue)
		} else {
			c.deletes = slices.DeleteFunc(c.deletes, is)
		}
		return
	}
	if t.left--; t.left > 0 {
		return
	}
	if !t.isSingle() {
		t.cancel()
		return
	}
	c.underWay--
	c.sendMore()
}

// answered is called when a request was answered, or has failed.
func (c *batcher) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay--
	c.sendMore()
}

// sendMore sends batches while fewer than mostUnderWay are under way. The caller
// holds c.mu.
func (c *batcher) sendMore() {
	for c.underWay < mostUnderWay && c.waiting() > 0 {
		c.sendOldest()
	}
}

// sendOldest sends a batch of the joins, or of the deletes, that have waited
// longest. The caller holds c.mu, and has seen that a request waits.
func (c *batcher) sendOldest() {
	from := &c.joins
	if len(c.joins) == 0 || c.deletesNext && len(c.deletes) > 0 {
		from = &c.deletes
	}
	n := min(len(*from), mostInBatch)
	t := &batch{requests: (*from)[:n:n], left: n}
	*from = (*from)[n:]
	for _, p := range t.requests {
		p.batch = t
		if p.isJoin() {
			delete(c.queues, p.queue)
		}
	}
	c.deletesNext = from == &c.joins
	c.underWay++
	if n == 1 {
		p := t.requests[0]
		p.alone = true
		close(p.done)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	go c.sendBatch(ctx, t)
}

// sendBatch sends a batch, and hands its outcome to the callers.
func (c *batcher) sendBatch(ctx context.Context, t *batch) {
	defer c.answered()
	defer t.cancel()
	var ops []clientv3.Op
	for _, p := range t.requests {
		ops = append(ops, p.op)
	}
	resp, err := c.c.Txn(ctx).Then(ops...).Commit()
	refused := err != nil && errors.Is(kindOf(err), driver.ErrRefused) && !isAnswer(err, rpctypes.ErrNoSpace) // see madeWithoutSpace
	for i, p := range t.requests {
		if p.err, p.alone = err, refused; err == nil {
			p.header, p.resp = resp.Header, resp.Responses[i]
		}
		close(p.done)
	}
}
