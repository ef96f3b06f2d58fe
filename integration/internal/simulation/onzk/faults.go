package onzk

import (
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/integration/internal/simulation"
)

// Faults are those of ZooKeeper's members.
func (s *service) Faults() []simulation.Fault {
	all := []simulation.Fault{{Kind: "timeout shortened", Do: s.shortens}}
	if s.named {
		all = append(all, simulation.Fault{Kind: "members move", Do: s.move})
	}
	if s.Members() == 1 {
		return all
	}
	return append(all,
		simulation.Fault{Kind: "one member reached", Do: s.reachesOne},
		simulation.Fault{Kind: "member lags", Do: s.lags},
		simulation.Fault{Kind: "member stalls", Do: s.stalls},
		simulation.Fault{Kind: "leader changes", Do: s.elects},
		simulation.Fault{Kind: "leader paused", Do: s.pausesLeader},
		simulation.Fault{Kind: "member isolated", Do: s.isolates},
		simulation.Fault{Kind: "member crashes", Do: s.crashes},
	)
}

// some returns a random time.
func some(r *rand.Rand, most time.Duration) time.Duration {
	return 1 + time.Duration(r.Int64N(int64(most)))
}

// serving is the member that serves the client of a link, or any.
func (s *service) serving(r *rand.Rand, l simulation.Link) int {
	for _, id := range l.(*link).Sessions() {
		if at := s.Connected(id); len(at) > 0 && r.IntN(4) > 0 {
			return at[0]
		}
	}
	return r.IntN(s.Members())
}

// shortens has one member, or all, grant less to a session that continues
// there, and the client reconnect. Then the client may be cut off.
func (s *service) shortens(w simulation.World, r *rand.Rand, l simulation.Link) {
	one, all := r.IntN(s.Members()), r.IntN(2) == 0
	each := func(most time.Duration) {
		for m := range s.Members() {
			if all || m == one {
				s.Shorten(m, most)
			}
		}
	}
	each(w.TTL() / time.Duration(2+r.IntN(3)))
	l.Reset()
	time.Sleep(some(r, w.TTL()/4))
	s.mayCut(w, r, l)
	time.Sleep(some(r, w.TTL()))
	each(0)
}

// mayCut cuts a client off for more than the TTL, or does not.
func (s *service) mayCut(w simulation.World, r *rand.Rand, l simulation.Link) {
	if r.IntN(2) == 0 {
		return
	}
	l.Cut()
	time.Sleep(w.TTL() + some(r, w.TTL()/2))
	l.Heal()
}

// reachesOne cuts a client off from all members but one, for a time and beside
// other faults. It is often the leader.
func (s *service) reachesOne(w simulation.World, r *rand.Rand, l simulation.Link) {
	m := s.serving(r, l)
	if leader := s.Leader(); leader >= 0 && r.IntN(2) == 0 {
		m = leader
	}
	l.(*link).Reach(m)
	time.AfterFunc(some(r, 2*w.TTL()), func() { l.(*link).Reach(-1) })
}

func (s *service) lags(w simulation.World, r *rand.Rand, l simulation.Link) {
	m := s.serving(r, l)
	s.Lag(m, some(r, w.TTL()/2))
	time.Sleep(some(r, 2*w.TTL()))
	s.Lag(m, 0)
}

// stalls has a member apply nothing for a time, that does not lead.
func (s *service) stalls(w simulation.World, r *rand.Rand, l simulation.Link) {
	m := s.serving(r, l)
	if m == s.Leader() {
		m = (m + 1) % s.Members()
	}
	s.Stall(m, true)
	time.Sleep(some(r, 2*w.TTL()))
	s.Stall(m, false)
}

func (s *service) elects(_ simulation.World, r *rand.Rand, _ simulation.Link) {
	s.Elect(r.IntN(s.Members()))
}

// pausesLeader pauses the leader while the others elect another. When it goes
// on it does not know that, for up to a tick. A client may reach no other
// member, and may be cut off then.
func (s *service) pausesLeader(w simulation.World, r *rand.Rand, l simulation.Link) {
	m := s.Leader()
	if m < 0 {
		return
	}
	if r.IntN(2) == 0 {
		l.(*link).Reach(m)
		defer l.Heal()
		time.Sleep(w.TTL()/3 + some(r, w.TTL()/3)) // until the client has gone there
	}
	s.Pause(m)
	s.Isolate(m)
	if lasts := some(r, w.TTL()/4); r.IntN(2) == 0 {
		time.Sleep(lasts)
	} else { // connections do not outlive it
		time.Sleep(w.TTL()/4 + 2*lasts)
	}
	s.Resume(m)
	until := some(r, s.tick)
	time.AfterFunc(until+1, func() { s.Rejoin(m) })
	if r.IntN(2) == 0 {
		until = some(r, until)
	}
	time.Sleep(until)
	s.mayCut(w, r, l)
}

// isolates cuts a member off from the others. A follower notices that after
// some ticks, a leader after one.
func (s *service) isolates(_ simulation.World, r *rand.Rand, l simulation.Link) {
	m := s.serving(r, l)
	most := 5 * s.tick
	if m == s.Leader() {
		most = s.tick
	}
	s.Isolate(m)
	time.Sleep(some(r, most))
	s.Rejoin(m)
}

// move replaces some members by others with their names and data.
func (s *service) move(w simulation.World, r *rand.Rand, _ simulation.Link) {
	for m := range s.Members() {
		if s.Members() > 1 && r.IntN(3) == 0 {
			continue
		}
		s.Ensemble.Stop(m)
		s.Move(m)
		time.Sleep(some(r, w.TTL()/10))
		s.Ensemble.Start(m)
		time.Sleep(some(r, w.TTL()/10))
	}
	w.Reached("members moved")
}

func (s *service) crashes(w simulation.World, r *rand.Rand, l simulation.Link) {
	m := s.serving(r, l)
	s.Ensemble.Stop(m)
	time.Sleep(some(r, w.TTL()))
	s.Ensemble.Start(m)
}
