package zookeeper

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// This file has the layouts of other clients, in whose queues Baton stands as
// they do:
//
//	/chroot/<name>/_c_<uuid>-lock-<sequence>      Curator's mutex and leader selector, go-zookeeper's Lock
//	/chroot/<name>/_c_<uuid>-__READ__<sequence>   Curator's read-write lock
//	/chroot/<name>/_c_<uuid>-__WRIT__<sequence>
//	/chroot/<name>/_c_<uuid>-latch-<sequence>     Curator's leader latch
//	/chroot/<name>/<hex>__lock__<sequence>        Kazoo's Lock, WriteLock and Election
//	/chroot/<name>/<hex>__rlock__<sequence>       Kazoo's ReadLock
//	/chroot/<name>/locks/_c_<uuid>-lock-<sequence>, /chroot/<name>/leases/_c_<uuid>-lease-<sequence>
//	                                              Curator's InterProcessSemaphoreV2
//	/chroot/<name>-__lock__/<hex>__lock__<sequence>, /chroot/<name>/<hex>
//	                                              Kazoo's Semaphore, which has its limit at <name>
//
// A name is a path below the chroot, as the other client is given it; a "/" at
// its beginning is of no matter. The digits of uuid and hex are a contender's
// ID and a part of its session's.

// The values of the URL parameters layout and election.
const (
	nativeLayout  = "native"
	curatorLayout = "curator"
	kazooLayout   = "kazoo"

	latchElection    = "latch"
	selectorElection = "selector"
)

// foreign is the layout of another client.
type foreign struct {
	name  string
	kinds map[string]*form // of what kinds of queues it has something like
	plain bool             // queues are plain nodes, since the other client does not expect that they go
	head  func(hex string) string
}

// form is what the entries of a kind look like.
type form struct {
	marks []mark
	// silent: a value does not change. The other client would not notice any
	// more when the entry goes.
	silent bool
	// revocable: the other client asks a holder to give up by writing revoke to
	// its entry.
	revocable bool
	// suffix is what the queue's path has behind the name.
	suffix string
	// unordered: entries have no sequence numbers. Whoever else is there counts
	// as ahead.
	unordered bool
	// recorded: the data of the queue's own node is its record.
	recorded bool
}

// mark is what stands between an entry's head and its sequence number.
type mark struct{ mode, text string }

// revoke is what Curator's Revoker writes to the entry of a holder.
const revoke = "__REVOKE__"

// layoutOf returns the layout of a URL; nil for Baton's own.
func layoutOf(name, election string) (*foreign, error) {
	mutex := &form{marks: []mark{{"x", "lock-"}}, revocable: true}
	switch {
	case name == nativeLayout && election == "":
		return nil, nil
	case name == curatorLayout:
		f := &foreign{name: name, head: protected, kinds: map[string]*form{
			"mutex":  mutex,
			"rwlock": {marks: []mark{{"r", "__READ__"}, {"w", "__WRIT__"}}, revocable: true},

			"semaphore-locks":  {marks: mutex.marks, suffix: "/locks"},
			"semaphore-leases": {marks: []mark{{"x", "lease-"}}, suffix: "/leases"},
		}}
		switch election {
		case "", latchElection:
			f.kinds["election"] = &form{marks: []mark{{"x", "latch-"}}, silent: true}
		case selectorElection:
			f.kinds["election"] = mutex
		default:
			return nil, invalid("URL parameter \"election\" must be %s or %s", latchElection, selectorElection)
		}
		return f, nil
	case name == kazooLayout && election == "":
		lock := &form{marks: []mark{{"x", "__lock__"}}}
		return &foreign{name: name, plain: true, head: func(hex string) string { return hex }, kinds: map[string]*form{
			"mutex": lock, "election": lock,
			"rwlock": {marks: []mark{{"r", "__rlock__"}, {"w", "__lock__"}}},

			"semaphore-locks":  {marks: lock.marks, suffix: "-__lock__"},
			"semaphore-leases": {marks: []mark{{"x", ""}}, unordered: true, recorded: true},
		}}, nil
	case name == nativeLayout || name == kazooLayout:
		return nil, invalid("URL parameter \"election\" is for layout=%s", curatorLayout)
	}
	return nil, invalid("URL parameter \"layout\" must be %s, %s or %s", nativeLayout, curatorLayout, kazooLayout)
}

// protected is the head of an entry that Curator makes "with protection".
func protected(hex string) string {
	return "_c_" + hex[:8] + "-" + hex[8:12] + "-" + hex[12:16] + "-" + hex[16:20] + "-" + hex[20:] + "-"
}

// form returns that of a queue, nil if the layout has nothing like it.
func (f *foreign) form(queue driver.Queue) *form {
	kind, _, _ := strings.Cut(string(queue), "/")
	return f.kinds[kind]
}

// path is where a queue is, below the chroot.
func (f *foreign) path(queue driver.Queue) string {
	_, escaped, _ := strings.Cut(string(queue), "/")
	name, err := url.PathUnescape(escaped)
	if err != nil {
		name = escaped
	}
	path := "/" + name
	if form := f.form(queue); form != nil {
		path += form.suffix
	}
	return path
}

// mark is that of a mode.
func (f *form) mark(mode string) (text string, ok bool) {
	for _, m := range f.marks {
		if m.mode == mode {
			return m.text, true
		}
	}
	return "", false
}

// parse reads a name. Only one that ends in a mark and a sequence number is an
// entry.
func (f *form) parse(name string) (node, bool) {
	if f == nil {
		return node{}, false
	}
	if f.unordered {
		return node{Place: driver.Place{Key: name, Mode: f.marks[0].mode}}, within(name, 32, 32, isHex)
	}
	for _, m := range f.marks {
		i := strings.LastIndex(name, m.text)
		if i < 0 {
			continue
		}
		if seq, ok := sequence(name[i+len(m.text):]); ok {
			return node{Place: driver.Place{Key: name, Mode: m.mode}, seq: seq}, true
		}
	}
	return node{}, false
}

// host is a service whose queues are shared with others.
type host struct{ *service }

var _ driver.Sharer = host{}

// Open starts a session whose queues are shared.
func (h host) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := h.service.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return &foreignSession{session: s.(*session), known: make(map[string]bool)}, nil
}

// SharedName takes paths.
func (h host) SharedName(kind, name string) (string, error) {
	if h.layout.kinds[kind] == nil {
		return "", invalid("%s %q: layout %s has nothing like it", kind, name, h.layout.name)
	}
	name = strings.TrimPrefix(name, "/")
	return name, coordinator.CheckName(name)
}

// SharedValue is the payload, or who it is: Curator shows it as the
// participant's ID, Kazoo as the contender's identifier.
func (h host) SharedValue(kind, identity string, payload []byte) ([]byte, error) {
	if len(payload) == 0 {
		payload = []byte(identity)
	}
	return payload, h.layout.kinds[kind].check(payload)
}

// check refuses a value that means something else than itself.
func (f *form) check(value []byte) error {
	if f.revocable && string(value) == revoke {
		return invalid("the value %s asks a holder to give up", revoke)
	}
	return nil
}

// ambiguousFor is the error for a shared queue that has nodes which are no
// entries of its kind, or that is about to run out of numbers; nil if it is
// neither.
//
// Curator takes part with every child, by its name as a whole if need be, and
// Kazoo passes over what it does not know. So such a child stands ahead of
// everybody to the one, and is nobody to the other.
func (f *foreign) ambiguousFor(queue driver.Queue, c queueView) error {
	if len(c.strays) > 0 {
		return driver.Wrap(driver.ErrRefused, fmt.Errorf(
			"zookeeper: %s has children that are no contenders of this kind, so nobody can tell who comes first: %s",
			f.path(queue), strings.Join(c.strays, ", ")))
	}
	for _, n := range c.nodes {
		if n.seq < 0 {
			return f.spent(queue, n.Key)
		}
	}
	return nil
}

// spent is the error for a queue whose sequence numbers run out. They would
// become negative, and the other clients compare them as texts: then each
// newcomer would come first.
func (f *foreign) spent(queue driver.Queue, key string) error {
	return driver.Wrap(driver.ErrRefused, fmt.Errorf(
		"zookeeper: %s has run out of sequence numbers, as %q shows; let it become empty, and delete the node", f.path(queue), key))
}

// reserve is how many numbers before the last a contender is refused.
const reserve = 1 << 20

var _ driver.Revoker = (*foreignSession)(nil)

// foreignSession is a session whose queues are shared with other clients. Its entries
// have no successor nodes, and a queue's own node is not written to, since it
// may be somebody's. What it has of session is all below the names.
type foreignSession struct {
	*session
	mu    sync.Mutex
	known map[string]bool // the paths of entries of this session's, as far as it knows: names do not tell
}

// note notes an entry of this session's, or that it has gone.
func (g *foreignSession) note(node string, there bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if delete(g.known, node); there {
		g.known[node] = true
	}
}

// head is what the names of a contender's entries begin with, whatever its
// mode. The session fills up what the ID leaves of 32 digits, with the last
// ones of its number, which differ the most.
func (g *foreignSession) head(id string) string {
	session := fmt.Sprintf("%016x", uint64(g.id))
	return g.layout.head(id + session[len(id)-16:])
}

// Join makes the node, and then asks for its czxid, which is the token, and
// lists the queue. The other clients do the same without the czxid. Both
// requests are under way at once.
func (g *foreignSession) Join(ctx context.Context, queue driver.Queue, c driver.Contender) (driver.Joined, error) {
	text, err := g.check(queue, c)
	if err != nil {
		return driver.Joined{}, err
	}
	f, earlier := g.joins.begin(queue, c.ID)
	defer f.end()
	if c.Again {
		names, err := g.mine(ctx, queue, c.ID, earlier)
		if err != nil {
			return driver.Joined{}, err
		}
		if len(names) > 0 {
			return g.arrive(ctx, queue, c, names[0])
		}
	}
	if c.Alone {
		if view, err := g.Ahead(ctx, queue, driver.Place{}); err != nil {
			return driver.Joined{}, err
		} else if len(view.Ahead) > 0 {
			return driver.Joined{}, driver.ErrTaken
		}
	}
	for range maxTries {
		name, err := g.make(ctx, queue, c, text, f)
		switch {
		case err == nil:
			return g.arrive(ctx, queue, c, name)
		case !errors.Is(err, zk.ErrNoNode):
			return driver.Joined{}, err
		}
		if err := g.ensure(ctx, g.path(queue)); err != nil {
			return driver.Joined{}, err
		}
	}
	return driver.Joined{}, driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: the queue's node vanished again and again"))
}

// check returns the mark of a contender that can stand in the queue.
func (g *foreignSession) check(queue driver.Queue, c driver.Contender) (text string, err error) {
	if err := cmp.Or(g.checkQueue(queue), checkContender(c)); err != nil {
		return "", err
	}
	form := g.layout.form(queue)
	if form == nil {
		return "", g.noForm(queue)
	}
	text, ok := form.mark(c.Mode)
	if !ok {
		return "", invalid("mode %q in the queue %q: layout %s has nothing like it", c.Mode, queue, g.layout.name)
	}
	if c.Record != 0 {
		return "", g.noRecords()
	}
	return text, form.check(c.Value)
}

// make sends the request that makes the node, and returns its name.
func (g *foreignSession) make(ctx context.Context, queue driver.Queue, c driver.Contender, text string, f *flight) (string, error) {
	create := g.creating(g.below(queue, g.head(c.ID)+text), c.Value, zk.FlagEphemeralSequential)
	if g.layout.form(queue).unordered {
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
func (g *foreignSession) arrive(ctx context.Context, queue driver.Queue, c driver.Contender, name string) (driver.Joined, error) {
	full := g.below(queue, name)
	n, ok := g.layout.form(queue).parse(name)
	if !ok || n.seq < 0 || n.seq > math.MaxInt32-reserve {
		if err := g.remove(ctx, full); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return driver.Joined{}, err
		}
		return driver.Joined{}, g.layout.spent(queue, name)
	}
	listing, err := start(ctx, g.session, g.slots, func() ([]string, error) {
		names, _, err := g.conn.Children(g.path(queue))
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
	all := g.parse(queue, names)
	i := slices.IndexFunc(all.nodes, func(n node) bool { return n.Key == name })
	if i < 0 {
		return driver.Joined{}, vanished(driver.ErrGone)
	}
	j := driver.Joined{
		Place: driver.Place{Key: name, ID: c.ID, Mode: n.Mode, Session: g.hex}, Token: driver.Token(stat.Czxid),
	}
	g.note(full, true)
	ambiguous := g.layout.ambiguousFor(queue, all)
	if g.layout.form(queue).unordered {
		i = len(all.nodes) - 1
	}
	j.First = i == 0 && ambiguous == nil
	if i > 0 && c.Follows && ambiguous == nil && !g.layout.form(queue).unordered {
		j.Nearest = all.nodes[i-1].Place
	}
	if !c.Alone || j.First {
		return j, nil
	}
	if err := g.Leave(ctx, queue, j.Place); err != nil && !errors.Is(err, driver.ErrGone) {
		return driver.Joined{}, err
	}
	return driver.Joined{}, cmp.Or(ambiguous, driver.ErrTaken)
}

// vanished is the error of a Join whose node was removed before it was seen:
// there is none now, and Join can be called again.
func vanished(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return driver.Wrap(driver.ErrUnavailable, errors.New("zookeeper: somebody has removed the entry while it joined"))
	}
	return err
}

// parse reads the children of a queue, in order.
func (s *session) parse(queue driver.Queue, names []string) queueView {
	if s.layout == nil {
		return parseChildren(names)
	}
	form := s.layout.form(queue)
	var c queueView
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

// mine lists the names of a contender's nodes, after the given flights have
// landed: see session.Forget.
func (g *foreignSession) mine(ctx context.Context, queue driver.Queue, id string, flights []*flight) (mine []string, err error) {
	for _, f := range flights {
		select {
		case <-f.landed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-g.over:
			return nil, g.reason()
		}
	}
	if err := g.sync(ctx, g.path(queue)); err != nil {
		return nil, err
	}
	names, err := g.names(ctx, g.path(queue))
	for _, name := range names {
		if !strings.HasPrefix(name, g.head(id)) {
			continue
		}
		stat, err := g.stat(ctx, g.below(queue, name))
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
func (g *foreignSession) owns(queue driver.Queue, own driver.Place) error {
	if err := cmp.Or(g.checkQueue(queue), checkKey(queue, own)); err != nil {
		return err
	}
	if g.layout.form(queue) == nil {
		return g.noForm(queue)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known[g.below(queue, own.Key)] || !within(own.ID, 16, 32, isHex) || !strings.HasPrefix(own.Key, g.head(own.ID)) {
		return driver.Wrap(driver.ErrGone, errNotMine)
	}
	return nil
}

// Leave deletes the node.
func (g *foreignSession) Leave(ctx context.Context, queue driver.Queue, own driver.Place) error {
	if err := g.owns(queue, own); err != nil {
		return err
	}
	node := g.below(queue, own.Key)
	err := g.remove(ctx, node)
	if err == nil || errors.Is(err, driver.ErrGone) {
		g.drop(node)
	}
	return err
}

// drop forgets an entry that is gone.
func (g *foreignSession) drop(node string) {
	g.note(node, false)
	g.written.drop(node)
}

// Capabilities lack handoffs, which no other client of a layout knows of.
func (g *foreignSession) Capabilities() driver.Capabilities {
	return driver.Capabilities{Converter: g, Writer: g, HeadWatcher: g, Operator: g, Revoker: g}
}

// Forget is session.Forget.
func (g *foreignSession) Forget(ctx context.Context, queue driver.Queue, id string) error {
	if err := g.checkQueue(queue); err != nil {
		return err
	}
	if !within(id, 16, 32, isHex) {
		return invalid("contender ID %q: want 16 to 32 lower-case hex digits", id)
	}
	flights := g.joins.flights(id)
	for missed := true; missed; flights = nil {
		names, err := g.mine(ctx, queue, id, flights)
		if err != nil {
			return err
		}
		missed = false
		for _, name := range names {
			switch err := g.remove(ctx, g.below(queue, name)); {
			case errors.Is(err, zk.ErrNoNode):
				missed = true
			case err != nil:
				return err
			}
			g.drop(g.below(queue, name))
		}
	}
	return nil
}

// Convert makes another node with the same number in place of the old one, in
// one transaction: as Curator does when a writer goes on as a reader. The
// others see the new node where the old one stood. Its czxid is another one.
func (g *foreignSession) Convert(ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte) (driver.Place, error) {
	if err := cmp.Or(g.owns(queue, own.Place), checkMode(mode), checkValue(value)); err != nil {
		return driver.Place{}, err
	}
	text, ok := g.layout.form(queue).mark(mode)
	old, known := g.layout.form(queue).parse(own.Place.Key)
	if !ok || !known || mode == old.Mode {
		return driver.Place{}, invalid("place %q in the queue %q: it cannot have mode %q", own.Place.Key, queue, mode)
	}
	to := own.Place
	to.Key, to.Mode = fmt.Sprintf("%s%s%010d", g.head(to.ID), text, old.seq), mode
	err := g.replace(ctx, queue, node{Place: own.Place}, node{Place: to}, bytes.Clone(value))
	if errors.Is(err, zk.ErrNoNode) {
		err = g.stands(ctx, queue, node{Place: to})
	}
	if err != nil {
		return driver.Place{}, err
	}
	g.drop(g.below(queue, own.Place.Key))
	g.note(g.below(queue, to.Key), true)
	return to, nil
}

// Write is session.Write, where a value may change.
func (g *foreignSession) Write(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
	if err := cmp.Or(g.owns(queue, own), checkValue(value)); err != nil {
		return err
	}
	form := g.layout.form(queue)
	if form.silent {
		return invalid("queue %q: in layout %s values do not change: whoever waits behind would not be told any more when the entry goes", queue, g.layout.name)
	}
	if err := form.check(value); err != nil {
		return err
	}
	return g.write(ctx, g.below(queue, own.Key), bytes.Clone(value))
}

// Revoked watches what is written to own. Whoever asks writes over the value,
// which others see then.
func (g *foreignSession) Revoked(ctx context.Context, queue driver.Queue, own driver.Place) error {
	if err := g.owns(queue, own); err != nil {
		return err
	}
	if !g.layout.form(queue).revocable {
		return invalid("queue %q: in layout %s nobody can ask for that", queue, g.layout.name)
	}
	node := g.below(queue, own.Key)
	return g.wait(ctx, func(zk.Event) (*watch, error) {
		w, err := g.watch(ctx, watchKey{onRecord, node}, node)
		if err != nil || string(w.seen.value) == revoke {
			return nil, err
		}
		return w, nil
	})
}

func (g *foreignSession) noForm(queue driver.Queue) error {
	return invalid("queue %q: layout %s has nothing like it", queue, g.layout.name)
}

func (g *foreignSession) noRecords() error { return invalid("layout %s has no records", g.layout.name) }

// Record is refused, unless the layout has one.
func (g *foreignSession) Record(ctx context.Context, queue driver.Queue, known driver.Version) (driver.Record, error) {
	if form := g.layout.form(queue); form == nil || !form.recorded {
		return driver.Record{}, g.noRecords()
	}
	return g.session.Record(ctx, queue, known)
}

// SetRecord is likewise. It makes the queue's node.
func (g *foreignSession) SetRecord(ctx context.Context, queue driver.Queue, value []byte, known driver.Version) (driver.Version, error) {
	if form := g.layout.form(queue); form == nil || !form.recorded {
		return 0, g.noRecords()
	}
	return g.session.SetRecord(ctx, queue, value, known)
}

// Ahead is session.Ahead, where there is an order.
func (g *foreignSession) Ahead(ctx context.Context, queue driver.Queue, own driver.Place) (driver.View, error) {
	view, err := g.session.Ahead(ctx, queue, own)
	form := g.layout.form(queue)
	if err != nil || own == (driver.Place{}) || form == nil || !form.unordered {
		return view, err
	}
	if view, err = g.session.Ahead(ctx, queue, driver.Place{}); err != nil {
		return view, err
	}
	view.Last = false
	view.Ahead = slices.DeleteFunc(view.Ahead, func(p driver.Place) bool { return p.Key == own.Key })
	return view, nil
}
