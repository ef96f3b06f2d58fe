package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Lines lists the kinds, then the names of each, then the children of each of those, all of a kind under way at once. It begins with a
// sync: another session may have joined a line for good, and this one's server may not have heard of that.
//
// What is not readable is an error, and not left out: whoever asks which locks are held must not be told less.
func (s *session) Lines(ctx context.Context) ([]driver.Line, error) {
	if err := s.sync(ctx, s.top()); err != nil {
		return nil, err
	}
	kinds, err := s.list(ctx, s.top())
	if err != nil {
		return nil, err
	}
	var lines []driver.Line
	for _, kind := range kinds {
		if s.root == "" && kind == reserved {
			continue
		}
		names, err := s.list(ctx, s.root+"/"+kind)
		if err != nil {
			return nil, err
		}
		standing, err := s.standingIn(ctx, kind, names)
		if err != nil {
			return nil, err
		}
		lines = append(lines, standing...)
	}
	return lines, nil
}

// standingIn returns those of the names of a kind in whose lines somebody stands. Records are no lines, and neither is what other programs
// have beside them.
func (s *session) standingIn(ctx context.Context, kind string, names []string) ([]driver.Line, error) {
	var lines []driver.Line
	listings := make([]*reply[[]string], 0, len(names))
	for _, name := range names {
		line := driver.Line(kind + "/" + name)
		if s.checkLine(line) != nil {
			continue
		}
		listing, err := start(ctx, s, s.slots, func() ([]string, error) {
			children, _, err := s.conn.Children(s.path(line))
			return children, err
		})
		if err != nil {
			return nil, err
		}
		lines, listings = append(lines, line), append(listings, listing)
	}
	stands := make(map[driver.Line]bool)
	for i, listing := range listings {
		children, err := await(ctx, s, listing)
		if err = unlisted(s.path(lines[i]), err); err != nil {
			return nil, err
		}
		stands[lines[i]] = slices.ContainsFunc(children, func(name string) bool {
			_, ok := parseNode(name)
			return ok
		})
	}
	return slices.DeleteFunc(lines, func(line driver.Line) bool { return !stands[line] }), nil
}

// list reads the names of the children of a node; there are none if it is not there.
func (s *session) list(ctx context.Context, node string) ([]string, error) {
	names, err := call(ctx, s, func() ([]string, error) {
		names, _, err := s.conn.Children(node)
		return names, err
	})
	return names, unlisted(node, err)
}

// unlisted is the error of a listing, nil if the node is not there. A refusal names the node, which the caller does not know.
func unlisted(node string, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case errors.Is(err, driver.ErrRefused):
		return driver.Wrap(driver.ErrRefused, fmt.Errorf("zookeeper: the children of %s: %w", node, err))
	}
	return err
}

// Lines is refused.
func (g *guest) Lines(context.Context) ([]driver.Line, error) {
	return nil, invalid("lines cannot be listed in layout %s, whose nodes do not say what is a line: name the one that you want", g.layout.name)
}
