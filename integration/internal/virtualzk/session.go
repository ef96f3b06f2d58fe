package virtualzk

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

// session is a session as the leader knows it.
type session struct {
	id       int64
	password []byte
	timeout  time.Duration // as first granted; the leader's clock starts with it
	expires  time.Time     // a multiple of the tick
	timer    *time.Timer
	armed    time.Time     // when the timer goes off
	offset   time.Duration // in nanoseconds, so that no two end at once
	owner    int           // the member whose requests count, or nobody
	untold   bool          // a member has shortened it, and its client does not know
}

// nobody owns a session after a change of the leader. The first member that
// sends a request of it does.
const nobody = -1

// checkSession reports whether a member may send requests of a session.
func (e *Ensemble) checkSession(id int64, member int) (code int32) {
	s := e.sessions[id]
	switch {
	case id == 0:
		return 0 // of the service itself
	case s == nil:
		return codeSessionExpired
	case s.owner == nobody:
		s.owner = member
	case s.owner != member:
		return codeSessionMoved
	}
	return 0
}

// newSession makes a session. It exists when its transaction is committed.
func (e *Ensemble) newSession(member int, timeout time.Duration) *session {
	m := e.members[member]
	m.opened++
	draw := func(n int) int { return 0 }
	if r := e.rng("session", member, m.opened); r != nil {
		draw = r.IntN
	}
	s := &session{
		id:       int64(member+1)<<56 | int64(m.opened)<<16 | int64(draw(1<<16)),
		password: make([]byte, 16), timeout: timeout, owner: member,
		offset: time.Duration(m.opened*len(e.members) + member),
	}
	for i := range s.password {
		s.password[i] = byte(1 + draw(255))
	}
	return s
}

// touch moves the end of a session: to the first tick after its timeout, which
// may be sooner than before. It reports whether the session lives.
func (e *Ensemble) touch(id int64, timeout time.Duration) bool {
	s := e.sessions[id]
	if s == nil {
		return false
	}
	now := time.Since(e.began)
	s.expires = e.began.Add(((now+timeout)/e.conf.Tick+1)*e.conf.Tick + s.offset)
	if s.timer == nil || s.expires.Before(s.armed) {
		e.arm(s)
	}
	return true
}

func (e *Ensemble) arm(s *session) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.armed = s.expires
	s.timer = time.AfterFunc(time.Until(s.expires), func() { e.locked(func() { e.mayExpire(s) }) })
}

// mayExpire ends a session unless it was touched since its timer was set.
func (e *Ensemble) mayExpire(s *session) {
	switch {
	case e.sessions[s.id] != s:
	case e.leader == nobody:
		s.timer = nil // the next leader's clock starts anew
	case time.Until(s.expires) > 0:
		e.arm(s)
	default:
		by := ByClock
		if s.untold {
			by = ByShortening
		}
		e.end(s, by)
	}
}

// end closes a session.
func (e *Ensemble) end(s *session, by Cause) {
	e.commit(e.evaluate(request{session: s.id, member: nobody, op: opCloseSession, by: by}))
}

// revalidate moves a session to a member, if it lives and the password is
// right.
func (e *Ensemble) revalidate(id int64, password []byte, member int, timeout time.Duration) bool {
	s := e.sessions[id]
	if s == nil || !bytes.Equal(s.password, password) || !e.touch(id, timeout) {
		return false
	}
	s.owner = member
	if s.untold = timeout < s.timeout; s.untold {
		e.reached(shortened)
	}
	return true
}

// restartClocks gives every session its whole timeout, as a new leader does.
func (e *Ensemble) restartClocks() {
	for _, id := range e.sessionIDs() {
		e.sessions[id].owner = nobody
		e.touch(id, e.sessions[id].timeout)
	}
}

func (e *Ensemble) sessionIDs() []int64 { return slices.Sorted(maps.Keys(e.sessions)) }
