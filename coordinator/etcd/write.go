package etcd

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// Write puts the value into the entry's key, which keeps its create revision and thus its place; watches for a
// leaving do not show puts.
//
// It compares the mod revision that the entry had when this session last heard of it. A request that
// is late thus finds another one once a later Write has succeeded (P1), and none once the contender
// has left (P2). When an earlier request was applied without our hearing of it, this one is refused and sent again
// with what the refusal told: each refusal is the doing of one earlier call, so that ends.
func (s *session) Write(ctx context.Context, line driver.Line, own driver.Place, value []byte) error {
	if err := s.alive(); err != nil {
		return err
	}
	e, err := s.own(line, own)
	if err != nil {
		return err
	}
	return s.write(ctx, e, value, clientv3.WithLease(s.lease))
}

func (s *session) write(ctx context.Context, e mine, value []byte, lease clientv3.OpOption) error {
	for {
		resp, err := s.c.Txn(s.lead(ctx)).
			If(e.stands(), clientv3.Compare(clientv3.ModRevision(e.key), "=", s.writes.revision(e))).
			Then(clientv3.OpPut(e.key, string(value), lease)).
			Else(clientv3.OpGet(e.key, clientv3.WithKeysOnly())).
			Commit()
		if err != nil {
			return s.failed(ctx, err)
		}
		if resp.Succeeded {
			s.writes.set(e, resp.Header.Revision)
			return nil
		}
		kvs := resp.Responses[0].GetResponseRange().Kvs
		if !e.in(kvs) {
			s.writes.drop(e.contender)
			return driver.ErrGone
		}
		s.writes.set(e, kvs[0].ModRevision)
	}
}

// writes remembers the mod revisions of entries that were written, by contender. It saves requests; what it
// lacks, the refusal of a Write tells.
type writes struct {
	mu   sync.Mutex
	last map[string]written
}

// written is what a contender's entry was when this session last heard of it.
type written struct {
	entry
	mod int64
}

// revision is the newest mod revision of an entry that is known: that of its making if nobody wrote it.
func (w *writes) revision(e mine) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.last[e.contender]; ok && last.entry == e.entry {
		return last.mod
	}
	return e.rev
}

func (w *writes) set(e mine, mod int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[e.contender] = written{e.entry, mod}
}

// drop forgets an entry that went, so that what is remembered does not grow.
func (w *writes) drop(contender string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, contender)
}
