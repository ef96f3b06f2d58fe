package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Check reads one node's Stat, after a sync: another session may have seen the entry go, and this one's server may not have heard
// of that (K1). If the connection breaks between the two, the read may come to a server that is behind the sync, so both are repeated.
func (s *session) Check(ctx context.Context, line driver.Line, key string, token driver.Token) error {
	if err := s.checkLine(line); err != nil {
		return err
	}
	n, ok := parseNode(key)
	if !ok || checkKey(line, n.Place) != nil {
		return driver.ErrGone
	}
	for {
		connection := s.presence.number()
		if err := s.sync(ctx, s.path(line)); err != nil {
			return err
		}
		stat, err := s.stat(ctx, s.path(line)+"/"+n.Key)
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrInvalidPath): // a key is what another process says it is
			err = driver.Wrap(driver.ErrGone, err)
		case err != nil:
			return err
		case n.tokenOr(stat.Czxid) != token:
			err = driver.ErrGone
		}
		if s.presence.number() == connection {
			return err
		}
	}
}
