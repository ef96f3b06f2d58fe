package zookeeper

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Leave deletes the node, in one request.
//
// No version or owner needs to be checked at the service: a node's name holds a random ID, a
// session and a sequence number, so the path is the entry, and is never another one.
func (s *session) Leave(ctx context.Context, line driver.Line, own driver.Place) error {
	if err := cmp.Or(s.checkLine(line), checkKey(line, own)); err != nil {
		return err
	}
	if n, _ := parseNode(own.Key); n.Session != s.hex {
		// Any client could delete it. Only the session that holds may let go.
		return driver.Wrap(driver.ErrGone, errNotMine)
	}
	node := s.path(line) + "/" + own.Key
	err := s.remove(ctx, node)
	switch {
	case err == nil:
		s.written.drop(node)
		s.lent.strike(line, own.ID)
	case errors.Is(err, driver.ErrGone):
		s.written.drop(node)
		s.lent.strikeGone(line, own.ID)
	}
	return err
}

func (s *session) remove(ctx context.Context, node string) error {
	_, err := call(ctx, s, func() (struct{}, error) {
		return struct{}{}, s.conn.Delete(node, -1)
	})
	return err
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
		nodes, _, err := s.mine(ctx, line, id, joins)
		if err != nil {
			return err
		}
		missed, joins = false, nil
		for _, n := range nodes {
			node := s.path(line) + "/" + n.Key
			err := s.remove(ctx, node)
			if errors.Is(err, zk.ErrNoNode) {
				missed, err = true, nil
			}
			if err != nil {
				return err
			}
			s.written.drop(node)
		}
	}
	s.lent.strike(line, id)
	return nil
}

// Pass is Leave.
func (s *session) Pass(ctx context.Context, line driver.Line, own driver.Place) error {
	return s.Leave(ctx, line, own)
}

// Follow is Watch of one place.
func (s *session) Follow(ctx context.Context, line driver.Line, _, ahead driver.Place) (passed bool, err error) {
	return false, s.Watch(ctx, line, ahead)
}
