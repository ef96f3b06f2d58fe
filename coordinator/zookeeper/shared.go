package zookeeper

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// This file has the layouts of other clients, in whose lines Baton stands as they do:
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
// A name is a path below the chroot, as the other client is given it; a "/" at its beginning is of no matter. The digits of uuid and
// hex are a contender's ID and a part of its session's.

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
	kinds map[string]*form // of what kinds of lines it has something like
	plain bool             // lines are plain nodes, since the other client does not expect that they go
	head  func(hex string) string
}

// form is what the entries of a kind look like.
type form struct {
	marks []mark
	// silent: a value does not change. The other client would not notice any more when the entry goes.
	silent bool
	// revocable: the other client asks a holder to give up by writing revoke to its entry.
	revocable bool
	// suffix is what the line's path has behind the name.
	suffix string
	// unordered: entries have no sequence numbers. Whoever else is there counts as ahead.
	unordered bool
	// recorded: the data of the line's own node is its record.
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

// form returns that of a line, nil if the layout has nothing like it.
func (f *foreign) form(line driver.Line) *form {
	kind, _, _ := strings.Cut(string(line), "/")
	return f.kinds[kind]
}

// path is where a line is, below the chroot.
func (f *foreign) path(line driver.Line) string {
	_, escaped, _ := strings.Cut(string(line), "/")
	name, err := url.PathUnescape(escaped)
	if err != nil {
		name = escaped
	}
	path := "/" + name
	if form := f.form(line); form != nil {
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

// parse reads a name. Only one that ends in a mark and a sequence number is an entry.
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

// host is a service whose lines are shared with others.
type host struct{ *service }

var _ driver.Sharer = host{}

// Open starts a session whose lines are shared.
func (h host) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := h.service.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return &guest{session: s.(*session), known: make(map[string]bool)}, nil
}

// SharedName takes paths.
func (h host) SharedName(kind, name string) (string, error) {
	if h.layout.kinds[kind] == nil {
		return "", invalid("%s %q: layout %s has nothing like it", kind, name, h.layout.name)
	}
	name = strings.TrimPrefix(name, "/")
	return name, coordinator.CheckName(name)
}

// SharedValue is the payload, or who it is: Curator shows it as the participant's ID, Kazoo as the contender's identifier.
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

// ambiguousFor is the error for a shared line that has nodes which are no entries of its kind, or that is about to run out of numbers;
// nil if it is neither.
//
// Curator takes part with every child, by its name as a whole if need be, and Kazoo passes over what it does not know. So
// such a child stands ahead of everybody to the one, and is nobody to the other.
func (f *foreign) ambiguousFor(line driver.Line, c crowd) error {
	if len(c.strays) > 0 {
		return driver.Wrap(driver.ErrRefused, fmt.Errorf(
			"zookeeper: %s has children that are no contenders of this kind, so nobody can tell who comes first: %s",
			f.path(line), strings.Join(c.strays, ", ")))
	}
	for _, n := range c.nodes {
		if n.seq < 0 {
			return f.spent(line, n.Key)
		}
	}
	return nil
}

// spent is the error for a line whose sequence numbers run out. They would become negative, and the other clients compare them
// as texts: then each newcomer would come first.
func (f *foreign) spent(line driver.Line, key string) error {
	return driver.Wrap(driver.ErrRefused, fmt.Errorf(
		"zookeeper: %s has run out of sequence numbers, as %q shows; let it become empty, and delete the node", f.path(line), key))
}

// reserve is how many numbers before the last a contender is refused.
const reserve = 1 << 20
