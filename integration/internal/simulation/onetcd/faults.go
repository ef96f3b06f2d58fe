package onetcd

import (
	"math/rand/v2"
	"time"

	"github.com/baton-go/baton/integration/internal/simulation"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
)

// The states that a run must reach.
var states = []string{
	"compacted while contenders wait", "a member lags behind a watch", "a member stalls behind a watch",
	"a member is mute", "a holder is cut off while a deposed leader acknowledges", "out of space",
	"a member is ill for long", "members moved", "authentication switched on while contenders wait",
	simulation.LongOutage,
}

// Faults are those of etcd alone.
func (s *service) Faults() []simulation.Fault {
	condition := func(kind string, c virtualetcd.Condition, state string) simulation.Fault {
		return simulation.Fault{Kind: kind, Do: func(w simulation.World, r *rand.Rand, l simulation.Link) {
			lasts := time.Duration(1 + r.Int64N(int64(longestFault(w.TTL()))))
			if s.chronic && c != virtualetcd.Lagging {
				lasts, state = chronicFault*w.TTL(), "a member is ill for long"
			}
			s.suffers(c, lasts, r, l.(*link), state)
		}}
	}
	all := []simulation.Fault{
		{Kind: "one member reached", Do: func(w simulation.World, r *rand.Rand, l simulation.Link) {
			s.reachesOne(w, r, l.(*link), s.Members()[r.IntN(3)])
		}},
		condition("member lags", virtualetcd.Lagging, "a member lags behind a watch"),
		condition("member stalls", virtualetcd.Stalled, "a member stalls behind a watch"),
		condition("member is mute", virtualetcd.Mute, "a member is mute"),
		{Kind: "leader deposed", Do: s.deposes},
		{Kind: "compacted", Do: func(w simulation.World, _ *rand.Rand, _ simulation.Link) {
			if s.Compact() == nil && s.waiting() {
				w.Reached("compacted while contenders wait")
			}
		}},
		{Kind: "restarted", Do: func(w simulation.World, r *rand.Rand, _ simulation.Link) {
			s.Stop()
			time.Sleep(time.Duration(1 + r.Int64N(int64(w.TTL()/10))))
			s.Start()
		}},
		{Kind: "out of space", Do: s.fills},
	}
	if s.named {
		all = append(all, simulation.Fault{Kind: "members move", Do: s.move})
	}
	if s.user != nil {
		all = append(all, simulation.Fault{Kind: "authentication", Do: s.authenticates})
	}
	return all
}

// authenticates switches authentication on, once. A member that lags does not
// know it yet and gives no token to a client with a user. If that client
// reaches one other member only, it can ask for its token at the first and send
// its request to the second each time, until the first has caught up.
func (s *service) authenticates(w simulation.World, _ *rand.Rand, _ simulation.Link) {
	waiting := s.waiting()
	w.Refuses(true)
	defer w.Refuses(false)
	if s.EnableAuth() != nil {
		return
	}
	if waiting {
		w.Reached("authentication switched on while contenders wait")
	}
	time.Sleep(longestFault(w.TTL()))
}

// reachesOne cuts a client off from all members but one, for a time and beside
// other faults.
func (s *service) reachesOne(w simulation.World, r *rand.Rand, l *link, m *virtualetcd.Member) {
	if serving := l.Serving(); serving != nil && r.IntN(2) == 0 {
		m = serving
	}
	l.Reach(m)
	time.AfterFunc(time.Duration(1+r.Int64N(int64(longestFault(w.TTL())))), func() { l.Reach(nil) })
}

// longestFault is how long a member is not healthy at most.
func longestFault(ttl time.Duration) time.Duration { return 2 * ttl }

// chronicFault is how many TTLs a member is ill in some worlds: longer than the
// faults of others, since no wait may rest on it.
const chronicFault = 16

// waiting reports whether some queue has more than one entry.
func (s *service) waiting() bool {
	for _, queue := range s.Queues() {
		if len(s.Snapshot(queue)) > 1 {
			return true
		}
	}
	return false
}

// suffers lets one member get into a condition for a time, beside other faults.
// More than one of three would be a cluster without a quorum. It is often the
// one with the client's watches.
func (s *service) suffers(
	c virtualetcd.Condition, lasts time.Duration, r *rand.Rand, l *link, state string,
) {
	m, serving := s.Members()[r.IntN(3)], l.Serving()
	if serving != nil && r.IntN(3) > 0 {
		m = serving
	}
	if !s.fallsIll(m) {
		return
	}
	m.Suffer(c)
	if m == serving && s.waiting() || c == virtualetcd.Mute {
		s.world.Reached(state)
	}
	time.AfterFunc(lasts, func() {
		m.Heal()
		s.recovers(m)
	})
}

func (s *service) fallsIll(m *virtualetcd.Member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ill != nil {
		return false
	}
	s.ill = m
	return true
}

func (s *service) recovers(m *virtualetcd.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ill == m {
		s.ill = nil
	}
}

// healed: all members have been started again.
func (s *service) healed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ill = nil
}

// deposes lets a leader be deposed without noticing. Every session learns that
// from the others, for which the network has no other faults. Then a client is
// cut off: what the deposed leader has acknowledged since must not count.
func (s *service) deposes(w simulation.World, r *rand.Rand, chosen simulation.Link) {
	m := s.Members()[r.IntN(3)]
	if !s.fallsIll(m) {
		return
	}
	defer s.recovers(m)
	s.calm(true)
	defer s.calm(false)
	time.Sleep(2 * w.TTL()) // keep-alives go to all members again
	m.Suffer(virtualetcd.Deposed)
	time.Sleep(w.TTL() + time.Duration(1+r.Int64N(int64(w.TTL()))))
	w.Reached("a holder is cut off while a deposed leader acknowledges")
	if r.IntN(2) == 0 { // or it reaches the deposed leader alone
		chosen.Cut()
	} else {
		chosen.(*link).Reach(m)
	}
	time.Sleep(w.TTL() + time.Duration(1+r.Int64N(int64(w.TTL()/2))))
	chosen.Heal()
	m.Heal()
}

// move replaces some members by others with their names and data.
func (s *service) move(w simulation.World, r *rand.Rand, _ simulation.Link) {
	for _, m := range s.Members() {
		if r.IntN(3) > 0 {
			m.Move()
			time.Sleep(time.Duration(1 + r.Int64N(int64(w.TTL()/10))))
		}
	}
	w.Reached("members moved")
}

// calm lets requests have no faults, and heals all links.
func (s *service) calm(on bool) {
	s.mu.Lock()
	s.quiet = on
	links := s.ordered
	s.mu.Unlock()
	for _, l := range links {
		if on {
			l.Heal()
			l.Delay(0, 0)
		}
	}
}

// fills raises the alarm NOSPACE for a time.
func (s *service) fills(w simulation.World, r *rand.Rand, _ simulation.Link) {
	w.Refuses(true)
	defer w.Refuses(false)
	if s.SetNoSpace(true) != nil {
		return
	}
	w.Reached("out of space")
	time.Sleep(time.Duration(1 + r.Int64N(int64(w.TTL()))))
	_ = s.SetNoSpace(false)
}
