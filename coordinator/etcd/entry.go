package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/fence"
)

// Convert makes a new key for the contender in the transaction that deletes the
// old one (M1). The old key's watches show the deletion (M2), and a view finds
// the new key in the range of converted entries, at the place that its name
// says.
//
// The transaction compares the old entry, so a late request finds it gone once
// the contender has left, was forgotten or was converted by a later call (M4).
// The same holds for a call that is repeated after the first was applied: then
// the new entry is there, with this rank and mode, and is the outcome (M3).
//
// It compares the sentinel, too. A session on an external lease deletes its
// entries in several transactions when there are many; the first deletes the
// sentinel, and between that and the last no entry may move to where the
// deletions have been.
func (s *session) Convert(
	ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte,
) (driver.Place, error) {
	old, err := s.own(queue, own.Place)
	if err != nil {
		return driver.Place{}, err
	}
	if !keys.IsMode(mode) || mode == old.Mode {
		return driver.Place{}, answer.Invalid("mode %q in place of %q", mode, old.Mode)
	}
	to := old.Name
	to.Mode, to.Rank = mode, s.keys.Rank(queue, old.Entry)
	key := s.keys.Queue(queue) + to.String()
	before := s.memory.expect(old.contender)
	e, unmade, err := s.convert(ctx, old.Entry, key, value)
	if err != nil {
		if unmade {
			s.memory.keep(old.contender, before)
		}
		return driver.Place{}, err
	}
	s.memory.got(old.contender, e)
	return s.keys.Place(queue, e), nil
}

// convert sends the transaction of Convert. After an error the new entry may be
// there, unless unmade is true.
func (s *session) convert(
	ctx context.Context, old keys.Entry, key string, value []byte,
) (e keys.Entry, unmade bool, err error) {
	made := clientv3.OpGet(key, clientv3.WithKeysOnly())
	resp, err := s.Txn(ctx).
		If(old.Stands(), s.Sentinel.Stands()).
		Then(
			clientv3.OpDelete(old.Key),
			clientv3.OpPut(key, string(value), clientv3.WithLease(s.Lease))).
		Else(s.ReadSentinel(), made).
		Commit()
	switch {
	case answer.Is(err, rpctypes.ErrNoSpace):
		e, err = s.MadeWithoutSpace(ctx, err, made)
		return e, errors.Is(err, driver.ErrRefused), err
	case err != nil:
		return e, errors.Is(answer.Kind(err), driver.ErrRefused), s.Failed(ctx, err)
	case resp.Succeeded:
		return keys.Entry{Key: key, Rev: resp.Header.Revision}, false, nil
	}
	if _, err := s.JudgeSentinel(resp.Responses[0].GetResponseRange().Kvs); err != nil {
		return e, false, err
	}
	kvs := resp.Responses[1].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return e, true, driver.ErrGone
	}
	return keys.Entry{Key: key, Rev: kvs[0].CreateRevision}, false, nil
}

// Write changes the value of the entry: see lease.Session.Put.
func (s *session) Write(
	ctx context.Context, queue driver.Queue, own driver.Place, value []byte,
) error {
	e, err := s.own(queue, own)
	if err != nil {
		return err
	}
	mod := e.Rev // of its making, if nobody wrote it
	s.memory.about(e, func(k *known) { mod = k.mod })
	if mod, err = s.Put(ctx, e.Entry, mod, value); err == nil {
		s.memory.about(e, func(k *known) { k.mod = mod })
	}
	return err
}

// Guard returns a comparison for a transaction of the caller's own on the
// cluster that gave the grant: it is true while the grant of the sequencer
// holds at the very moment at which the transaction is applied.
//
//	holds, err := etcd.Guard(seq)
//	resp, err := client.Txn(ctx).If(holds).Then(clientv3.OpPut("/orders/42", "paid")).Commit()
//	... !resp.Succeeded: the grant was over, and nothing was written
//
// So what is in Then cannot be written late, and needs no token beside it.
//
// The client must see the keys as Baton's does: one of package
// clientv3/namespace must be the one that was given to FromClient. On another
// cluster the comparison is never true, since no entry there has this name. A
// sequencer of another kind of service, or one that makes no sense, is
// driver.ErrInvalid.
func Guard(seq fence.Sequencer) (clientv3.Cmp, error) {
	if err := seq.Validate(); err != nil {
		return clientv3.Cmp{}, err
	}
	queue := driver.NewQueue(seq.Kind, seq.Name)
	l, ok := keys.OfHandle(queue, seq.Key)
	e, named := l.Named(queue, seq.Key, seq.Token)
	if !ok || !named {
		return clientv3.Cmp{}, answer.Invalid("sequencer %q is not of an etcd", seq)
	}
	return e.Stands(), nil
}
