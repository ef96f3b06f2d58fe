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

// Convert puts a new key for the contender in the transaction that deletes the
// old one (M1). Watches on the old key show the deletion (M2). A view finds the
// new key in the range of converted entries, at the place in its name.
//
// The transaction compares the old entry. So a late request finds it gone once
// the contender has left, was forgotten or was converted by a later call (M4).
// The same holds for a repeated call after the first was applied: then the new
// entry, with this rank and mode, is the outcome (M3).
//
// It also compares the sentinel. A session on an external lease deletes many
// entries in several transactions, the sentinel in the first. After that no
// entry may move to a range that was already deleted.
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

// convert sends the transaction of Convert. After an error the new entry may
// exist, unless unmade is true.
func (s *session) convert(
	ctx context.Context, old keys.Entry, key string, value []byte,
) (e keys.Entry, unmade bool, err error) {
	made := clientv3.OpGet(key, clientv3.WithKeysOnly())
	resp, err := s.Txn(ctx).
		If(old.Exists(), s.Sentinel.Exists()).
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

func (s *session) Write(
	ctx context.Context, queue driver.Queue, own driver.Place, value []byte,
) error {
	e, err := s.own(queue, own)
	if err != nil {
		return err
	}
	mod := e.Rev // its creation, if it was never written to
	s.memory.about(e, func(k *known) { mod = k.mod })
	if mod, err = s.Put(ctx, e.Entry, mod, value); err == nil {
		s.memory.about(e, func(k *known) { k.mod = mod })
	}
	return err
}

// Guard returns a comparison for a transaction of the caller on the cluster
// that gave the grant. It is true if the sequencer's grant holds at the moment
// when the cluster applies the transaction.
//
//	holds, err := etcd.Guard(seq)
//	resp, err := client.Txn(ctx).If(holds).Then(clientv3.OpPut("/orders/42", "paid")).Commit()
//	... !resp.Succeeded: the grant was over, and nothing was written
//
// So the operations in Then are never applied late, and need no token.
//
// A transaction that writes nothing is not applied: without an operation, or
// with serializable reads only, the member at hand answers it alone, and may be
// cut off from the others. Add [GuardRead] to it.
//
// The user of the transaction needs the right to read what is below
// "<namespace>/./", besides the rights for its own operations.
//
// The sequencer's key names the namespace. So a forged one can name an entry of
// another namespace, whose writers need no right to this one: authenticate who
// shows a sequencer, or call coordinator.Client.Check first, which asks for an
// entry of its client's namespace only.
//
// The client must see the same keys as Baton's: one of package
// clientv3/namespace must be the client passed to FromClient. On another
// cluster the comparison is never true, since no entry there has this name. An
// invalid sequencer, or one of another kind of service, is driver.ErrInvalid.
func Guard(seq fence.Sequencer) (clientv3.Cmp, error) {
	e, err := guarded(seq)
	if err != nil {
		return clientv3.Cmp{}, err
	}
	return e.Exists(), nil
}

// GuardRead returns a read for the Else, or the Then, of a transaction with
// [Guard] that writes nothing. It makes etcd ask a majority of the members
// before it compares, and fails if there is none. The errors are Guard's.
//
//	holds, err := etcd.Guard(seq)
//	ask, err := etcd.GuardRead(seq)
//	resp, err := client.Txn(ctx).If(holds).Then(clientv3.OpGet("/orders/42")).Else(ask).Commit()
func GuardRead(seq fence.Sequencer) (clientv3.Op, error) {
	e, err := guarded(seq)
	if err != nil {
		return clientv3.Op{}, err
	}
	return clientv3.OpGet(e.Key, clientv3.WithKeysOnly()), nil
}

// guarded is the entry of a sequencer.
func guarded(seq fence.Sequencer) (keys.Entry, error) {
	if err := seq.Validate(); err != nil {
		return keys.Entry{}, err
	}
	queue := driver.NewQueue(seq.Kind, seq.Name)
	l, ok := keys.OfHandle(queue, seq.Key)
	e, named := l.Named(queue, seq.Key, seq.Token)
	if !ok || !named {
		return keys.Entry{}, answer.Invalid("sequencer %q is not etcd's", seq)
	}
	return e, nil
}
