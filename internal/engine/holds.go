package engine

import "time"

// SettleAfter is how long a hold lasts before it is watched and converted.
const SettleAfter = 250 * time.Millisecond

type hold struct {
	since                time.Time
	settled, ended, lost func()
}

// Hold calls settled after SettleAfter. When the session ends it calls ended,
// perhaps more than once, before the service can be told; ended must not block.
// Then it calls lost, in the goroutine that ends the session, so that Close
// returns after lost. If the session is not alive it calls none of them. stop
// reports whether it prevents the call of lost; a second call reports false.
func (s *Session) Hold(settled, ended, lost func()) (stop func() bool, alive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The session has ended, and has called or will call nobody else: the
	// caller has to report the loss itself.
	if s.holds == nil {
		return func() bool { return false }, false
	}
	elem := s.holds.PushBack(&hold{time.Now(), settled, ended, lost})
	if s.young == nil {
		s.young = elem
	}
	if !s.settling {
		s.settling = true
		time.AfterFunc(SettleAfter, s.settle)
	}
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		// end has taken the list, and calls lost; or stop was called before.
		if s.holds == nil || elem.Value == nil {
			return false
		}
		if s.young == elem {
			s.young = elem.Next()
		}
		if s.untold == elem {
			s.untold = elem.Next()
		}
		s.holds.Remove(elem)
		elem.Value = nil
		return true
	}, true
}

// settle serves all holds: a timer per hold takes some 5 % of the client's CPU,
// and most holds are released before they settle.
func (s *Session) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.young != nil; s.young = s.young.Next() {
		h := s.young.Value.(*hold)
		// They are in the order in which they began, so the others are younger.
		if left := SettleAfter - time.Since(h.since); left > 0 {
			time.AfterFunc(left, s.settle)
			return
		}
		go h.settled() // locks the hold's mutex, which comes before this one
	}
	s.settling = false
}

// endHolds notifies the holds that the session's context has ended, before
// observers and the log, which may block. Each caller waits until all know. It
// goes on where others are: every waiter and hold of the session may call it. A
// hold that is added later needs no call, since its contexts are derived from
// the session's, which has ended.
func (s *Session) endHolds() {
	s.mu.Lock()
	if s.holds != nil && !s.ending {
		s.ending, s.untold = true, s.holds.Front()
	}
	for s.untold != nil {
		e := s.untold
		h := e.Value.(*hold)
		s.mu.Unlock() // a hold's mutex is locked before the session's
		h.ended()
		s.mu.Lock()
		// Not before ended has returned: another caller must not return
		// earlier. Until then it calls ended, too.
		if s.untold == e {
			s.untold = e.Next()
		}
	}
	s.mu.Unlock()
}
