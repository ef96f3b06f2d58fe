package lease

import (
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// leadership is what a session knows of the cluster's leader.
//
// A leader whose disk hangs is deposed without noticing. Before etcd 3.4.31 and
// 3.5.13 it still acknowledged keep-alives, which no other leader counted;
// later ones can do so for a keep-alive that a follower forwards. Two rules let
// no session rest on such acknowledgements:
//
//   - A reply shows the term of the member that sent it. A keep-alive does not
//     count if another member has shown a newer term. A member that lags is
//     refused as well, until it has applied an entry of the new term.
//   - A new leader restarts all leases at its election. So if a quorum, or a
//     second member, has shown no newer term when it was asked, the lease lives
//     for a TTL from then on, whatever the acknowledgements afterwards are
//     worth. A keep-alive counts only if that was not long before it was sent.
//
// In general this costs no request, since the keep-alives of a session go to
// the members in turn: each confirms the one before. If they reach one member
// only, a read by quorum after each confirms it.
type leadership struct {
	mu     sync.Mutex
	term   uint64    // the newest that a member has shown
	member uint64    // the latest that has shown it,
	asked  time.Time // and when it was asked
	other  time.Time // when another one was asked last
	quorum time.Time // when a quorum was asked last
}

// shows notes a member's reply to a request that was sent at this time. It
// returns since when the member is confirmed. A member that has applied nothing
// since its start shows the term 0. It is no leader from before, need not lag,
// and confirms none.
func (l *leadership) shows(header *pb.ResponseHeader, sent time.Time) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	member, shown := header.GetMemberId(), header.GetRaftTerm()
	if shown != 0 && !l.learn(shown) {
		return time.Time{}, errOldTerm
	}
	switch {
	case member != l.member && shown == 0:
		return later(l.quorum, l.asked), nil
	case member != l.member:
		l.member, l.asked, l.other = member, sent, l.asked
	case shown != 0:
		l.asked = later(l.asked, sent)
	}
	return later(l.quorum, l.other), nil
}

// confirmed notes the term that a quorum's reply has shown, to a request that
// was sent at this time.
func (l *leadership) confirmed(term uint64, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.learn(term) {
		l.quorum = later(l.quorum, sent)
	}
}

// counts returns an error if a member that shows this term is behind.
func (l *leadership) counts(header *pb.ResponseHeader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if shown := header.GetRaftTerm(); shown != 0 && shown < l.term {
		return errOldTerm
	}
	return nil
}

// learn notes a term, and reports whether it is not older than one shown
// before. What members have shown before a newer term confirms nothing. The
// caller holds l.mu.
func (l *leadership) learn(term uint64) bool {
	if term > l.term {
		l.term, l.member, l.asked, l.other = term, 0, time.Time{}, time.Time{}
	}
	return term == l.term
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
