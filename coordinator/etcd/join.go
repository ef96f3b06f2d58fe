package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

var (
	errForgotten = errors.New("etcd: the contender was forgotten while it joined")
	errNoReason  = errors.New("etcd: join refused although nothing stands against it")
)

// Join writes the entry in one transaction, whose revision is the create revision of the
// entry and thus its token (J1). A condition says that the line is empty (J3); if it is not, a second transaction
// joins behind those who are there. Which of the two is sent first depends on what this session found when it joined the line
// before, so that it is one in the long run. See handover.go for how the second one is told who is ahead.
//
// The service may have applied it without our hearing of it; then
// the contender's key exists, and the next Join returns that entry (J2).
//
// A range in order of creation would tell who is
// ahead, too, but etcd fetches and sorts the whole line for it while it applies the
// transaction, on every member, for every one who joins. Even a count walks the index of the line.
func (s *session) Join(ctx context.Context, line driver.Line, c driver.Contender) (driver.Joined, error) {
	if !isID(c.ID) || !isMode(c.Mode) {
		return driver.Joined{}, invalid("contender ID %q, mode %q", c.ID, c.Mode)
	}
	a := &attempt{Contender: c, line: line, entry: s.keys.contender(line, c.ID, s.lease, c.Mode), fence: c.Again}
	a.key = strings.TrimSuffix(a.entry, c.Mode)
	a.behind = !c.Alone && (c.Again || s.hand.isBusy(line))
	call, err := s.joins.enter(a.key, s.alive)
	if err != nil {
		return driver.Joined{}, err
	}
	defer s.joins.exit(a.key, call)
	for ; ; a.fence = false {
		if a.epoch, err = s.joins.take(call); err != nil {
			return driver.Joined{}, err
		}
		resp, err := s.sendJoin(ctx, a)
		if isAnswer(err, rpctypes.ErrNoSpace) { // see outOfSpace
			e, look := s.outOfSpace(ctx, s.entriesOf(a)...)
			if look != nil {
				return driver.Joined{}, look
			}
			if e != (entry{}) { // who else stands there may have come since
				s.finished(line, e.rev)
				return driver.Joined{Place: s.keys.place(line, e), Token: driver.Token(s.keys.rank(line, e))}, nil
			}
		}
		if err != nil {
			if kind := kindOf(err); !errors.Is(kind, driver.ErrRefused) { // not ctx's cause, which may be any error
				s.joins.lost(a.key, call, a.epoch)
			}
			return driver.Joined{}, s.failed(ctx, err)
		}
		if resp.Succeeded {
			return s.joined(a, resp), nil
		}
		joined, again, err := s.refused(ctx, a, resp.Responses)
		if !again {
			return joined, err
		}
	}
}

// attempt is one transaction of a Join.
type attempt struct {
	driver.Contender
	line  driver.Line
	entry string // the contender's key, before it is converted
	key   string // its prefix
	epoch int64
	fence bool
	// behind says that the line may have somebody in it. An attempt without that, or one that is to be alone, is refused then.
	behind bool
	// stale says that only a tail stands against being alone. It names one that has gone, and may stay for as long as a session.
	stale bool
}

// short tells an attempt of one who expects an empty line, but can do with others.
func (a *attempt) short() bool { return !a.behind && !a.Alone }

// joined reads the answer to an attempt that has made the entry. One that had not to be alone says in its first part whether
// it is.
func (s *session) joined(a *attempt, resp *clientv3.TxnResponse) driver.Joined {
	e := entry{a.entry, resp.Header.Revision}
	j := driver.Joined{Place: s.keys.place(a.line, e), Token: driver.Token(e.rev), First: true}
	if a.behind {
		look := resp.Responses[0].GetResponseTxn()
		if j.First = look.Succeeded; !j.First && a.Follows {
			j.Nearest = s.nearestOf(a.line, look.Responses[0].GetResponsePut().PrevKv)
		}
	}
	s.hand.found(a, j.First, e.rev)
	s.finished(a.line, e.rev)
	return j
}

// conditions are what must hold for the entry to be made. If one does not, nothing is written and nobody
// wakes. Who must be alone compares all keys of the line with "never created", which holds for an
// empty range only (J6); others compare the keys that they may have already (J2). Who knows the
// record compares its version (J7).
func (s *session) conditions(a *attempt) []cond {
	conds := append(make([]cond, 0, mostConds), unchanged(s.sentinel.key, a.epoch))
	switch {
	case a.stale:
		conds = append(conds, s.quiet(a.line)[1])
	case !a.behind:
		quiet := s.quiet(a.line)
		conds = append(conds, quiet[:]...) // where the contender's own keys are, too
	case a.Again: // else it has none
		conds = append(conds, absent(a.key), absent(converted(a.key)))
	}
	if a.Record != 0 {
		conds = append(conds, unchanged(s.keys.record(a.line), int64(a.Record)))
	}
	return conds
}

// sendJoin sends one attempt.
//
// With fence it raises the epoch, too, refused or not: for the first attempt of a join that
// the caller has sent before. Otherwise that earlier request, delayed on its way, could
// still be applied after this one was answered: behind ErrTaken, or after the entry that
// this one made was left. Nobody would wait for that entry or remove it, and it would
// block the line for as long as the session lives. Later attempts of the same call have
// nothing left to fence off, and must not: after an outage all joins of a session are
// sent again at once, and if each refusal raised the epoch they would refuse each other
// without end.
func (s *session) sendJoin(ctx context.Context, a *attempt) (*clientv3.TxnResponse, error) {
	r, ctx := s.joining(a), s.lead(ctx)
	if a.short() { // and so not sent before
		return s.wire.enter(ctx, a.line, r)
	}
	if !a.fence {
		return s.wire.commit(ctx, r)
	}
	cmps, then, otherwise := rebuilt(&r.req)
	then, otherwise = append(then, s.raiseEpoch()), slices.Insert(otherwise, 0, s.raiseEpoch())
	resp, err := s.c.Txn(ctx).If(cmps...).Then(then...).Else(otherwise...).Commit()
	if err == nil {
		s.joins.raise(resp.Header.Revision)
	}
	return resp, err
}

// joining is the request of an attempt, without a fence.
func (s *session) joining(a *attempt) *request {
	conds := s.conditions(a)
	if a.short() {
		return entering(conds, a.entry, a.Value, s.lease)
	}
	r := &struct {
		request
		ifs ifs
		put putOp
	}{}
	keys := newText(conds, 5*len(a.entry)) // the tail's key is shorter
	then := make([]*pb.RequestOp, 0, 2)
	if a.behind { // before the put: the line is empty without it
		then = append(then, s.swapTail(a, &keys))
	}
	then = append(then, r.put.fill(keys.add(a.entry, ""), a.Value, s.lease))
	if a.stale {
		then = append(then, new(dropOp).fill(keys.add(s.keys.tail(a.line), "")))
	}
	r.req.Compare, r.req.Success, r.req.Failure = r.ifs.fill(conds, &keys), then, s.reasons(a)
	return &r.request
}

// reasons read why an attempt is refused. A short one has none: the next one is not, and learns it.
func (s *session) reasons(a *attempt) []*pb.RequestOp {
	var reads []clientv3.Op
	if a.Alone || a.Again {
		reads = append(append(reads, s.someOf(a.line)), s.entriesOf(a)...)
	}
	reads = append(reads, s.readSentinel())
	if a.Record != 0 {
		reads = append(reads, clientv3.OpGet(s.keys.record(a.line), clientv3.WithKeysOnly()))
	}
	return readOps(reads)
}

// entriesOf reads the entries that the contender has already.
func (s *session) entriesOf(a *attempt) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpGet(a.key, clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		clientv3.OpGet(converted(a.key), clientv3.WithPrefix(), clientv3.WithKeysOnly()),
	}
}

// outOfSpace reads the entry that a refused request should have made, zero if there is none. The request with
// which an etcd finds that it is out of space, after it has let it in, is applied and refused all the same; those after
// it are not applied.
func (s *session) outOfSpace(ctx context.Context, reads ...clientv3.Op) (entry, error) {
	resp, err := s.c.Txn(s.lead(ctx)).Then(reads...).Commit()
	if err != nil {
		return entry{}, s.failed(ctx, err)
	}
	for _, op := range resp.Responses {
		if own, _ := parted(op.GetResponseRange().Kvs); len(own) > 0 {
			return entry{string(own[0].Key), own[0].CreateRevision}, nil
		}
	}
	return entry{}, nil
}

// parted tells a contender's entries from the marks that were left by those before it that had its ID.
func parted(kvs []*mvccpb.KeyValue) (entries, marks []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		if isMark(string(kv.Key)) {
			marks = append(marks, kv)
		} else {
			entries = append(entries, kv)
		}
	}
	return entries, marks
}

// someOf reads some keys of a line, and counts all.
func (s *session) someOf(line driver.Line) clientv3.Op {
	return clientv3.OpGet(s.keys.line(line), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(mostMarks))
}

// refused finds out from the else branch why nothing was written. again is true
// when the attempt was a short one; or when only the epoch had moved: another contender of this session was forgotten meanwhile;
// or when only marks were there, of anybody or of an earlier contender of this ID.
//
// An entry that stands already is the outcome, whatever has become of the line since it was made.
func (s *session) refused(ctx context.Context, a *attempt, ops []*pb.ResponseOp) (joined driver.Joined, again bool, err error) {
	if a.short() {
		a.behind = true
		return joined, true, nil
	}
	if a.fence {
		ops = ops[1:] // the raising of the epoch
	}
	var line *pb.RangeResponse
	var own, marks []*mvccpb.KeyValue
	if a.Alone || a.Again {
		line = ops[0].GetResponseRange()
		own, marks = parted(append(ops[1].GetResponseRange().Kvs, ops[2].GetResponseRange().Kvs...))
		ops = ops[3:]
	}
	if err := s.judgeSentinel(ops[0].GetResponseRange().Kvs); err != nil { // J5
		return joined, false, err
	}
	epoch := modRevision(ops[0].GetResponseRange().Kvs)
	s.joins.raise(epoch)
	switch {
	case len(own) > 0:
		e := entry{string(own[0].Key), own[0].CreateRevision}
		s.finished(a.line, e.rev)
		return driver.Joined{
			Place: s.keys.place(a.line, e), Token: driver.Token(s.keys.rank(a.line, e)), First: line.Count == 1,
		}, false, nil
	case len(marks) > 0:
		_, err = s.sweep(ctx, marks)
		return joined, err == nil, err
	case a.Record != 0 && modRevision(ops[1].GetResponseRange().Kvs) != int64(a.Record):
		s.removed(a.key)
		return joined, false, driver.ErrStale
	case a.Alone && line.Count > 0:
		if again, err = s.sweep(ctx, line.Kvs); !again && err == nil {
			s.removed(a.key)
			err = driver.ErrTaken
		}
		return joined, again, err
	case epoch > a.epoch:
		return joined, true, nil
	case a.Alone && !a.stale:
		a.stale = true
		return joined, true, nil
	}
	return joined, false, driver.Wrap(driver.ErrUnavailable, errNoReason)
}

// sweep deletes what was read of a line if that is nothing but marks. If there is more, the next attempt tells. Whoever stands
// in the line is not woken, and reads it instead. It reports whether they are gone.
func (s *session) sweep(ctx context.Context, line []*mvccpb.KeyValue) (bool, error) {
	var same []clientv3.Cmp
	var drop []clientv3.Op
	for _, kv := range line {
		if !isMark(string(kv.Key)) {
			return false, nil
		}
		same = append(same, clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision))
		drop = append(drop, clientv3.OpDelete(string(kv.Key)))
	}
	resp, err := s.c.Txn(s.lead(ctx)).If(same...).Then(drop...).Commit()
	if err != nil {
		return false, s.failed(ctx, err)
	}
	return resp.Succeeded, nil
}

// modRevision is that of the key that was read, 0 if there is none.
func modRevision(kvs []*mvccpb.KeyValue) int64 {
	if len(kvs) == 0 {
		return 0
	}
	return kvs[0].ModRevision
}
