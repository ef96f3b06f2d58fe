package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// Follow watches the entry ahead and its mark, or, with sole, the entry ahead and own: the one ahead may have joined an empty line, and
// leaves without a word then. Who knows that it stands itself needs none, and what goes at once is told in one message.
//
// The watch is from now. When it exists, one read tells whether the entry exists, or has left its mark; the rest is told by events. After
// Settle own is guarded as well, see guard.go: a wait that is shorter is not worth it.
func (s *session) Follow(ctx context.Context, line driver.Line, own, ahead driver.Place, sole bool) (passed bool, err error) {
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
	s.hand.noteMark(me.contender, mark(e.key))
	f := &following{session: s, me: me, ahead: e, sole: sole}
	if !sole { // else own needs no other guard
		timer := time.NewTimer(driver.Settle)
		defer timer.Stop()
		f.settled = timer.C
	}
	defer f.relieve()
	for {
		err := f.wait(ctx)
		if !isAnswer(err, rpctypes.ErrCompacted) {
			return f.passed || sole && err == nil, err
		}
	}
}

// following is one Follow.
type following struct {
	*session
	me     mine
	ahead  entry
	sole   bool
	passed bool

	settled  <-chan time.Time
	post     *post          // once it has settled
	warnings <-chan warning // of that post
}

// relieve ends the guarding of own.
func (f *following) relieve() {
	if f.post != nil {
		f.guards.leave(f.post)
	}
}

// wait is one attempt, with a watch of its own. With sole the watch is on the
// range from one of the two entries to the other; the removal of entries
// between them is ignored.
func (f *following) wait(ctx context.Context) error {
	first, last := f.ahead.key, mark(f.ahead.key)
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify()}
	if f.sole {
		first, last = min(f.me.key, f.ahead.key), max(f.me.key, f.ahead.key)
		opts = append(opts, clientv3.WithFilterPut())
	}
	opts = append(opts, clientv3.WithRange(last+"\x00"))
	stream := f.streams.current()
	wctx, cancel := f.watchContext(stream)
	watch := openWatch(cancel, func() clientv3.WatchChan { return f.c.Watch(wctx, first, opts...) })
	defer watch.close()
	events := watch.wait(ctx)
	if events == nil {
		return f.watchFailed(ctx, errWatchEnded)
	}
	for {
		select {
		case resp, ok := <-events:
			if err := f.broken(ctx, stream, resp, ok); err != nil {
				return err
			}
			switch done, err := f.told(ctx, resp); {
			case err == driver.ErrGone, done && removed(f.warnings): //nolint:errorlint // our own word
				return f.gone(ctx)
			case err != nil:
				return f.watchFailed(ctx, err)
			case done:
				return nil
			}
		case <-f.settled:
			f.post = f.guards.enter(f.session, f.me.entry)
			f.warnings = f.post.warnings
		case warning := <-f.warnings:
			if err := f.warned(ctx, warning); err != nil {
				return err
			}
		case <-ctx.Done():
			return f.watchFailed(ctx, errWatchEnded)
		case <-wctx.Done():
			return f.watchFailed(ctx, errWatchEnded)
		}
	}
}

// told handles a message about the entry ahead, and its mark or own, of which ErrGone says that it is gone.
func (f *following) told(ctx context.Context, resp clientv3.WatchResponse) (done bool, err error) {
	if resp.Created {
		return f.look(ctx, resp.Header.Revision)
	}
	for _, ev := range resp.Events {
		switch {
		case ev.Type == mvccpb.PUT && f.isMark(ev.Kv):
			f.passed = true
		case f.ahead.goes(ev):
			f.learn(ev.Kv.ModRevision)
			done = true
		case f.sole && f.me.goes(ev):
			return false, driver.ErrGone
		}
	}
	return done, nil
}

// isMark tells whether a key is the mark of the entry ahead, and not of an earlier one of that name.
func (f *following) isMark(kv *mvccpb.KeyValue) bool {
	return string(kv.Key) == mark(f.ahead.key) && string(kv.Value) == revision(f.ahead.rev)
}

// warned handles a word of the guard.
func (f *following) warned(ctx context.Context, w warning) error {
	err := w.err
	if err == nil {
		if err = f.lookAtSelf(ctx, w.since); err != nil && err != driver.ErrGone { //nolint:errorlint // our own word, and not the cause of a context
			return f.watchFailed(ctx, err)
		}
	}
	if err == driver.ErrGone { //nolint:errorlint // likewise
		return f.gone(ctx)
	}
	return err
}

// gone tells whether the entry that is gone was removed, or went with its session. The watch of the sentinel may tell that later.
func (s *session) gone(ctx context.Context) error {
	r, err := s.get(ctx, s.readSentinel())
	if err != nil {
		return s.watchFailed(ctx, err)
	}
	if err := s.judgeSentinel(r.kvs); err != nil {
		return err
	}
	return driver.ErrGone
}

// removed tells whether the guard has said that the follower's own entry is gone. Of two messages that are there, of two
// watches, either may be taken first.
func removed(warnings <-chan warning) bool {
	select {
	case w := <-warnings:
		return w.err == driver.ErrGone //nolint:errorlint // our own word
	default:
		return false
	}
}

// look reads the entry ahead and its mark, and with sole own, as of one moment after since.
func (f *following) look(ctx context.Context, since int64) (done bool, err error) {
	ops := []clientv3.Op{clientv3.OpGet(f.ahead.key, clientv3.WithRange(mark(f.ahead.key)+"\x00"))}
	if f.sole {
		ops = append(ops, clientv3.OpGet(f.me.key, clientv3.WithKeysOnly()))
	}
	r, err := f.read(ctx, max(since, f.ahead.rev, f.me.rev), ops...)
	if err != nil {
		return false, err
	}
	done, own := true, false
	for _, kv := range r.kvs {
		switch {
		case f.ahead.is(kv):
			done = false
		case f.me.is(kv):
			own = true
		case f.isMark(kv):
			f.passed = true
		}
	}
	if f.sole && !own {
		return false, driver.ErrGone
	}
	f.learn(r.rev)
	return done, nil
}

// lookAtSelf reads the follower's own entry.
func (f *following) lookAtSelf(ctx context.Context, since int64) error {
	r, err := f.read(ctx, max(since, f.me.rev), clientv3.OpGet(f.me.key, clientv3.WithKeysOnly()))
	if err == nil && !f.me.in(r.kvs) {
		err = driver.ErrGone
	}
	return err
}
