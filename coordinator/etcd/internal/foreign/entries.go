package foreign

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
	"github.com/baton-go/baton/coordinator/etcd/internal/watch"
)

// List reads by quorum, which makes it as new as anything that finished before (S1).
func (s *session) List(
	ctx context.Context, queue driver.Queue, limit int,
) ([]driver.Entry, error) {
	if err := s.Alive(); err != nil {
		return nil, err
	}
	if limit < 0 {
		return nil, answer.Invalid("limit %d", limit)
	}
	r, err := s.Get(ctx, s.first(queue, limit))
	if err != nil {
		return nil, s.Failed(ctx, err)
	}
	return keys.Entries(s.inOrder(queue, r.Kvs), limit), nil
}

// first reads the first limit keys of a queue, all if limit is 0.
func (s *session) first(queue driver.Queue, limit int) clientv3.Op {
	return clientv3.OpGet(s.queue(queue), clientv3.WithPrefix(), clientv3.WithLimit(int64(limit)),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

// Head reads the first key by quorum (H1). If it is the known one it waits for a
// change of that key alone (H2), and reads again. An empty queue is watched whole,
// for puts: the next contender is the head.
func (s *session) Head(
	ctx context.Context, queue driver.Queue, known driver.Version,
) (driver.Head, error) {
	if err := s.Alive(); err != nil {
		return driver.Head{}, err
	}
	r, err := s.Get(ctx, s.first(queue, 1))
	if err != nil {
		return driver.Head{}, s.Failed(ctx, err)
	}
	head := s.head(queue, r)
	if head.Version != known { // always so if known is Any
		return head, nil
	}
	first, ok := s.entry(queue, head.Key)
	key, opts := first.Key, []clientv3.OpOption(nil)
	if !ok {
		key = s.queue(queue)
		opts = []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithFilterDelete()}
	}
	tell := func(ctx context.Context, resp clientv3.WatchResponse) (bool, error) {
		shown := watch.Newest(resp)
		if shown <= r.Rev {
			return false, nil
		}
		newer, err := s.Read(ctx, shown, s.first(queue, 1))
		if err != nil {
			return false, err
		}
		r, head = newer, s.head(queue, newer)
		return head.Version != known, nil
	}
	if err := s.Await(ctx, key, opts, tell); err != nil {
		return driver.Head{}, err
	}
	return head, nil
}

func (s *session) head(queue driver.Queue, r lease.Reading) driver.Head {
	if len(r.Kvs) == 0 {
		return driver.Head{}
	}
	return s.inOrder(queue, r.Kvs)[0]
}

// Write reads the key's mod revision, and puts the value if it has not changed. A
// late request thus finds another one once a later Write has succeeded (P1), and
// none once the contender has left (P2).
func (s *session) Write(
	ctx context.Context, queue driver.Queue, own driver.Place, value []byte,
) error {
	if err := s.Alive(); err != nil {
		return err
	}
	e, err := s.own(queue, own)
	if err != nil {
		return err
	}
	for mod := e.Rev; ; {
		resp, err := s.Txn(ctx).
			If(e.Stands(), keys.Unchanged(e.Key, mod)).
			Then(clientv3.OpPut(e.Key, string(value), clientv3.WithIgnoreLease())).
			Else(clientv3.OpGet(e.Key, clientv3.WithKeysOnly())).
			Commit()
		if err != nil {
			return s.Failed(ctx, err)
		}
		if resp.Succeeded {
			return nil
		}
		kvs := resp.Responses[0].GetResponseRange().Kvs
		if !e.In(kvs) {
			return driver.ErrGone
		}
		mod = kvs[0].ModRevision
	}
}

// named is the entry of the queue that a key and a token name, if they can be those
// of one.
func (s *session) named(queue driver.Queue, key string, token driver.Token) (keys.Entry, error) {
	if err := s.Alive(); err != nil {
		return keys.Entry{}, err
	}
	e, ok := s.entry(queue, key)
	if !ok || driver.Token(e.Rev) != token {
		return keys.Entry{}, driver.ErrGone
	}
	return e, nil
}

// Check reads one key.
func (s *session) Check(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	e, err := s.named(queue, key, token)
	if err != nil {
		return err
	}
	return s.Session.Check(ctx, e)
}

// Remove deletes one key, if it is still in the life that the handle names.
func (s *session) Remove(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	e, err := s.named(queue, key, token)
	if err != nil {
		return err
	}
	return s.Delete(ctx, e)
}

// Queues is refused.
func (s *session) Queues(context.Context) ([]driver.Queue, error) {
	return nil, answer.Invalid("queues cannot be listed in layout %s, "+
		"whose keys do not say what is a queue: name the one that you want", Concurrency)
}
