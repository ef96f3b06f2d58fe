package zookeeper

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Survey lists the line by the request that sets a watch on it. Where the
// order takes more than a listing, the line is read as by Ahead, and watched
// as by Watch.
func (s *session) Survey(ctx context.Context, line driver.Line) (v driver.View, change func(context.Context) error, err error) {
	v.Last = true
	if err := s.checkLine(line); err != nil {
		return v, nil, err
	}
	again := s.presence.reconnected() // before looking, so that none is missed
	if s.layout == nil {
		w, err := s.listing(ctx, line)
		if err != nil || w == nil {
			return v, nil, err
		}
		c := s.parse(line, w.names())
		if !slices.ContainsFunc(c.nodes, node.late) {
			return c.ahead(len(c.nodes)), func(ctx context.Context) error {
				_, err := s.attend(ctx, w, again)
				return err
			}, s.ambiguous(line, c)
		}
	}
	v, err = s.Ahead(ctx, line, driver.Place{})
	return v, func(ctx context.Context) error { return s.Watch(ctx, line, v.Ahead...) }, err
}

// listing is the watch on a line that has seen its children; nil if there is no line.
func (s *session) listing(ctx context.Context, line driver.Line) (*watch, error) {
	path := s.path(line)
	w, err := freshly(ctx, s, path, func() (*watch, error) {
		w, err := s.watch(ctx, watchKey{onLine, path}, path)
		return w, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return w, err
}
