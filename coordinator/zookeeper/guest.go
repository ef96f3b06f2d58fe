package zookeeper

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

var _ driver.Revoker = (*guest)(nil)

// guest is a session whose lines are shared with other clients: see shared.go. Its entries have no heels, and a line's own node is not
// written to, since it may be somebody's. What it has of session is all below the names.
type guest struct {
	*session
	mu    sync.Mutex
	known map[string]bool // the paths of entries of this session's, as far as it knows: names do not tell
}

// note notes an entry of this session's, or that it has gone.
func (g *guest) note(node string, there bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if delete(g.known, node); there {
		g.known[node] = true
	}
}

// head is what the names of a contender's entries begin with, whatever its mode. The session fills up what the ID leaves of 32
// digits, with the last ones of its number, which differ the most.
func (g *guest) head(id string) string {
	session := fmt.Sprintf("%016x", uint64(g.id))
	return g.layout.head(id + session[len(id)-16:])
}

// Join makes the node, and then asks for its czxid, which is the token, and lists the line. The other clients do the
// same without the czxid. Both requests are under way at once.
func (g *guest) Join(ctx context.Context, line driver.Line, c driver.Contender) (driver.Joined, error) {
	text, err := g.check(line, c)
	if err != nil {
		return driver.Joined{}, err
	}
	f, earlier := g.joins.begin(line, c.ID)
	defer f.end()
	if c.Again {
		names, err := g.mine(ctx, line, c.ID, earlier)
		if err != nil {
			return driver.Joined{}, err
		}
		if len(names) > 0 {
			return g.arrive(ctx, line, c, names[0])
		}
	}
	if c.Alone {
		if view, err := g.Ahead(ctx, line, driver.Place{}); err != nil {
			return driver.Joined{}, err
		} else if len(view.Ahead) > 0 {
			return driver.Joined{}, driver.ErrTaken
		}
	}
	for range maxTries {
		name, err := g.make(ctx, line, c, text, f)
		switch {
		case err == nil:
			return g.arrive(ctx, line, c, name)
		case !errors.Is(err, zk.ErrNoNode):
			return driver.Joined{}, err
		}
		if err := g.ensure(ctx, g.path(line)); err != nil {
			return driver.Joined{}, err
		}
	}
	return driver.Joined{}, driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: the line's node vanished again and again"))
}

// check returns the mark of a contender that can stand in the line.
func (g *guest) check(line driver.Line, c driver.Contender) (text string, err error) {
	if err := cmp.Or(g.checkLine(line), checkContender(c)); err != nil {
		return "", err
	}
	form := g.layout.form(line)
	if form == nil {
		return "", g.noForm(line)
	}
	text, ok := form.mark(c.Mode)
	if !ok {
		return "", invalid("mode %q in line %q: layout %s has nothing like it", c.Mode, line, g.layout.name)
	}
	if c.Record != 0 {
		return "", g.noRecords()
	}
	return text, form.check(c.Value)
}

// make sends the request that makes the node, and returns its name.
func (g *guest) make(ctx context.Context, line driver.Line, c driver.Contender, text string, f *flight) (string, error) {
	create := g.creating(g.below(line, g.head(c.ID)+text), c.Value, zk.FlagEphemeralSequential)
	if g.layout.form(line).unordered {
		create.Flags = zk.FlagEphemeral
	}
	o, err := g.multi(ctx, f, []any{create})
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(o.made[0], create.Path) {
		return "", misdirected(o.made[0])
	}
	return path.Base(o.made[0]), nil
}

// arrive looks where a node stands.
func (g *guest) arrive(ctx context.Context, line driver.Line, c driver.Contender, name string) (driver.Joined, error) {
	full := g.below(line, name)
	n, ok := g.layout.form(line).parse(name)
	if !ok || n.seq < 0 || n.seq > math.MaxInt32-reserve {
		if err := g.remove(ctx, full); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return driver.Joined{}, err
		}
		return driver.Joined{}, g.layout.spent(line, name)
	}
	listing, err := start(ctx, g.session, g.slots, func() ([]string, error) {
		names, _, err := g.conn.Children(g.path(line))
		return names, err
	})
	if err != nil {
		return driver.Joined{}, err
	}
	stat, err := g.stat(ctx, full)
	if err != nil {
		return driver.Joined{}, vanished(err)
	}
	names, err := await(ctx, g.session, listing)
	if err != nil {
		return driver.Joined{}, vanished(err)
	}
	all := g.parse(line, names)
	i := slices.IndexFunc(all.nodes, func(n node) bool { return n.Key == name })
	if i < 0 {
		return driver.Joined{}, vanished(driver.ErrGone)
	}
	j := driver.Joined{
		Place: driver.Place{Key: name, ID: c.ID, Mode: n.Mode, Session: g.hex}, Token: driver.Token(stat.Czxid),
	}
	g.note(full, true)
	ambiguous := g.layout.ambiguousFor(line, all)
	if g.layout.form(line).unordered {
		i = len(all.nodes) - 1
	}
	j.First = i == 0 && ambiguous == nil
	if i > 0 && c.Follows && ambiguous == nil && !g.layout.form(line).unordered {
		j.Nearest = all.nodes[i-1].Place
	}
	if !c.Alone || j.First {
		return j, nil
	}
	if err := g.Leave(ctx, line, j.Place); err != nil && !errors.Is(err, driver.ErrGone) {
		return driver.Joined{}, err
	}
	return driver.Joined{}, cmp.Or(ambiguous, driver.ErrTaken)
}

// vanished is the error of a Join whose node was removed before it was seen: there is none now, and Join can be called again.
func vanished(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: somebody has removed the entry while it joined"))
	}
	return err
}

// parse reads the children of a line, in order.
func (s *session) parse(line driver.Line, names []string) crowd {
	if s.layout == nil {
		return parseChildren(names)
	}
	form := s.layout.form(line)
	var c crowd
	for _, name := range names {
		if n, ok := form.parse(name); ok {
			c.nodes = append(c.nodes, n)
		} else {
			c.strays = append(c.strays, strconv.Quote(name))
		}
	}
	// A writer that goes on as a reader has the same number twice for a moment.
	slices.SortFunc(c.nodes, func(a, b node) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(b.Mode, a.Mode)) })
	return c
}

// mine lists the names of a contender's nodes, after the given flights have landed: see session.Forget.
func (g *guest) mine(ctx context.Context, line driver.Line, id string, flights []*flight) (mine []string, err error) {
	for _, f := range flights {
		select {
		case <-f.landed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-g.over:
			return nil, g.reason()
		}
	}
	if err := g.sync(ctx, g.path(line)); err != nil {
		return nil, err
	}
	names, err := g.names(ctx, g.path(line))
	for _, name := range names {
		if !strings.HasPrefix(name, g.head(id)) {
			continue
		}
		stat, err := g.stat(ctx, g.below(line, name))
		switch {
		case err == nil && stat.EphemeralOwner == g.id:
			mine = append(mine, name)
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return nil, err
		}
	}
	return mine, err
}

// owns tells whether a place is that of a contender of this session.
func (g *guest) owns(line driver.Line, own driver.Place) error {
	if err := cmp.Or(g.checkLine(line), checkKey(line, own)); err != nil {
		return err
	}
	if g.layout.form(line) == nil {
		return g.noForm(line)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known[g.below(line, own.Key)] || !within(own.ID, 16, 32, isHex) || !strings.HasPrefix(own.Key, g.head(own.ID)) {
		return driver.Wrap(driver.ErrGone, errNotMine)
	}
	return nil
}

// Leave deletes the node.
func (g *guest) Leave(ctx context.Context, line driver.Line, own driver.Place) error {
	if err := g.owns(line, own); err != nil {
		return err
	}
	node := g.below(line, own.Key)
	err := g.remove(ctx, node)
	if err == nil || errors.Is(err, driver.ErrGone) {
		g.drop(node)
	}
	return err
}

// drop forgets an entry that is gone.
func (g *guest) drop(node string) {
	g.note(node, false)
	g.written.drop(node)
}

// Capabilities lack handoffs, which no other client of a layout knows of.
func (g *guest) Capabilities() driver.Capabilities {
	return driver.Capabilities{Converter: g, Writer: g, HeadWatcher: g, Operator: g, Revoker: g}
}

// Forget is session.Forget.
func (g *guest) Forget(ctx context.Context, line driver.Line, id string) error {
	if err := g.checkLine(line); err != nil {
		return err
	}
	if !within(id, 16, 32, isHex) {
		return invalid("contender ID %q: want 16 to 32 lower-case hex digits", id)
	}
	flights := g.joins.flights(id)
	for missed := true; missed; flights = nil {
		names, err := g.mine(ctx, line, id, flights)
		if err != nil {
			return err
		}
		missed = false
		for _, name := range names {
			switch err := g.remove(ctx, g.below(line, name)); {
			case errors.Is(err, zk.ErrNoNode):
				missed = true
			case err != nil:
				return err
			}
			g.drop(g.below(line, name))
		}
	}
	return nil
}

// Convert makes another node with the same number in place of the old one, in one transaction: as Curator does when a writer
// goes on as a reader. The others see the new node where the old one stood. Its czxid is another one.
func (g *guest) Convert(ctx context.Context, line driver.Line, own driver.Joined, mode string, value []byte) (driver.Place, error) {
	if err := cmp.Or(g.owns(line, own.Place), checkMode(mode), checkValue(value)); err != nil {
		return driver.Place{}, err
	}
	text, ok := g.layout.form(line).mark(mode)
	old, known := g.layout.form(line).parse(own.Place.Key)
	if !ok || !known || mode == old.Mode {
		return driver.Place{}, invalid("place %q in line %q: it cannot have mode %q", own.Place.Key, line, mode)
	}
	to := own.Place
	to.Key, to.Mode = fmt.Sprintf("%s%s%010d", g.head(to.ID), text, old.seq), mode
	err := g.replace(ctx, line, node{Place: own.Place}, node{Place: to}, bytes.Clone(value))
	if errors.Is(err, zk.ErrNoNode) {
		err = g.stands(ctx, line, node{Place: to})
	}
	if err != nil {
		return driver.Place{}, err
	}
	g.drop(g.below(line, own.Place.Key))
	g.note(g.below(line, to.Key), true)
	return to, nil
}

// Write is session.Write, where a value may change.
func (g *guest) Write(ctx context.Context, line driver.Line, own driver.Place, value []byte) error {
	if err := cmp.Or(g.owns(line, own), checkValue(value)); err != nil {
		return err
	}
	form := g.layout.form(line)
	if form.silent {
		return invalid("line %q: in layout %s values do not change: whoever waits behind would not be told any more when the entry goes", line, g.layout.name)
	}
	if err := form.check(value); err != nil {
		return err
	}
	return g.write(ctx, g.below(line, own.Key), bytes.Clone(value))
}

// Revoked watches what is written to own. Whoever asks writes over the value, which others see then.
func (g *guest) Revoked(ctx context.Context, line driver.Line, own driver.Place) error {
	if err := g.owns(line, own); err != nil {
		return err
	}
	if !g.layout.form(line).revocable {
		return invalid("line %q: in layout %s nobody can ask for that", line, g.layout.name)
	}
	node := g.below(line, own.Key)
	return g.wait(ctx, func(zk.Event) (*watch, error) {
		w, err := g.watch(ctx, watchKey{onRecord, node}, node)
		if err != nil || string(w.seen.value) == revoke {
			return nil, err
		}
		return w, nil
	})
}

func (g *guest) noForm(line driver.Line) error {
	return invalid("line %q: layout %s has nothing like it", line, g.layout.name)
}

func (g *guest) noRecords() error { return invalid("layout %s has no records", g.layout.name) }

// Record is refused, unless the layout has one.
func (g *guest) Record(ctx context.Context, line driver.Line, known driver.Version) (driver.Record, error) {
	if form := g.layout.form(line); form == nil || !form.recorded {
		return driver.Record{}, g.noRecords()
	}
	return g.session.Record(ctx, line, known)
}

// SetRecord is likewise. It makes the line's node.
func (g *guest) SetRecord(ctx context.Context, line driver.Line, value []byte, known driver.Version) (driver.Version, error) {
	if form := g.layout.form(line); form == nil || !form.recorded {
		return 0, g.noRecords()
	}
	return g.session.SetRecord(ctx, line, value, known)
}

// Ahead is session.Ahead, where there is an order.
func (g *guest) Ahead(ctx context.Context, line driver.Line, own driver.Place) (driver.View, error) {
	view, err := g.session.Ahead(ctx, line, own)
	form := g.layout.form(line)
	if err != nil || own == (driver.Place{}) || form == nil || !form.unordered {
		return view, err
	}
	if view, err = g.session.Ahead(ctx, line, driver.Place{}); err != nil {
		return view, err
	}
	view.Last = false
	view.Ahead = slices.DeleteFunc(view.Ahead, func(p driver.Place) bool { return p.Key == own.Key })
	return view, nil
}
