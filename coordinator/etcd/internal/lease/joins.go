package lease

import (
	"context"
	"errors"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

var errForgotten = errors.New("etcd: the contender was forgotten while it joined")

// Joins is what a session remembers of its own joins: the epoch of the next
// one, and which running joins have been forgotten.
//
// The epoch is the sentinel's mod revision. Each join compares it, and each
// Forget raises it, so a join sent before a Forget cannot be applied after it.
// One hole is left: a join whose compare failed may retry with the new epoch,
// but the forgotten join itself must not. Hence the order
//
//	Forget:  mark the calls of this ID; send the transaction that raises the epoch
//	Join:    take the epoch unless the call is marked, in one critical section; send
//
// A call not marked yet took an epoch from before the Forget. The Forget's
// transaction makes it worthless: it writes a newer epoch than any known.
//
// Never retrying would need no bookkeeping, but then one contender that gives
// up makes all other joins of its session fail.
type Joins struct {
	mu    sync.Mutex
	epoch int64
	calls map[string]*Call // by the contender's key or its prefix
	// unanswered has, by the same keys, the contenders with an unanswered
	// attempt of this epoch, which may be applied late. One of an earlier epoch
	// may not.
	unanswered map[string]bool
}

// Call is the running calls of Join for one contender, mostly one.
type Call struct {
	n         int
	forgotten bool
}

func newJoins(epoch int64) Joins {
	return Joins{epoch: epoch, calls: make(map[string]*Call), unanswered: make(map[string]bool)}
}

// Enter registers a call of Join. Exit ends it.
func (j *Joins) Enter(contender string) *Call {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.calls[contender]
	if c == nil {
		c = &Call{}
		j.calls[contender] = c
	}
	c.n++
	return c
}

// Exit ends a call of Join.
func (j *Joins) Exit(contender string, c *Call) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.n--; c.n == 0 && j.calls[contender] == c {
		delete(j.calls, contender)
	}
}

// Take returns the epoch of an attempt. A forgotten call gets none.
func (j *Joins) Take(c *Call) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.forgotten {
		return 0, driver.Wrap(driver.ErrUnavailable, errForgotten)
	}
	return j.epoch, nil
}

// Lost notes that an attempt got no reply.
func (j *Joins) Lost(contender string, c *Call, epoch int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// A forgotten call is counted already, and may have been settled since.
	if epoch == j.epoch && !c.forgotten {
		j.unanswered[contender] = true
	}
}

// Raise notes an epoch. Replies may arrive in any order, so the newest wins; an
// old one would cost each join an attempt.
func (j *Joins) Raise(epoch int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if epoch > j.epoch {
		j.epoch = epoch
		clear(j.unanswered)
	}
}

// forget marks the contender's running calls. Later ones start anew. The marked
// ones count as unanswered, since no caller waits for their replies.
func (j *Joins) forget(contender string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c := j.calls[contender]; c != nil {
		c.forgotten = true
		delete(j.calls, contender)
		j.unanswered[contender] = true
	}
}

// late reports whether a join of the contender may still be applied.
func (j *Joins) late(contender string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unanswered[contender] || j.calls[contender] != nil
}

// Forget applies drop, which deletes the contender's entries, and raises the
// epoch in the same transaction. So a late join of the contender compares an
// old epoch (F1). Late joins of other contenders fail too, and Join sends them
// again (F2). A late conversion finds the entry gone (M4).
//
// A lost reply does no harm: the next join reads the new epoch.
//
// Without the sentinel no join can be applied either, and drop finds an entry
// only if the sentinel was deleted by hand.
//
// An etcd that is out of space refuses the epoch, which is a put. It still
// deletes the entries, so that they block no other contender. That is also
// final if all joins of the contender were answered, or sent with an old epoch.
// Else the caller has to retry.
func (s *Session) Forget(ctx context.Context, contender string, drop ...clientv3.Op) error {
	s.Joins.forget(contender)
	resp, err := s.Txn(ctx).Then(append(drop, s.RaiseEpoch())...).Commit()
	switch {
	case answer.Is(err, rpctypes.ErrNoSpace):
		dropped, failed := s.Txn(ctx).Then(drop...).Commit()
		if failed != nil {
			return s.Failed(ctx, failed)
		}
		s.NoteRemoved(dropped.Header.Revision)
		if s.Joins.late(contender) {
			return driver.Wrap(driver.ErrUnavailable, answer.Of(err))
		}
		return nil
	case err != nil:
		return s.Failed(ctx, err)
	case !resp.Responses[len(drop)].GetResponseTxn().Succeeded:
		s.End()
		return driver.ErrSessionLost
	}
	s.NoteRemoved(resp.Header.Revision)
	s.Joins.Raise(resp.Header.Revision)
	return nil
}
