// Package foreign is a driver for queues in the layouts of other ZooKeeper
// clients: Curator, go-zookeeper and Kazoo. Its contenders join as theirs do,
// so that they exclude each other; docs/interop.md says which recipes exclude
// which.
//
// Names are paths below the chroot, as the other client gets them. There are no
// successor nodes, and nothing else is written to a queue's own node. Children
// that are no contenders of the queue's kind make Join with Alone, Ahead, List
// and Head fail with driver.ErrRefused and the children's names. So does a
// queue that is about to run out of sequence numbers.
//
//	layout.go   the names of queues and entries
//	session.go  the driver and its sessions
package foreign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

type service struct {
	*nodes.Service
	layout *Layout
}

// New makes a driver.
func New(layout *Layout, of *nodes.Service) driver.Sharer {
	of.Tree.Plain.Store(layout.plain)
	layout.root = of.Tree.Root
	return &service{of, layout}
}

// SharedName accepts paths.
func (d *service) SharedName(kind, name string) (string, error) {
	if d.layout.kinds[kind] == nil {
		return "", zkconn.Invalid("%s %q: not supported by layout %s", kind, name, d.layout.name)
	}
	name = strings.TrimPrefix(name, "/")
	if err := coordinator.CheckName(name); err != nil {
		return name, err
	}
	for _, r := range name {
		// Other than in Baton's own layout, the name is a path as it is.
		if r > 0xFFFF || r >= 0xE000 && r <= 0xF8FF || r >= 0xFFF0 {
			return name, zkconn.Invalid("name %q has the character %U, which ZooKeeper does not "+
				"accept in a path", name, r)
		}
	}
	return name, nil
}

// SharedValue is the payload, or the identity: Curator shows it as the
// participant's ID, Kazoo as the contender's identifier.
func (d *service) SharedValue(kind, identity string, payload []byte) ([]byte, error) {
	if len(payload) == 0 {
		payload = []byte(identity)
	}
	return payload, d.layout.kinds[kind].check(payload)
}

// session is a session with queues shared with other clients.
type session struct {
	*nodes.Session
	layout *Layout
}

// Open starts a session.
func (d *service) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	conn, err := d.Connect(ctx, ttl)
	if err != nil {
		return nil, err
	}
	s := &session{Session: nodes.NewSession(conn, &d.Tree), layout: d.layout}
	s.Layout = s
	return s, nil
}

// Capabilities lack handoffs, which the other clients do not support.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{Converter: s, Writer: s, HeadWatcher: s, Operator: s, Revoker: s}
}

// Path implements nodes.Layout.
func (s *session) Path(queue driver.Queue) string { return s.Tree.Root + s.layout.path(queue) }

// RecordPath is the queue's own node, if the layout has a record there.
func (s *session) RecordPath(queue driver.Queue) string {
	if form := s.layout.form(queue); form == nil || !form.recorded {
		return ""
	}
	return s.Path(queue)
}

// Places implements nodes.Layout.
func (s *session) Places(
	_ context.Context, queue driver.Queue, names []string,
) ([]driver.Place, error) {
	return s.layout.places(queue, names)
}

// Entry implements nodes.Layout.
func (s *session) Entry(queue driver.Queue, key string, czxid int64) (driver.Place, driver.Token) {
	n, ok := s.layout.form(queue).parse(key)
	if !ok {
		return driver.Place{}, 0
	}
	return n.Place, driver.Token(czxid)
}

// Join creates the node, reads its czxid, which is the token, and lists the
// queue, both at once. The other clients do the same without the czxid.
func (s *session) Join(
	ctx context.Context, queue driver.Queue, c driver.Contender,
) (driver.Joined, error) {
	text, err := s.check(queue, c)
	if err != nil {
		return driver.Joined{}, err
	}
	f, err := s.BeginFlight(ctx, c.ID)
	if err != nil {
		return driver.Joined{}, err
	}
	defer f.End()
	if c.Again {
		names, err := s.ownNames(ctx, queue, c.ID)
		if err != nil {
			return driver.Joined{}, err
		}
		if len(names) > 0 {
			return s.finishJoin(ctx, queue, c, names[0])
		}
	}
	if c.Alone {
		if view, err := s.Ahead(ctx, queue, driver.Place{}); err != nil {
			return driver.Joined{}, err
		} else if len(view.Ahead) > 0 {
			return driver.Joined{}, driver.ErrTaken
		}
	}
	node := s.ChildPath(queue, s.layout.namePrefix(c.ID, s.Number())+text)
	create := s.CreateRequest(node, c.Value, zk.FlagEphemeralSequential)
	if s.layout.form(queue).unordered {
		create.Flags = zk.FlagEphemeral
	}
	o, err := nodes.WithParent(ctx, s.Session, s.Path(queue), func() (nodes.Outcome, error) {
		return s.Multi(ctx, f, []any{create})
	})
	switch {
	case err != nil:
		return driver.Joined{}, err
	case !strings.HasPrefix(o.Made[0], create.Path):
		return driver.Joined{}, nodes.WrongNode(o.Made[0])
	}
	return s.finishJoin(ctx, queue, c, path.Base(o.Made[0]))
}

// check returns the mark of a contender that may join the queue.
func (s *session) check(queue driver.Queue, c driver.Contender) (text string, err error) {
	if err := cmp.Or(s.CheckQueue(queue), nodes.CheckContender(c)); err != nil {
		return "", err
	}
	form := s.layout.form(queue)
	if form == nil {
		return "", s.layout.noForm(queue)
	}
	text, ok := form.mark(c.Mode)
	if !ok {
		return "", zkconn.Invalid("mode %q in the queue %q: not supported by layout %s",
			c.Mode, queue, s.layout.name)
	}
	if c.Record != 0 {
		return "", zkconn.Invalid("queue %q: layout %s has no records to join by",
			queue, s.layout.name)
	}
	return text, form.check(c.Value)
}

// finishJoin finds the place of a new node in the queue.
func (s *session) finishJoin(
	ctx context.Context, queue driver.Queue, c driver.Contender, name string,
) (driver.Joined, error) {
	full, form := s.ChildPath(queue, name), s.layout.form(queue)
	n, ok := form.parse(name)
	if !ok || n.seq < 0 || n.seq > math.MaxInt32-reserve {
		if err := s.Delete(ctx, full, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return driver.Joined{}, err
		}
		return driver.Joined{}, s.layout.outOfNumbers(queue, name)
	}
	listing, err := zkconn.StartNames(ctx, s.Conn, s.Path(queue))
	if err != nil {
		return driver.Joined{}, err
	}
	var names []string
	stat, err := s.Stat(ctx, full)
	if err == nil {
		names, err = listing.Wait(ctx)
	}
	places, ambiguous := s.layout.places(queue, names)
	i := slices.IndexFunc(places, func(p driver.Place) bool { return p.Key == name })
	switch {
	case errors.Is(err, driver.ErrGone), err == nil && i < 0:
		// There is no entry, so Join can be called again.
		return driver.Joined{}, driver.Wrap(driver.ErrUnavailable,
			errors.New("zookeeper: the entry was removed while it joined"))
	case err != nil:
		return driver.Joined{}, err
	}
	s.SetOwnEntry(full, func(*nodes.OwnEntry) {}) // names do not show the session: see owns
	own := driver.Place{Key: name, ID: c.ID, Mode: n.Mode, Session: s.Hex}
	j := driver.Joined{Place: own, Token: driver.Token(stat.Czxid)}
	if form.unordered {
		i = len(places) - 1
	} else if i > 0 && c.Follows && ambiguous == nil {
		j.Nearest = places[i-1]
	}
	j.First = i == 0 && ambiguous == nil
	if !c.Alone || j.First {
		return j, nil
	}
	if err := s.Leave(ctx, queue, j.Place); err != nil && !errors.Is(err, driver.ErrGone) {
		return driver.Joined{}, err
	}
	return driver.Joined{}, cmp.Or(ambiguous, driver.ErrTaken)
}

// Ahead lists the queue. In a queue without order all others are ahead.
func (s *session) Ahead(
	ctx context.Context, queue driver.Queue, own driver.Place,
) (driver.View, error) {
	if err := s.CheckView(queue, own); err != nil {
		return driver.View{}, err
	}
	names, err := s.Listing(ctx, queue)
	if err != nil {
		return driver.View{}, err
	}
	places, ambiguous := s.layout.places(queue, names)
	view, err := nodes.ViewOf(places, own, ambiguous)
	form := s.layout.form(queue)
	if i := len(view.Ahead); err == nil && i < len(places) && form.unordered {
		return driver.View{Ahead: slices.Delete(places, i, i+1)}, nil
	}
	return view, err
}

// ownNames lists the names of a contender's nodes, after everything sent
// before: see nodes.Session.BeginFlight.
func (s *session) ownNames(
	ctx context.Context, queue driver.Queue, id string,
) (mine []string, err error) {
	if err := s.Sync(ctx, s.Path(queue)); err != nil {
		return nil, err
	}
	names, err := s.Names(ctx, s.Path(queue))
	for _, name := range names {
		if !strings.HasPrefix(name, s.layout.namePrefix(id, s.Number())) {
			continue
		}
		stat, err := s.Stat(ctx, s.ChildPath(queue, name))
		switch {
		case err == nil && stat.EphemeralOwner == s.Number():
			mine = append(mine, name)
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return nil, err
		}
	}
	return mine, err
}

var errNotOwner = errors.New("zookeeper: the entry belongs to another session")

// owns checks that a place is a contender's of this session.
func (s *session) owns(queue driver.Queue, own driver.Place) error {
	if err := cmp.Or(s.CheckQueue(queue), nodes.CheckKey(queue, own)); err != nil {
		return err
	}
	if s.layout.form(queue) == nil {
		return s.layout.noForm(queue)
	}
	if _, known := s.OwnEntry(s.ChildPath(queue, own.Key)); !known || nodes.CheckID(own.ID) != nil ||
		!strings.HasPrefix(own.Key, s.layout.namePrefix(own.ID, s.Number())) {
		return driver.Wrap(driver.ErrGone, errNotOwner)
	}
	return nil
}

// Leave deletes the node.
func (s *session) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	if err := s.owns(queue, own); err != nil {
		return err
	}
	node := s.ChildPath(queue, own.Key)
	err := s.Delete(ctx, node, -1)
	if err == nil || errors.Is(err, driver.ErrGone) {
		s.DeleteOwnEntry(node)
	}
	return err
}

// Forget deletes all nodes of a contender, after it has made sure that no more
// can appear: see nodes.Session.BeginFlight.
func (s *session) Forget(ctx context.Context, queue driver.Queue, id string) error {
	if err := cmp.Or(s.CheckQueue(queue), nodes.CheckID(id)); err != nil {
		return err
	}
	f, err := s.BeginFlight(ctx, id)
	if err != nil {
		return err
	}
	defer f.End()
	names, err := s.ownNames(ctx, queue, id)
	if err != nil {
		return err
	}
	for _, name := range names {
		node := s.ChildPath(queue, name)
		if err := s.Delete(ctx, node, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		s.DeleteOwnEntry(node)
	}
	return nil
}

// Convert replaces the node with another of the same number, in one
// transaction, as Curator does when a writer downgrades to a reader. The new
// node has the old one's place, and another czxid.
func (s *session) Convert(
	ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte,
) (driver.Place, error) {
	err := cmp.Or(s.owns(queue, own.Place), nodes.CheckMode(mode), nodes.CheckValue(value))
	if err != nil {
		return driver.Place{}, err
	}
	text, ok := s.layout.form(queue).mark(mode)
	old, known := s.layout.form(queue).parse(own.Place.Key)
	if !ok || !known || mode == old.Mode {
		return driver.Place{}, zkconn.Invalid("place %q in the queue %q: it cannot have mode %q",
			own.Place.Key, queue, mode)
	}
	to := own.Place
	to.Key = fmt.Sprintf("%s%s%010d", s.layout.namePrefix(to.ID, s.Number()), text, old.seq)
	to.Mode = mode
	from, there := s.ChildPath(queue, own.Place.Key), s.ChildPath(queue, to.Key)
	f, err := s.BeginFlight(ctx, to.ID)
	if err != nil {
		return driver.Place{}, err
	}
	defer f.End()
	convert := []any{nodes.DeleteRequest(from), s.CreateRequest(there, value, zk.FlagEphemeral)}
	_, err = s.Multi(ctx, f, convert)
	if errors.Is(err, zk.ErrNoNode) {
		// An earlier attempt has made the new node, or the entry is gone.
		_, err = s.Stat(ctx, there)
	}
	if err != nil {
		return driver.Place{}, err
	}
	s.DeleteOwnEntry(from)
	s.SetOwnEntry(there, func(*nodes.OwnEntry) {})
	return to, nil
}

// Write writes to the node, if the layout lets a value change.
func (s *session) Write(
	ctx context.Context, queue driver.Queue, own driver.Place, value []byte,
) error {
	if err := cmp.Or(s.owns(queue, own), nodes.CheckValue(value)); err != nil {
		return err
	}
	form := s.layout.form(queue)
	if form.silent {
		return zkconn.Invalid("queue %q: in layout %s values do not change: "+
			"the next waiter would not be notified any more when the entry is deleted", queue, s.layout.name)
	}
	if err := form.check(value); err != nil {
		return err
	}
	return s.WriteTo(ctx, s.ChildPath(queue, own.Key), value)
}

// Revoked watches own's value, which another client overwrites to ask for a
// release.
func (s *session) Revoked(ctx context.Context, queue driver.Queue, own driver.Place) error {
	if err := s.owns(queue, own); err != nil {
		return err
	}
	if !s.layout.form(queue).revocable {
		return zkconn.Invalid("queue %q: layout %s has no revocation", queue, s.layout.name)
	}
	return s.Wait(ctx, func(zk.Event) (*zkconn.Watch, error) {
		w, err := s.WatchTarget(ctx, zkconn.Target{Kind: zkconn.Data, Node: s.ChildPath(queue, own.Key)})
		if err != nil || string(w.Seen.Value) == revoke {
			return nil, err
		}
		return w, nil
	})
}

func (s *session) Queues(context.Context) ([]driver.Queue, error) {
	return nil, zkconn.Invalid("queues cannot be listed in layout %s, "+
		"whose nodes do not show what is a queue: name the queue", s.layout.name)
}

// Remove deletes a node, after Check. It refuses a node without a sequence
// number: its owner can create it again under the same name.
func (s *session) Remove(
	ctx context.Context, queue driver.Queue, key string, token driver.Token,
) error {
	if err := s.CheckQueue(queue); err != nil {
		return err
	}
	switch form := s.layout.form(queue); {
	case form == nil:
		return s.layout.noForm(queue)
	case form.unordered:
		return zkconn.Invalid("queue %q: in layout %s the names of entries are reused, "+
			"so one grant cannot be removed safely", queue, s.layout.name)
	}
	if err := s.Check(ctx, queue, key, token); err != nil {
		return err
	}
	return s.Delete(ctx, s.ChildPath(queue, key), -1)
}
