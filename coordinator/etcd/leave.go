package etcd

import (
	"context"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// mine is an entry of a contender of this session.
type mine struct {
	entry
	name
	contender string // the prefix of the key with which it joined
}

// own finds out which entry of this session a place names. That of another session or line is never
// asked for: to the caller it is gone (L2).
func (s *session) own(line driver.Line, p driver.Place) (mine, error) {
	e, ok := s.keys.entry(line, p)
	if !ok {
		return mine{}, driver.ErrGone
	}
	n, ok := s.keys.name(line, e)
	if !ok || n.lease != s.ID() {
		return mine{}, driver.ErrGone
	}
	if n.rank > 0 {
		return mine{e, n, s.keys.contender(line, n.id, s.lease, "")}, nil
	}
	return mine{e, n, strings.TrimSuffix(e.key, n.mode)}, nil
}

// stands compares the entry with the one that is there: the same key in the same life.
func (e entry) stands() clientv3.Cmp { return compares([]cond{e.standing()})[0] }

func (e entry) standing() cond { return cond{key: e.key, made: e.rev} }

// removed drops what the session remembers of a contender that has no entry and cannot get one.
func (s *session) removed(contender string) {
	if s.borrowed { // others do not remember it
		s.joins.removed(contender, converted(contender))
	}
	s.writes.drop(contender)
	s.hand.drop(contender)
}

// Leave deletes the entry if it is the one that own names.
func (s *session) Leave(ctx context.Context, line driver.Line, own driver.Place) error {
	return s.leave(ctx, line, own, false)
}

// Forget deletes whatever entry the contender has and raises the epoch in the same
// transaction, so that a join of it that is still on its way finds an epoch that has
// passed, whenever it arrives (F1). Joins of others that were on their way
// fail likewise and are sent again by Join itself (F2). A conversion on its way finds that the
// entry is gone (M4).
//
// A reply that is lost does no harm: the next join finds the new epoch in its own answer.
//
// Without the sentinel no join can be applied either, and the deletion finds an entry only
// if the sentinel was deleted by hand.
//
// An etcd that is out of space refuses the epoch, being a put. The entry alone can
// still be deleted, so that it blocks nobody. That is a promise for later, too, if all joins
// of the contender were answered, or sent with an epoch that has passed. If not, the caller is told to try again.
func (s *session) Forget(ctx context.Context, line driver.Line, id string) error {
	if err := s.alive(); err != nil {
		return err
	}
	if !isID(id) {
		return invalid("contender ID %q", id)
	}
	contender := s.keys.contender(line, id, s.lease, "")
	s.joins.forget(contender)
	drop := []clientv3.Op{
		clientv3.OpDelete(contender, clientv3.WithPrefix()),
		clientv3.OpDelete(converted(contender), clientv3.WithPrefix()),
	}
	if s.borrowed { // else a tail that still names it goes with the lease, or with whoever comes next
		drop = append(drop, s.dropTail(s.keys.tail(line)))
	}
	resp, err := s.c.Txn(s.lead(ctx)).Then(append(drop, s.raiseEpoch())...).Commit()
	if isAnswer(err, rpctypes.ErrNoSpace) {
		dropped, err := s.c.Txn(s.lead(ctx)).Then(drop...).Commit()
		if err != nil {
			return s.failed(ctx, err)
		}
		s.finished(line, dropped.Header.Revision)
		if s.joins.late(contender) {
			return driver.Wrap(driver.ErrUnavailable, err)
		}
		s.removed(contender)
		return nil
	}
	if err != nil {
		return s.failed(ctx, err)
	}
	s.removed(contender)
	s.finished(line, resp.Header.Revision)
	if !resp.Responses[len(drop)].GetResponseTxn().Succeeded {
		s.end()
		return driver.ErrSessionLost
	}
	s.joins.raise(resp.Header.Revision)
	return nil
}
