package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Leave deletes the node, in one request, and its heel with it.
//
// No version or owner needs to be checked at the service: a node's name holds a random ID, a
// session and a sequence number, so the path is the entry, and is never another one.
func (s *session) Leave(ctx context.Context, line driver.Line, own driver.Place) error {
	return s.withdraw(ctx, line, own, false)
}

// Pass deletes the node and writes to its heel, if it has one and the line is busy still: in one transaction, which
// also deletes the heel of the one that passed to it.
func (s *session) Pass(ctx context.Context, line driver.Line, own driver.Place) error {
	return s.withdraw(ctx, line, own, true)
}

func (s *session) withdraw(ctx context.Context, line driver.Line, own driver.Place, pass bool) error {
	if err := cmp.Or(s.checkLine(line), checkKey(line, own)); err != nil {
		return err
	}
	n, _ := parseNode(own.Key)
	if n.Session != s.hex {
		// Any client could delete it. Only the session that holds may let go.
		return driver.Wrap(driver.ErrGone, errNotMine)
	}
	tr := s.traces.of(line, n)
	pass = pass && tr.heel != "" && tr.heel == n.heel() && s.traffic.busy(line) && s.left.note(line, tr.heel, 1)
	err := s.depart(ctx, line, n, tr, pass)
	if tr.heel != "" && errors.Is(err, driver.ErrGone) {
		// Somebody else has deleted the entry, or an earlier attempt of this call had no answer.
		s.shed(ctx, line, tr.heel)
	}
	return err
}

// depart deletes a node and what is to go with it, and forgets it when it is gone.
func (s *session) depart(ctx context.Context, line driver.Line, n node, tr trace, pass bool) error {
	node := s.below(line, n.Key)
	err := s.takeAway(ctx, line, n, node, tr, pass)
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.written.drop(node)
		s.traces.drop(line, n)
	}
	return err
}

// takeAway sends the request that deletes a node, and what is to go with it. When something of that is not there any more, or
// is refused, it is left out: only the node itself counts.
func (s *session) takeAway(ctx context.Context, line driver.Line, n node, node string, tr trace, pass bool) error {
	if !pass && tr.heel == "" && len(tr.spent) == 0 {
		return s.remove(ctx, node)
	}
	parent := s.path(line) + "/"
	var ops []any
	at := 0   // where the node's own is
	if pass { // before the node goes: see Follow
		ops = append(ops, &zk.SetDataRequest{Path: parent + tr.heel, Data: says{n, true}.data()})
		at = 1
	}
	ops = append(ops, deleting(node))
	if tr.heel != "" && !pass {
		ops = append(ops, deleting(parent+tr.heel))
	}
	for _, name := range tr.spent {
		ops = append(ops, deleting(parent+name))
	}
	for len(ops) > 1 {
		o, err := s.multi(ctx, nil, slices.Clone(ops))
		bad := o.failed - 1
		switch {
		case err == nil || bad < 0 || bad == at:
			return err
		case pass && !errors.Is(err, zk.ErrNoNode) && bad < at: // whoever follows must not wait for it
			ops[bad], pass = deleting(parent+tr.heel), false
		default:
			if ops = slices.Delete(ops, bad, bad+1); bad < at {
				at--
			}
		}
	}
	return s.remove(ctx, node)
}

// Forget deletes whatever nodes a contender of this session has in a line, after making sure that
// no more can appear. A request to join, or to convert, is in one of four places:
//
//   - In this process: waiting for the connection, queued in the Conn, or sent and unanswered.
//     The Conn sends what is queued even after a reconnect, so Forget waits until the
//     goroutine of each such request has returned. That takes a quarter of the TTL
//     at most, see impatience.
//   - On a connection that was lost, or at the server at its end. This session has a
//     connection now, or Forget could not ask. A server that another connection of the session
//     is made to closes the old one before it answers; if it is another server, the leader has
//     noted the move and refuses what the old server passes on later.
//   - At the leader, not yet committed, or committed and not yet known to the server that
//     this session is connected to. The sync queues behind it at the leader and its answer
//     comes to this server after it.
//   - Applied, then, and in the listing.
//
// A conversion that is called while Forget runs may give the node another name after the listing. Then the delete
// finds nothing, and Forget lists again. Once a delete has found the node, no conversion does any more.
func (s *session) Forget(ctx context.Context, line driver.Line, id string) error {
	if err := s.checkLine(line); err != nil {
		return err
	}
	if !within(id, 16, 32, isHex) {
		return invalid("contender ID %q: want 16 to 32 lower-case hex digits", id)
	}
	joins := s.joins.flights(id)
	for missed := true; missed; {
		nodes, all, err := s.mine(ctx, line, id, joins)
		if err != nil {
			return err
		}
		missed, joins = false, nil
		for _, n := range nodes {
			tr := s.traces.of(line, n)
			if tr.heel = ""; all.hasHeel(n) {
				tr.heel = n.heel()
			}
			err := s.depart(ctx, line, n, tr, false)
			if errors.Is(err, zk.ErrNoNode) {
				missed, err = true, nil
			}
			if err != nil {
				return err
			}
		}
		if !missed {
			err = s.removeOrphans(ctx, line, all, id)
		}
		if err != nil {
			return err
		}
	}
	s.traces.forget(line, id)
	return nil
}

// removeOrphans deletes those of the heels whose entries are gone that are a contender's of this session: somebody else has deleted
// its entry.
func (s *session) removeOrphans(ctx context.Context, line driver.Line, c crowd, id string) error {
	for _, name := range c.orphans() {
		heel := s.below(line, name)
		data, err := call(ctx, s, func() ([]byte, error) {
			data, _, err := s.conn.Get(heel)
			return data, err
		})
		if err == nil && s.ownsHeel(name, data, id) {
			err = s.remove(ctx, heel)
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, driver.ErrRefused) {
			return err
		}
	}
	return nil
}

// ownsHeel tells whether a heel is that of a contender of this session.
func (s *session) ownsHeel(name string, data []byte, id string) bool {
	h, ok := read(name, data)
	return ok && h.node.ID == id && h.node.Session == s.hex
}
