package virtualetcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Condition is what is wrong with a member.
type Condition int

const (
	// Healthy members do what etcd does.
	Healthy Condition = iota
	// Lagging members apply late: a slow disk or network. They answer
	// serializable reads from the past and send events later. They pass on
	// writes, and reply when they have caught up.
	Lagging
	// Stalled members do not apply and do not pass on what needs the log: a
	// disk that hangs. They answer serializable reads from the past and pings,
	// take watches, and pass on keep-alives. What they have taken happens when
	// they have caught up, unless its time is over.
	Stalled
	// Deposed members believe that they lead, although the others have a new
	// leader in a later term. They acknowledge keep-alives, which do not count,
	// and know no lease that is newer. Nothing that they have taken happens. It
	// is a stalled leader of a version before etcd 3.4.31 or 3.5.13.
	Deposed
	// Mute members take requests and do nothing: a process that is stopped.
	// They do it all when they go on.
	Mute
	// Unrenewing members answer no keep-alives, and are healthy otherwise.
	Unrenewing
)

// state is the condition of a member, and since when.
type state struct {
	Condition
	rev    int64 // up to which the member has applied
	term   uint64
	leases map[int64]int64 // the TTLs of those that a deposed member knows
	healed chan struct{}   // closed when the condition ends
}

// behind reports whether the member shows the past.
func (s state) behind() bool {
	return s.Condition == Lagging || s.Condition == Stalled || s.Condition == Deposed
}

// Suffer lets the member get into a condition, until Heal. The watches of a
// member that has caught up get the events that they missed.
func (m *Member) Suffer(c Condition) {
	m.Heal()
	server := m.etcd.Server()
	if c == Healthy || server == nil {
		return
	}
	s := state{Condition: c, healed: make(chan struct{})}
	s.rev, s.term = server.KV().Rev(), m.etcd.shownTerm(server.Term())
	if c == Deposed {
		s.leases = m.etcd.leases()
		m.etcd.depose()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = s
}

// Heal ends the condition of the member.
func (m *Member) Heal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now.Condition == Healthy {
		return
	}
	close(m.now.healed)
	m.now = state{}
	for s := range m.opened {
		go s.flush()
	}
}

func (m *Member) at() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// await waits until the condition has ended. A nil ctx has no end.
func (s state) await(ctx, life context.Context) error {
	select {
	case <-s.healed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-life.Done():
		return life.Err()
	}
}

// local reports whether a request is a read that the member answers by itself,
// and lets it read the past.
func (s state) local(req any) bool {
	old := func(r *pb.RangeRequest) bool {
		if r == nil || !r.Serializable {
			return false
		}
		if r.Revision == 0 {
			r.Revision = s.rev
		}
		return r.Revision <= s.rev
	}
	switch r := req.(type) {
	case *pb.RangeRequest:
		return old(r)
	case *pb.TxnRequest:
		for _, op := range append(r.Success, r.Failure...) {
			if !old(op.GetRequestRange()) {
				return false
			}
		}
		return len(r.Compare) == 0
	}
	return false
}

// forwarded reports whether a stalled member passes a request on to the leader:
// those about leases that need no log.
func forwarded(req any) bool {
	switch req.(type) {
	case *pb.LeaseTimeToLiveRequest, *pb.StatusRequest, *pb.MemberListRequest:
		return true
	}
	return false
}

// shownTerm is the term that healthy members show while the server's is term.
func (e *Etcd) shownTerm(term uint64) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return term + e.deposed
}

// depose starts a new term, in which another member leads.
func (e *Etcd) depose() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deposed++
}
