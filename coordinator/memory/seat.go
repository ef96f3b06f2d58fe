package memory

import (
	"slices"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// seat is a session as the service keeps it. The client's side of it is session.
type seat struct {
	svc      *Service
	id       string
	ttl      time.Duration
	deadline time.Time
	timer    *time.Timer
	over     bool
	// epoch refuses every Join that was called before the last Forget, see
	// the package comment.
	epoch   uint64
	entries map[*entry]struct{}
	watches map[*watch]struct{}
	client  *session // whom to tell when the session is over
}

// open starts a session. The timer is the service's own: it runs whether the
// client ever hears of its session or not, so a lost answer leaves nothing
// that outlives the ttl (O4).
func (s *Service) open(ttl time.Duration) *seat {
	st := &seat{
		svc: s, id: s.sessionID(), ttl: ttl,
		entries: map[*entry]struct{}{},
		watches: map[*watch]struct{}{},
	}
	s.seats[st.id] = st
	st.timer = time.AfterFunc(ttl-s.slack, st.expire)
	st.deadline = time.Now().Add(ttl - s.slack)
	return st
}

// renew counts the ttl from now, which is the arrival of a renewal, or from a little later.
func (st *seat) renew(later time.Duration) {
	life := st.ttl - st.svc.slack + later
	st.deadline = time.Now().Add(life)
	st.timer.Reset(life)
}

// expire runs when the timer fires. Between its firing and the lock being taken a
// renewal may have arrived, or the service may have been stopped or the session
// ended: only the deadline decides.
func (st *seat) expire() {
	st.svc.mu.Lock()
	defer st.svc.mu.Unlock()
	if st.over || st.svc.stopped || time.Now().Before(st.deadline) {
		return
	}
	st.svc.end(st, ByClock)
}

// end ends a session, by one hand and in one step, as seen by everyone else. Its own watches go
// first, so that a waiter of the dead session hears that and not
// that some place has left, which could read as an admission.
func (s *Service) end(st *seat, by Hand) {
	st.over = true
	st.timer.Stop()
	delete(s.seats, st.id)
	for _, w := range st.watchesInOrder() {
		s.unregister(w)
		w.call.reply(driver.Wrap(driver.ErrSessionLost, errExpired))
	}
	s.revision++
	left := st.entriesInOrder()
	for _, e := range left {
		s.remove(e, by)
	}
	for _, e := range left {
		s.changed(e.queue.name)
	}
	st.client.tell()
}

// entriesInOrder and watchesInOrder iterate as things came, not as a
// map happens to: the order of wake-ups should not change from run to run.
func (st *seat) entriesInOrder() []*entry {
	all := make([]*entry, 0, len(st.entries))
	for e := range st.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return int(a.Token - b.Token) })
	return all
}

func (st *seat) watchesInOrder() []*watch { return inOrder(st.watches) }

func inOrder(set map[*watch]struct{}) []*watch {
	all := make([]*watch, 0, len(set))
	for w := range set {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *watch) int { return int(a.number) - int(b.number) })
	return all
}
