package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file has how a line is handed on without anybody reading it.
//
// Whoever joins a line that has somebody in it puts its name under the line's tail, one key, in the
// transaction that joins, and is told the name that was there: that of the one directly ahead, whatever the length of the
// line (J8). As long as there is a tail, every join swaps it. So there is nobody between the two. Whoever finds the line
// empty, and no tail, makes none: that is the lock that nobody else wants, and it takes one small transaction and one delete. A tail goes
// with the contender that it names, in the transaction that lets that go or with its lease. Then, while others
// stand ahead, the next one finds no tail, is told nothing, reads the line, and makes a new tail.
//
// A tail may name one that has gone. Whoever follows that one sees so, and reads the line.
//
// Whoever leaves as the first in line, when the tail says that somebody is behind, leaves a mark: a key whose name is that of
// its entry and a "~" more, so that one watch of the two keys shows both, and one event of one revision tells the
// follower that the entry has gone and that it was the first. An entry that goes without it, because its contender gave up or its session ended,
// says nothing, and the follower reads the line. A mark has the entry's create revision as its
// value, since names are used again. The follower removes it with its own entry; one that is left over goes with the lease of
// its maker, or with the entry of whoever reads the line and then gets in.

// markSuffix sorts after all characters of a name, and occurs in none.
const markSuffix = "~"

// mark is the key beside an entry's that says that it was the first in line when it left.
func mark(key string) string { return key + markSuffix }

func isMark(key string) bool { return strings.HasSuffix(key, markSuffix) }

// tail is the key of the line's tail.
func (l layout) tail(line driver.Line) string { return l.stem(line) + tailSuffix }

// tailOf is the tail of the line in which a contender's prefix lies.
func tailOf(prefix string) string { return prefix[:strings.LastIndexByte(prefix, '/')] + tailSuffix }

const tailSuffix = "+tail"

// swapTail makes the contender the line's tail, and reads who was it before.
func (s *session) swapTail(a *attempt) clientv3.Op {
	name := strings.TrimPrefix(a.entry, s.keys.line(a.line))
	return clientv3.OpPut(s.keys.tail(a.line), name, clientv3.WithLease(s.lease), clientv3.WithPrevKV())
}

// nearestOf reads the tail that a join has found. It was written in the transaction that made the entry that it
// names, so its mod revision is that entry's create revision.
func (s *session) nearestOf(line driver.Line, before *mvccpb.KeyValue) driver.Place {
	if before == nil {
		return driver.Place{}
	}
	return s.keys.place(line, entry{s.keys.line(line) + string(before.Value), before.ModRevision})
}

// quiet are conditions that nobody will be named to whoever comes next, and that nobody is in line. They are compared in this
// order: with a tail, the line is not read.
func (s *session) quiet(line driver.Line) [2]cond {
	stem := s.keys.stem(line)
	return [...]cond{{stem: stem, key: tailSuffix}, {stem: stem, key: slash, end: afterSlash}}
}

// handovers is what a session remembers of its contenders and of lines for the sake of handing on.
type handovers struct {
	mu sync.Mutex
	// fresh has the entries that nobody has tried to remove yet, by the contender's prefix.
	fresh map[string]fresh
	// marks has what a contender is to remove when it leaves: the marks of those ahead of it.
	marks map[string][]string
	// busy has lines in which the last join of this session found others. To those the next one sends the
	// transaction that swaps the tail, and to others a shorter one, which fails if somebody is there.
	busy map[driver.Line]struct{}
}

// fresh is an entry whose making was answered.
type fresh struct {
	rev   int64 // its create revision
	alone bool  // it joined an empty line, or one without followers: no tail names it, and nobody is told of it as the nearest
}

// mostBusy bounds what is remembered of lines. Forgetting costs a request.
const mostBusy = 1024

func newHandovers() handovers {
	return handovers{fresh: make(map[string]fresh), marks: make(map[string][]string), busy: make(map[driver.Line]struct{})}
}

func (h *handovers) isBusy(line driver.Line) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, busy := h.busy[line]
	return busy
}

// found remembers how a contender has joined: first, with the create revision rev, or behind others.
func (h *handovers) found(a *attempt, first bool, rev int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fresh[a.key] = fresh{rev, first || !a.Follows}
	if first {
		delete(h.busy, a.line)
		return
	}
	if len(h.busy) >= mostBusy {
		clear(h.busy)
	}
	h.busy[a.line] = struct{}{}
}

// take returns what is known of an entry that nobody has tried to remove yet, and forgets it.
func (h *handovers) take(e mine) (f fresh, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f = h.fresh[e.contender]
	delete(h.fresh, e.contender)
	return f, f.rev == e.rev
}

// mostMarks bounds what one contender removes. Others remain for the next.
const mostMarks = 16

func (h *handovers) noteMark(contender, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if noted := h.marks[contender]; len(noted) < mostMarks && !slices.Contains(noted, key) {
		h.marks[contender] = append(noted, key)
	}
}

func (h *handovers) marksOf(contender string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.marks[contender]
}

func (h *handovers) drop(contender string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.fresh, contender)
	delete(h.marks, contender)
}

// Pass is Leave that leaves a mark if somebody is behind.
//
// An etcd that is out of space refuses the mark, being a put. Then the entry goes without.
func (s *session) Pass(ctx context.Context, line driver.Line, own driver.Place) error {
	err := s.leave(ctx, line, own, !s.borrowed) // the lease of a borrowed session outlives it, and with it the mark
	if !isAnswer(err, rpctypes.ErrNoSpace) {
		return err
	}
	if err = s.leave(ctx, line, own, false); errors.Is(err, driver.ErrGone) {
		return nil // that request was applied, whatever its answer said: see outOfSpace
	}
	return err
}

// leave deletes the entry if it is the one that own names, and what is there for its sake alone.
//
// The first attempt compares nothing of the entry, which saves the service and the client a good deal: the key is in
// nobody's hands but this session's, and no other request to delete it can be under way, since the coordinator uses an
// ID again only after an answer. Who joined an empty line needs no transaction even. All further attempts make sure that
// the entry is the one that is meant.
func (s *session) leave(ctx context.Context, line driver.Line, own driver.Place, pass bool) error {
	if err := s.alive(); err != nil {
		return err
	}
	e, err := s.own(line, own)
	if err != nil {
		return err
	}
	there, err := s.delete(ctx, line, e, pass)
	if err != nil {
		return s.failed(ctx, err)
	}
	if !there {
		s.hand.drop(e.contender)
		return driver.ErrGone
	}
	s.removed(e.contender)
	return nil
}

// delete sends one attempt, and tells whether the entry was there.
func (s *session) delete(ctx context.Context, line driver.Line, e mine, pass bool) (bool, error) {
	ctx = s.lead(ctx)
	f, first := s.hand.take(e)
	if first && f.alone {
		resp, err := s.wire.delete(ctx, e.key)
		if err != nil {
			return false, err
		}
		s.finished(line, resp.Header.Revision)
		return resp.Deleted > 0, nil
	}
	var behind []clientv3.Op
	if pass {
		behind = []clientv3.Op{clientv3.OpPut(mark(e.key), revision(e.rev), clientv3.WithLease(s.lease))}
	}
	ops := []clientv3.Op{clientv3.OpDelete(e.key), s.dropTailOf(line, e.entry, behind...)}
	for _, m := range s.hand.marksOf(e.contender) { // of those ahead
		if m != mark(e.key) {
			ops = append(ops, clientv3.OpDelete(m))
		}
	}
	txn := s.c.Txn(ctx)
	if !first {
		txn = txn.If(e.stands())
	}
	resp, err := txn.Then(ops...).Commit()
	if err != nil {
		return false, err
	}
	s.finished(line, resp.Header.Revision)
	return resp.Succeeded && resp.Responses[0].GetResponseDeleteRange().Deleted > 0, nil
}

// dropTailOf deletes the line's tail if it names this entry, and does what is given if somebody came behind it.
func (s *session) dropTailOf(line driver.Line, e entry, behind ...clientv3.Op) clientv3.Op {
	tail := s.keys.tail(line)
	newer := clientv3.Compare(clientv3.ModRevision(tail), ">", s.keys.rank(line, e)) // a tail is as new as the entry that it names
	return clientv3.OpTxn([]clientv3.Cmp{newer}, behind, []clientv3.Op{clientv3.OpDelete(tail)})
}

// Follow watches the entry ahead and its mark.
//
// The watch is from now. When it stands, one look tells whether the entry stands, or has left its mark;
// the rest is told by events. After Settle own is guarded as well, see guard.go: a wait that is shorter is not worth it.
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
	s.hand.noteMark(me.contender, mark(e.key))
	f := &following{session: s, me: me, ahead: e}
	for {
		err := f.wait(ctx)
		if !isAnswer(err, rpctypes.ErrCompacted) {
			return f.passed, err
		}
	}
}

// following is one Follow.
type following struct {
	*session
	me     mine
	ahead  entry
	passed bool
}

// wait is one attempt, with watches of its own.
func (f *following) wait(ctx context.Context) error {
	stream := f.streams.current()
	wctx, cancel := f.watchContext(stream)
	events := openWatch(ctx, cancel, func() clientv3.WatchChan {
		return f.c.Watch(wctx, f.ahead.key, clientv3.WithRange(mark(f.ahead.key)+"\x00"), clientv3.WithCreatedNotify())
	})
	if events == nil {
		return f.watchFailed(ctx, errWatchEnded)
	}
	defer cancel()
	settled := time.NewTimer(driver.Settle)
	defer settled.Stop()
	var warnings <-chan warning
	for {
		select {
		case resp, ok := <-events:
			if err := f.broken(ctx, stream, resp, ok); err != nil {
				return err
			}
			done, err := f.told(ctx, resp)
			switch {
			case err != nil:
				return f.watchFailed(ctx, err)
			case done && removed(warnings):
				return f.gone(ctx)
			case done:
				return nil
			}
		case <-settled.C:
			p := f.guards.enter(f.session, f.me.entry)
			defer f.guards.leave(p)
			warnings = p.warnings
		case w := <-warnings:
			if err := f.warned(ctx, w); err != nil {
				return err
			}
		case <-ctx.Done():
			return f.watchFailed(ctx, errWatchEnded)
		case <-wctx.Done():
			return f.watchFailed(ctx, errWatchEnded)
		}
	}
}

// told handles a message about the entry ahead and its mark.
func (f *following) told(ctx context.Context, resp clientv3.WatchResponse) (done bool, err error) {
	if resp.Created {
		return f.look(ctx, resp.Header.Revision)
	}
	for _, ev := range resp.Events {
		switch {
		case ev.Type == mvccpb.PUT && f.isMark(ev.Kv):
			f.passed = true
		case ev.Type == mvccpb.DELETE && string(ev.Kv.Key) == f.ahead.key && ev.Kv.ModRevision > f.ahead.rev:
			f.learn(ev.Kv.ModRevision)
			done = true
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
	r, err := s.get(ctx, clientv3.OpGet(s.sentinel.key, clientv3.WithKeysOnly()))
	switch {
	case err != nil:
		return s.watchFailed(ctx, err)
	case len(r.kvs) == 0 || r.kvs[0].CreateRevision != s.sentinel.rev:
		s.end()
		return driver.ErrSessionLost
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

// look reads the entry ahead and its mark, as of one moment after since.
func (f *following) look(ctx context.Context, since int64) (done bool, err error) {
	r, err := f.read(ctx, max(since, f.ahead.rev), clientv3.OpGet(f.ahead.key, clientv3.WithRange(mark(f.ahead.key)+"\x00")))
	if err != nil {
		return false, err
	}
	for _, kv := range r.kvs {
		switch {
		case string(kv.Key) == f.ahead.key && kv.CreateRevision == f.ahead.rev:
			return false, nil
		case f.isMark(kv):
			f.passed = true
		}
	}
	f.learn(r.rev)
	return true, nil
}

// lookAtSelf reads the follower's own entry.
func (f *following) lookAtSelf(ctx context.Context, since int64) error {
	r, err := f.read(ctx, max(since, f.me.rev), clientv3.OpGet(f.me.key, clientv3.WithKeysOnly()))
	if err == nil && (len(r.kvs) == 0 || r.kvs[0].CreateRevision != f.me.rev) {
		err = driver.ErrGone
	}
	return err
}
