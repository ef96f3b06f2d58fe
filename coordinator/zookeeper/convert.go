package zookeeper

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Convert makes a node in place of the old one, in one transaction. What stays, the place in the line and the token, is in
// the new node's name: see names.go. A view is one listing, which shows what is before or after a transaction.
//
// The transaction deletes the old node, and no node is ever made again under a name that was used. So of all attempts one
// at most is applied; none is, once the contender has left; and when the old node is not there there are
// no two ways about it: either an earlier attempt has made the new one, or it is gone. All that was before the answer is
// known to the server that gave it, so the look that tells which needs no sync and waits for no other attempt.
func (s *session) Convert(ctx context.Context, line driver.Line, own driver.Joined, mode string, value []byte) (driver.Place, error) {
	if err := cmp.Or(s.checkLine(line), checkKey(line, own.Place), checkMode(mode), checkValue(value)); err != nil {
		return driver.Place{}, err
	}
	old, _ := parseNode(own.Place.Key)
	if old.Session != s.hex {
		return driver.Place{}, driver.Wrap(driver.ErrGone, errNotMine)
	}
	switch {
	case own.Token <= 0 || old.tokenOr(int64(own.Token)) != own.Token:
		return driver.Place{}, invalid("place %q in line %q: token %d is not the one that it was given", own.Place.Key, line, own.Token)
	case old.Mode == mode:
		return driver.Place{}, invalid("place %q in line %q: it has mode %q already", own.Place.Key, line, mode)
	}
	to := old.converted(mode, own.Token)
	err := s.replace(ctx, line, old, to, value)
	if errors.Is(err, zk.ErrNoNode) {
		err = s.stands(ctx, line, to)
	}
	if err != nil {
		return driver.Place{}, err
	}
	s.written.drop(s.below(line, old.Key))
	s.traces.converted(line, old, to)
	return to.Place, nil
}

// replace sends the request that converts. It is a flight of the contender's, so that Forget waits until it has landed.
func (s *session) replace(ctx context.Context, line driver.Line, old, to node, value []byte) error {
	f, _ := s.joins.begin(line, old.ID)
	defer f.end()
	parent := s.path(line) + "/"
	ops := []any{deleting(parent + old.Key), s.creating(parent+to.Key, value, zk.FlagEphemeral)}
	if heel := s.traces.of(line, old).heel; heel != "" { // to those who follow, the old place has left
		ops = append(ops, deleting(parent+heel))
	}
	for {
		o, err := s.multi(ctx, f, ops)
		if err == nil || o.failed != 3 {
			return err
		}
		ops = ops[:2] // somebody else has deleted the heel
	}
}

// stands returns nil if a node is in the line, else ErrGone.
func (s *session) stands(ctx context.Context, line driver.Line, n node) error {
	_, err := s.stat(ctx, s.below(line, n.Key))
	return err
}

// stat reads what the service keeps of a node beside its data. A node that is not there is zk.ErrNoNode.
func (s *session) stat(ctx context.Context, node string) (*zk.Stat, error) {
	return call(ctx, s, func() (*zk.Stat, error) {
		there, stat, err := s.conn.Exists(node)
		if err == nil && !there {
			err = zk.ErrNoNode
		}
		return stat, err
	})
}
