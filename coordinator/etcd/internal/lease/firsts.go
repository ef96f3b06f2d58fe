package lease

import (
	"context"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
)

// firsts remembers of queues the first entry, and whether the session's last
// contender with Alone was refused.
//
// The first entry of a queue is the first for as long as it exists: no entry
// gets ahead of it. So one key tells who is first, whatever the length of the
// queue. Else a member sorts the whole queue.
//
// The transaction that joins an empty queue compares all its keys, and every
// member does that while it applies the transaction: with thousands of entries
// all clients wait for it. So where the last contender was refused, the next
// one reads before, which no member applies, and sends the transaction only if
// it finds the queue empty. A refusal is one request either way.
type firsts struct {
	mu    sync.Mutex
	known map[driver.Queue]first
}

type first struct {
	keys.Entry      // zero if it is not known
	refused    bool // the last contender with Alone
}

const mostFirsts = 1024 // queues; forgetting one costs the service time

func (f *firsts) of(queue driver.Queue) first {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[queue]
}

func (f *firsts) note(queue driver.Queue, change func(*first)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.known[queue]
	change(&now)
	switch {
	case now == first{}:
		delete(f.known, queue)
		return
	case f.known == nil || len(f.known) >= mostFirsts:
		f.known = make(map[driver.Queue]first)
	}
	f.known[queue] = now
}

// Tried notes whether a contender with Alone was refused.
func (s *Session) Tried(queue driver.Queue, refused bool) {
	s.firsts.note(queue, func(f *first) { f.refused = refused })
}

// Look reads, before a contender with Alone joins, the first entry or, with
// some, the first keys of the queue. It reads nothing unless the last such
// contender was refused.
func (s *Session) Look(
	ctx context.Context, queue driver.Queue, some clientv3.Op,
) ([]*mvccpb.KeyValue, error) {
	f := s.firsts.of(queue)
	if !f.refused {
		return nil, nil
	}
	var resp *clientv3.TxnResponse
	var err error
	if f.Key == "" {
		resp, err = s.ask(ctx, nil, []clientv3.Op{s.ReadSentinel(), some}, nil)
	} else {
		first := clientv3.OpGet(f.Key)
		if some.IsKeysOnly() { // else the caller needs its lease
			clientv3.WithKeysOnly()(&first)
		}
		resp, err = s.ask(ctx, []clientv3.Cmp{f.Exists()},
			[]clientv3.Op{s.ReadSentinel(), first}, []clientv3.Op{s.ReadSentinel(), some})
	}
	if err != nil {
		return nil, s.Failed(ctx, err)
	}
	if _, err := s.JudgeSentinel(resp.Responses[0].GetResponseRange().Kvs); err != nil {
		return nil, err // J5
	}
	return resp.Responses[1].GetResponseRange().Kvs, nil
}

// getFirst returns a Get that reads the first entry alone, if it is known and
// exists, instead of what it is asked for.
func (s *Session) getFirst(queue driver.Queue) getter {
	f := s.firsts.of(queue)
	if f.Key == "" {
		return s.Get
	}
	return func(ctx context.Context, ops ...clientv3.Op) (Reading, error) {
		return reading(s.ask(ctx, []clientv3.Cmp{f.Exists()}, []clientv3.Op{clientv3.OpGet(f.Key)}, ops))
	}
}

// noteFirst notes the first entry of a queue that was read.
func (s *Session) noteFirst(queue driver.Queue, heads []driver.Head) {
	s.firsts.note(queue, func(f *first) {
		f.Entry = keys.Entry{}
		if len(heads) > 0 {
			f.Entry, _ = s.layout.Entry(queue, heads[0].Place)
		}
	})
}
