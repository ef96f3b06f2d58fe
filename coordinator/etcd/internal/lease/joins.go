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

// Joins is what a session remembers of its own joins: the epoch to send with
// the next one, and which of those under way have been forgotten meanwhile.
//
// The epoch is the sentinel's mod revision. Each join compares it, each Forget
// raises it, so a join that was sent before a Forget cannot be applied after
// it. One hole is left: a join whose compare failed may try again with the new
// epoch, and if it is the very join that was forgotten, it must not. Hence the
// order
//
//	Forget:  mark the calls of this ID; send the transaction that raises the epoch
//	Join:    take the epoch unless the call is marked, in one critical section; send
//
// A call that is not marked yet took an epoch from before the Forget, which the
// Forget's transaction makes worthless, for the epoch it writes is newer than
// any that was ever known.
//
// Refusing to try again at all would need no bookkeeping, but then one
// contender that gives up makes all other joins of its session fail.
type Joins struct {
	mu    sync.Mutex
	epoch int64
	calls map[string]*Call // by the contender's key or the prefix of it
	// unanswered has, by the same, those with an attempt of this epoch that had no
	// answer, and may be applied late. An attempt of an earlier epoch may not.
	unanswered map[string]bool
}

// Call is the calls of Join under way for one contender, mostly one.
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

// Exit ends what Enter began.
func (j *Joins) Exit(contender string, c *Call) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.n--; c.n == 0 && j.calls[contender] == c {
		delete(j.calls, contender)
	}
}

// Take returns the epoch to send with an attempt. A forgotten call gets none.
func (j *Joins) Take(c *Call) (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.forgotten {
		return 0, driver.Wrap(driver.ErrUnavailable, errForgotten)
	}
	return j.epoch, nil
}

// Lost says that an attempt had no answer.
func (j *Joins) Lost(contender string, c *Call, epoch int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// A forgotten call is counted already, and may have been settled since.
	if epoch == j.epoch && !c.forgotten {
		j.unanswered[contender] = true
	}
}

// Raise learns an epoch. Answers may arrive in any order, so the newest wins;
// an old one would cost each join an attempt.
func (j *Joins) Raise(epoch int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if epoch > j.epoch {
		j.epoch = epoch
		clear(j.unanswered)
	}
}

// forget marks the calls of the contender that are under way. Later ones start
// anew. They count as not answered, since no caller waits for their answers.
func (j *Joins) forget(contender string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c := j.calls[contender]; c != nil {
		c.forgotten = true
		delete(j.calls, contender)
		j.unanswered[contender] = true
	}
}

// late reports whether a join of the contender may be applied yet.
func (j *Joins) late(contender string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unanswered[contender] || j.calls[contender] != nil
}

// Forget applies drop, which deletes the contender's entries, and raises the
// epoch in the same transaction, so that a join of it that is still on its way
// compares an old epoch, whenever it arrives (F1). Joins of other contenders
// that were on their way fail likewise, and Join sends them again (F2). A
// conversion on its way finds that the entry is gone (M4).
//
// A reply that is lost does no harm: the next join reads the new epoch in its
// own answer.
//
// Without the sentinel no join can be applied either, and the deletion finds an
// entry only if the sentinel was deleted by hand.
//
// An etcd that is out of space refuses the epoch, which is a put. The entries
// alone can still be deleted, so that they block no other contender. That is
// enough for later, too, if all joins of the contender were answered, or sent
// with an old epoch. If not, the caller has to try again.
func (s *Session) Forget(ctx context.Context, contender string, drop ...clientv3.Op) error {
	s.Joins.forget(contender)
	resp, err := s.Txn(ctx).Then(append(drop, s.RaiseEpoch())...).Commit()
	switch {
	case answer.Is(err, rpctypes.ErrNoSpace):
		if _, err := s.Txn(ctx).Then(drop...).Commit(); err != nil {
			return s.Failed(ctx, err)
		}
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
	s.Joins.Raise(resp.Header.Revision)
	return nil
}
