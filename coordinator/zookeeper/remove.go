package zookeeper

import (
	"context"

	"github.com/baton-go/baton/coordinator/driver"
)

// Remove deletes one node, after Check: its name is never another entry's, so between the two it can only go. Its heel goes with it, in
// the same transaction, since whoever follows waits with the heel.
func (s *session) Remove(ctx context.Context, line driver.Line, key string, token driver.Token) error {
	if err := s.Check(ctx, line, key, token); err != nil {
		return err
	}
	n, _ := parseNode(key)
	tr := trace{key: key}
	if n.ID != "" { // nobody else's entries have one
		tr.heel = n.heel()
	}
	return s.depart(ctx, line, n, tr, false)
}

// Remove deletes a node as the other clients do, who have no heels. A node without a sequence number is refused: whoever had it can
// make it again under the same name.
func (g *guest) Remove(ctx context.Context, line driver.Line, key string, token driver.Token) error {
	if err := g.checkLine(line); err != nil {
		return err
	}
	switch form := g.layout.form(line); {
	case form == nil:
		return g.noForm(line)
	case form.unordered:
		return invalid("line %q: in layout %s the names of entries come back, so that nobody can remove exactly one", line, g.layout.name)
	}
	if err := g.Check(ctx, line, key, token); err != nil {
		return err
	}
	return g.remove(ctx, g.below(line, key))
}
