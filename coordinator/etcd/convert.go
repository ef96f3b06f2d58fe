package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// Convert puts the contender under a new key in the transaction that deletes the old one (M1). The old key's
// watches tell of the deletion (M2), and a view finds the new key in the range of those that
// were converted, at the place that its name says.
//
// The old entry is compared, so a request that is late finds it gone once the contender has left, was
// forgotten or was converted by a later call (M4). The same holds for a call that is repeated after
// the first was applied: then the new entry stands, with this rank and mode, and is the outcome (M3).
//
// The sentinel is compared, too. A session on a borrowed lease deletes its entries in several
// transactions when there are many; the first deletes the sentinel, and between that and the last no
// entry may move to where the deletions have been.
func (s *session) Convert(
	ctx context.Context, line driver.Line, own driver.Joined, mode string, value []byte,
) (driver.Place, error) {
	if err := s.alive(); err != nil {
		return driver.Place{}, err
	}
	if !isMode(mode) {
		return driver.Place{}, invalid("mode %q", mode)
	}
	old, err := s.own(line, own.Place)
	if err != nil {
		return driver.Place{}, err
	}
	rank := s.keys.rank(line, old.entry)
	switch {
	case own.Token != driver.Token(rank):
		return driver.Place{}, invalid("place %s with token %d", own.Place.Key, own.Token)
	case mode == old.mode:
		return driver.Place{}, invalid("the entry has mode %q already", mode)
	}
	to := name{old.lease, old.id, mode, rank}
	key := s.keys.line(line) + to.String()
	if err := s.joins.expect(converted(old.contender), s.alive); err != nil {
		return driver.Place{}, err
	}
	resp, err := s.c.Txn(s.lead(ctx)).
		If(old.stands(), s.living()).
		Then(clientv3.OpDelete(old.key), clientv3.OpPut(key, string(value), clientv3.WithLease(s.lease))).
		Else(s.readSentinel(), clientv3.OpGet(key, clientv3.WithKeysOnly())).
		Commit()
	if isAnswer(err, rpctypes.ErrNoSpace) { // see madeWithoutSpace
		e, look := s.madeWithoutSpace(ctx, clientv3.OpGet(key, clientv3.WithKeysOnly()))
		if look != nil {
			return driver.Place{}, look
		}
		if e != (entry{}) {
			s.writes.drop(old.contender)
			s.finished(line, e.rev)
			return s.keys.place(line, e), nil
		}
	}
	if err != nil {
		return driver.Place{}, s.failed(ctx, err)
	}
	s.writes.drop(old.contender)
	s.finished(line, resp.Header.Revision)
	if resp.Succeeded {
		return s.keys.place(line, entry{key, resp.Header.Revision}), nil
	}
	if err := s.judgeSentinel(resp.Responses[0].GetResponseRange().Kvs); err != nil {
		return driver.Place{}, err
	}
	if kvs := resp.Responses[1].GetResponseRange().Kvs; len(kvs) > 0 {
		return s.keys.place(line, entry{key, kvs[0].CreateRevision}), nil
	}
	return driver.Place{}, driver.ErrGone
}
