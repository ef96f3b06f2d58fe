package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Check reads one node's Stat, after a sync: another session may have seen the entry go, and this one's server may not have heard
// of that (K1). If the connection breaks between the two, the next server is no older than the answer to the sync.
//
// A leader that has lost its quorum answers a sync until it finds out, which takes a tick. A transaction would not have that gap, and
// would be a write: see Guard.
func (s *session) Check(ctx context.Context, line driver.Line, key string, token driver.Token) error {
	if err := s.checkLine(line); err != nil {
		return err
	}
	n, ok := parseNode(key)
	if !ok || checkKey(line, n.Place) != nil {
		return driver.ErrGone
	}
	if err := s.sync(ctx, s.path(line)); err != nil {
		return err
	}
	stat, err := s.stat(ctx, s.below(line, n.Key))
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrInvalidPath): // a key is what another process says it is
		return driver.Wrap(driver.ErrGone, err)
	case err == nil && n.tokenOr(stat.Czxid) != token:
		return driver.ErrGone
	}
	return err
}
