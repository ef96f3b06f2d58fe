package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// Follow watches the entry ahead and its mark, or, with sole, the entry ahead and own: the one ahead may have joined an empty line, and
// leaves without a word then. Who knows that it stands itself needs none, and what goes at once is told in one message.
//
// The watch is from now. When it stands, one look tells whether the entry stands, or has left its mark; the rest is told by events. A watch
// that stands from the last wait needs no look: see standing. After Settle own is guarded as well, see guard.go: a wait that is shorter is not worth it.
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
		if err != errEarlier && !isAnswer(err, rpctypes.ErrCompacted) { //nolint:errorlint // our own word
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

// watched is what the watch is on. Between two entries there may be others, whose leaving is not heeded, and whose joining is not sent:
// it is one contender of a line that hears of them.
func (f *following) watched() watched {
	if f.sole {
		return watched{first: min(f.me.key, f.ahead.key), last: max(f.me.key, f.ahead.key), leaving: true}
	}
	return watched{first: f.ahead.key, last: mark(f.ahead.key)}
}

// made is when the first of the entries that are watched was made.
func (f *following) made() int64 {
	if f.sole {
		return min(f.me.rev, f.ahead.rev)
	}
	return f.ahead.rev
}

// errEarlier says that a watch that stood from before has ended.
var errEarlier = errors.New("etcd: an earlier watch ended")

// wait is one attempt, with a watch that stands already or one of its own.
func (f *following) wait(ctx context.Context) error {
	w := f.standings.take(f.me.contender, f.watched(), f.made())
	if w == nil {
		w = f.open()
	}
	err := f.waitWith(ctx, w)
	if err == nil {
		f.standings.leave(f.me.contender, w)
	} else {
		w.close()
	}
	return err
}

// open asks for a watch.
func (f *following) open() *standing {
	w := &standing{watched: f.watched(), stream: f.streams.current()}
	ctx, cancel := f.watchContext(w.stream)
	w.ended = ctx.Done()
	w.opening = openWatch(cancel, func() clientv3.WatchChan { return f.c.Watch(ctx, w.watched.first, w.watched.opts()...) })
	return w
}

// waitWith returns nil when the one ahead has left.
func (f *following) waitWith(ctx context.Context, w *standing) error {
	if !w.stood {
		w.events = w.wait(ctx)
		if w.events == nil {
			return f.watchFailed(ctx, errWatchEnded)
		}
	}
	resp := clientv3.WatchResponse{Events: w.heard}
	w.heard = nil
	for {
		done, err := f.told(ctx, resp)
		switch {
		case err == driver.ErrGone, done && removed(f.warnings): //nolint:errorlint // our own word
			return f.gone(ctx)
		case err != nil:
			return f.watchFailed(ctx, err)
		case done:
			w.heard, w.since = resp.Events, max(w.since, f.ahead.rev)
			return nil
		}
		resp = clientv3.WatchResponse{}
		select {
		case next, ok := <-w.events:
			if err := f.broken(ctx, w.stream, next, ok); err != nil {
				if w.earlier && ctx.Err() == nil && f.alive() == nil {
					return errEarlier
				}
				return err
			}
			if resp = next; resp.Created {
				w.since = resp.Header.Revision
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
		case <-w.ended:
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
