package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
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

// swapTail finds out whether the line is empty. If it is not, it makes a contender that follows the line's tail, and reads who was it
// before.
func (s *session) swapTail(a *attempt, keys *text) *pb.RequestOp {
	t := &struct {
		txnOp
		ifs       ifs
		otherwise [1]*pb.RequestOp
		tail      putOp
	}{}
	quiet := s.quiet(a.line)
	t.req.Compare = t.ifs.fill(quiet[:], keys)
	if a.Follows {
		name := strings.TrimPrefix(a.entry, s.keys.line(a.line))
		t.otherwise[0] = t.tail.fill(keys.add(s.keys.tail(a.line), ""), keys.add(name, ""), s.lease)
		t.tail.req.PrevKv = true
		t.req.Failure = t.otherwise[:]
	}
	return t.fill()
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
	// hasty is how many more looks in vain end those at an entry that is followed before the watch of it stands.
	hasty atomic.Int32
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

// hasteFor is how many looks in vain end the early ones. Early is a round trip sooner; it costs a request more if nothing is found and
// others write meanwhile, or the member that is asked is behind.
const hasteFor = 8

// looked remembers whether a look at the entry that is followed found it gone.
func (h *handovers) looked(gone bool) {
	if gone {
		h.hasty.Store(hasteFor)
	} else if n := h.hasty.Load(); n > 0 {
		h.hasty.CompareAndSwap(n, n-1)
	}
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
	resp, err := s.wire.commit(ctx, s.leaving(line, e.entry, !first, pass, s.hand.marksOf(e.contender)))
	if err != nil {
		return false, err
	}
	s.finished(line, resp.Header.Revision)
	return resp.Succeeded && resp.Responses[0].GetResponseDeleteRange().Deleted > 0, nil
}

// leaving deletes an entry, with again only if it still stands, and with it the marks of those ahead. See dropTailOf for the rest.
func (s *session) leaving(line driver.Line, e entry, again, pass bool, marks []string) *request {
	room := 5 * len(e.key) // for its key, that in a condition and its mark; the tail's key and a revision are shorter
	for _, m := range marks {
		room += len(m)
	}
	keys := make(text, 0, room)
	r, drops := &request{}, make([]dropOp, 1+len(marks))
	if again {
		r.req.Compare = new(ifs).fill([]cond{e.standing()}, &keys)
	}
	then := append(make([]*pb.RequestOp, 0, 2+len(marks)), drops[0].fill(keys.add(e.key, "")))
	if !s.keys.shared {
		then = append(then, s.dropTailOf(line, e, pass, &keys))
	}
	for i, m := range marks {
		if strings.TrimSuffix(m, markSuffix) != e.key {
			then = append(then, drops[1+i].fill(keys.add(m, "")))
		}
	}
	r.req.Success = then
	return r
}

// dropTailOf deletes the line's tail if it names this entry. If somebody came behind that, and with pass, it leaves the entry's mark.
func (s *session) dropTailOf(line driver.Line, e entry, pass bool, keys *text) *pb.RequestOp {
	t := &struct {
		txnOp
		ifs             ifs
		then, otherwise [1]*pb.RequestOp
		mark            putOp
		tail            dropOp
	}{}
	// A tail is as new as the entry that it names.
	newer := cond{stem: s.keys.stem(line), key: tailSuffix, mod: s.keys.rank(line, e), newer: true}
	t.req.Compare = t.ifs.fill([]cond{newer}, keys)
	if pass {
		t.then[0] = t.mark.fill(keys.add(e.key, markSuffix), keys.add(revision(e.rev), ""), s.lease)
		t.req.Success = t.then[:]
	}
	t.otherwise[0] = t.tail.fill(t.req.Compare[0].Key)
	t.req.Failure = t.otherwise[:]
	return t.fill()
}

// Follow watches the entry ahead and its mark, or, with sole, the entry ahead and own: the one ahead may have joined an empty line, and
// leaves without a word then. Who knows that it stands itself needs none, and what goes at once is told in one message.
//
// The watch is from now. When it stands, one look tells whether the entry stands, or has left its mark;
// the rest is told by events. If looks have lately found that it has left, one is sent together with the watch, and no other if it was as new. A watch
// that is not waited for is still made, and delays those that are asked for after it: so one at a time. After Settle own is guarded as well, see guard.go: a wait that is shorter is not worth it.
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
	looked int64 // the last revision as of which a look found the entry ahead, and with sole own; 0 if none has
}

// watched is what the watch is on. Between two entries there may be others, whose leaving is not heeded, and whose joining is not sent:
// it is one contender of a line that hears of them.
func (f *following) watched() (key string, opts []clientv3.OpOption) {
	key, last := f.ahead.key, mark(f.ahead.key)
	if f.sole {
		key, last = min(f.me.key, f.ahead.key), max(f.me.key, f.ahead.key)
		opts = append(opts, clientv3.WithFilterPut())
	}
	return key, append(opts, clientv3.WithRange(last+"\x00"), clientv3.WithCreatedNotify())
}

// wait is one attempt, with watches of its own.
func (f *following) wait(ctx context.Context) error {
	stream := f.streams.current()
	wctx, cancel := f.watchContext(stream)
	key, opts := f.watched()
	early := f.hand.hasty.Load() > 0 && f.streams.opening.Load() == 0
	watch := f.streams.openWatch(cancel, func() clientv3.WatchChan { return f.c.Watch(wctx, key, opts...) })
	defer watch.close()
	if early {
		switch done, err := f.look(ctx, 0); {
		case err == driver.ErrGone: //nolint:errorlint // our own word
			return f.gone(ctx)
		case err == nil && done:
			return nil
		}
	}
	events := watch.wait(ctx)
	if events == nil {
		return f.watchFailed(ctx, errWatchEnded)
	}
	var settled <-chan time.Time
	if !f.sole { // else own needs no other guard
		timer := time.NewTimer(driver.Settle)
		defer timer.Stop()
		settled = timer.C
	}
	var warnings <-chan warning
	for {
		select {
		case resp, ok := <-events:
			if err := f.broken(ctx, stream, resp, ok); err != nil {
				return err
			}
			done, err := f.told(ctx, resp)
			switch {
			case err == driver.ErrGone, done && removed(warnings): //nolint:errorlint // our own word
				return f.gone(ctx)
			case err != nil:
				return f.watchFailed(ctx, err)
			case done:
				return nil
			}
		case <-settled:
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

// told handles a message about the entry ahead, and its mark or own, of which ErrGone says that it is gone.
func (f *following) told(ctx context.Context, resp clientv3.WatchResponse) (done bool, err error) {
	if resp.Created {
		if f.looked > 0 && f.looked >= resp.Header.Revision { // the watch shows all after that revision
			return false, nil
		}
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
	f.hand.looked(done)
	if !done {
		f.looked = r.rev
	}
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
