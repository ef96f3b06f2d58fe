package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// Follow watches the entry ahead and its mark. The watch is from now. When it exists, one
// read tells whether the entry is there, or has left its mark; events tell the rest.
func (s *session) Follow(ctx context.Context, line driver.Line, own, ahead driver.Place) (passed bool, err error) {
	if err := s.alive(); err != nil {
		return false, err
	}
	e, ok := s.keys.entry(line, ahead)
	if !ok {
		return false, invalid("%q is no place of line %q", ahead.Key, line)
	}
	me, err := s.own(line, own)
	if err != nil {
		return false, err
	}
	s.memory.noteMark(me.contender, mark(e.key))
	f := &following{session: s, ahead: e, since: max(e.rev, me.rev)}
	err = s.await(ctx, e.key, []clientv3.OpOption{clientv3.WithRange(mark(e.key) + "\x00")}, f.isGone)
	return f.passed && err == nil, err
}

// following is one Follow.
type following struct {
	*session
	ahead  entry
	since  int64 // the revision at which both entries existed
	passed bool
}

// isGone tells by a message of the watch whether the entry ahead has left.
func (f *following) isGone(ctx context.Context, resp clientv3.WatchResponse) (gone bool, err error) {
	if resp.Created {
		return f.read(ctx, resp.Header.Revision)
	}
	for _, ev := range resp.Events {
		switch {
		case ev.Type == mvccpb.PUT && f.isMark(ev.Kv):
			f.passed = true
		case f.ahead.goes(ev):
			f.learn(ev.Kv.ModRevision)
			gone = true
		}
	}
	return gone, nil
}

// read reads the entry ahead and its mark, as of one moment after since.
func (f *following) read(ctx context.Context, since int64) (gone bool, err error) {
	r, err := f.session.read(ctx, max(since, f.since), clientv3.OpGet(f.ahead.key, clientv3.WithRange(mark(f.ahead.key)+"\x00")))
	if err != nil {
		return false, err
	}
	gone = true
	for _, kv := range r.kvs {
		switch {
		case f.ahead.is(kv):
			gone = false
		case f.isMark(kv):
			f.passed = true
		}
	}
	f.learn(r.rev)
	return gone, nil
}

// isMark tells whether a key is the mark of the entry ahead, and not of an earlier one of that name.
func (f *following) isMark(kv *mvccpb.KeyValue) bool {
	return string(kv.Key) == mark(f.ahead.key) && string(kv.Value) == revision(f.ahead.rev)
}
