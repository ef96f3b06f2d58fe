package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

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
	// busy has lines in which a join of this session found others lately, with how many more have to find nobody until a line is
	// quiet. To those the next one sends the transaction that swaps the tail, and to others a shorter one, which fails if somebody is there.
	busy map[driver.Line]int
}

// fresh is an entry whose making was answered.
type fresh struct {
	rev   int64 // its create revision
	alone bool  // it joined an empty line, or one without followers: no tail names it, and nobody is told of it as the nearest
}

const (
	mostBusy   = 1024 // lines; to forget one costs a request
	quietAfter = 4    // joins
)

func newHandovers() handovers {
	return handovers{fresh: make(map[string]fresh), marks: make(map[string][]string), busy: make(map[driver.Line]int)}
}

func (h *handovers) isBusy(line driver.Line) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.busy[line] > 0
}

// found remembers how a contender has joined: first, with the create revision rev, or behind others.
func (h *handovers) found(a *attempt, first bool, rev int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fresh[a.key] = fresh{rev, first || !a.Follows}
	n := quietAfter
	if first {
		n = h.busy[a.line] - 1
	}
	switch {
	case n <= 0:
		delete(h.busy, a.line)
		return
	case len(h.busy) >= mostBusy:
		clear(h.busy)
	}
	h.busy[a.line] = n
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
