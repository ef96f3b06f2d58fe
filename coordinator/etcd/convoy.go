package etcd

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
)

// convoys send by the connection of a client that the driver made. While as many as mostAbreast of a session's small requests are under
// way, which are joins of lines that are thought empty and deletes, those that come meanwhile wait, and go together in one transaction as soon
// as one ahead of them has its answer: most of what a small request costs, here and there, it costs however much is in it.
//
// Nobody is less safe in a convoy. Each join is a transaction within the transaction, with its own conditions and its own outcome.
// etcd compares before it writes, for all of them, so two joins of one line would both find it empty: only one of a line waits, and others, which
// will find somebody there, do not. All entries of a convoy have the same revision, and thus the same token, each in a line of its own. If the
// reply is lost, each of those that joined sends its own request again. Joins and deletes do not go together: out of space, etcd refuses
// what has a put.
type convoys struct {
	direct
	patience time.Duration // overdue

	mu      sync.Mutex
	abreast int // how many requests are under way
	joins   []*passenger
	lines   map[driver.Line]struct{} // of joins
	deletes []*passenger
	turn    bool // the deletes' is next
	armed   bool // rang will be called
}

const (
	mostAbreast = 2

	// mostTogether bounds a convoy. A member refuses transactions of more than 128 parts, unless it was told otherwise.
	mostTogether = 32

	// overdue is how long somebody waits at most, whatever becomes of those ahead: one member may be silent where others are not.
	overdue = 50 * time.Millisecond
)

// passenger is a request that can be part of a convoy, and waits.
type passenger struct {
	line driver.Line // of a join
	op   clientv3.Op
	trip *trip         // nil before it departs; guarded by the lock of convoys
	done chan struct{} // closed when what follows is there

	// alone says that it is to be sent by itself: nobody else waited, or the convoy was refused, maybe for the sake of another, and none of
	// it was done.
	alone  bool
	header *pb.ResponseHeader
	resp   *pb.ResponseOp
	err    error
}

func (p *passenger) isJoin() bool { return p.op.IsTxn() }

// trip is one request for some passengers. A convoy is given up when the last of them has given up.
type trip struct {
	aboard []*passenger
	left   int                // of them, those that have not given up; guarded by the lock of convoys
	cancel context.CancelFunc // nil if it is lone
}

// isLone says that there is one passenger, who sends its request itself.
func (t *trip) isLone() bool { return t.cancel == nil }

func newConvoys(d direct) *convoys {
	return &convoys{direct: d, patience: overdue, lines: make(map[driver.Line]struct{})}
}

func (c *convoys) join(ctx context.Context, line driver.Line, txn clientv3.Op) (resp *clientv3.TxnResponse, err error) {
	if c.admit(ctx) {
		defer c.arrived()
		return c.direct.join(ctx, line, txn)
	}
	p := &passenger{line: line, op: txn}
	err = c.send(ctx, p, func() (err error) {
		resp, err = c.direct.join(ctx, line, txn)
		return err
	})
	if err == nil && resp == nil {
		own := p.resp.GetResponseTxn()
		resp = (*clientv3.TxnResponse)(&pb.TxnResponse{Header: p.header, Succeeded: own.Succeeded, Responses: own.Responses})
	}
	return resp, err
}

func (c *convoys) delete(ctx context.Context, key string) (resp *clientv3.DeleteResponse, err error) {
	if c.admit(ctx) {
		defer c.arrived()
		return c.direct.delete(ctx, key)
	}
	p := &passenger{op: clientv3.OpDelete(key)}
	err = c.send(ctx, p, func() (err error) {
		resp, err = c.direct.delete(ctx, key)
		return err
	})
	if err == nil && resp == nil {
		resp = (*clientv3.DeleteResponse)(&pb.DeleteRangeResponse{Header: p.header, Deleted: p.resp.GetResponseDeleteRange().Deleted})
	}
	return resp, err
}

// admit lets a request go that need not wait, of which arrived must be told afterwards. One that has metadata to send goes alone: they are
// the caller's.
func (c *convoys) admit(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	goes := c.abreast < mostAbreast // then nobody waits
	if !goes {
		_, goes = metadata.FromOutgoingContext(ctx)
	}
	if goes {
		c.abreast++
	}
	return goes
}

// send lets p wait for its trip. Without an error p has its answer, or alone was called.
func (c *convoys) send(ctx context.Context, p *passenger, alone func() error) error {
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
	if p.trip.isLone() {
		defer c.arrived()
	}
	return alone()
}

// wait reports whether p is to wait. A join of a line that another one waits for is not.
func (c *convoys) wait(p *passenger) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.isJoin() {
		c.deletes = append(c.deletes, p)
	} else if _, waits := c.lines[p.line]; waits {
		return false
	} else {
		c.joins, c.lines[p.line] = append(c.joins, p), struct{}{}
	}
	if !c.armed {
		c.armed = true
		time.AfterFunc(c.patience, c.rang)
	}
	c.move()
	return true
}

// rang lets everybody go.
func (c *convoys) rang() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	for c.waiting() > 0 {
		c.depart()
	}
}

func (c *convoys) waiting() int { return len(c.joins) + len(c.deletes) }

// giveUp is for who does not wait any more. If it is in a convoy, that may do its request or not, as with every one whose answer is lost.
func (c *convoys) giveUp(p *passenger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := p.trip
	if t == nil {
		is := func(q *passenger) bool { return q == p }
		if p.isJoin() {
			c.joins = slices.DeleteFunc(c.joins, is)
			delete(c.lines, p.line)
		} else {
			c.deletes = slices.DeleteFunc(c.deletes, is)
		}
		return
	}
	if t.left--; t.left > 0 {
		return
	}
	if !t.isLone() {
		t.cancel()
		return
	}
	c.abreast--
	c.move()
}

// arrived is called when a request was answered, or has failed.
func (c *convoys) arrived() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abreast--
	c.move()
}

// move lets go as many as may. Who calls it holds c.mu.
func (c *convoys) move() {
	for c.abreast < mostAbreast && c.waiting() > 0 {
		c.depart()
	}
}

// depart sends those of one kind who have waited longest. Who calls it holds c.mu, and has seen that somebody waits.
func (c *convoys) depart() {
	from := &c.joins
	if len(c.joins) == 0 || c.turn && len(c.deletes) > 0 {
		from = &c.deletes
	}
	n := min(len(*from), mostTogether)
	t := &trip{aboard: (*from)[:n:n], left: n}
	*from = (*from)[n:]
	for _, p := range t.aboard {
		p.trip = t
		if p.isJoin() {
			delete(c.lines, p.line)
		}
	}
	c.turn = from == &c.joins
	c.abreast++
	if n == 1 {
		p := t.aboard[0]
		p.alone = true
		close(p.done)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	go c.carry(ctx, t)
}

// carry sends a convoy, and tells those aboard what came of it.
func (c *convoys) carry(ctx context.Context, t *trip) {
	defer c.arrived()
	defer t.cancel()
	var ops []clientv3.Op
	for _, p := range t.aboard {
		ops = append(ops, p.op)
	}
	resp, err := c.c.Txn(ctx).Then(ops...).Commit()
	refused := err != nil && errors.Is(kindOf(err), driver.ErrRefused) && !isAnswer(err, rpctypes.ErrNoSpace) // see madeWithoutSpace
	for i, p := range t.aboard {
		if p.err, p.alone = err, refused; err == nil {
			p.header, p.resp = resp.Header, resp.Responses[i]
		}
		close(p.done)
	}
}
