package foreign

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
	"github.com/baton-go/baton/internal/hint"
)

// This file has the names of entries and queues in the layouts:
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
// A name is a path below the chroot, as the other client gets it. A leading
// "/" is ignored. The digits of uuid and hex are a contender's ID and a part
// of its session's.

// The values of the URL parameters layout and election.
const (
	Native  = "native" // Baton's own
	curator = "curator"
	kazoo   = "kazoo"

	latch    = "latch"
	selector = "selector"
)

// Layout is the layout of another client.
type Layout struct {
	name  string
	root  string           // the chroot, for messages
	kinds map[string]*form // by the kind of queue
	// plain: queues are plain nodes, which the other client expects to stay.
	plain    bool
	uniqueID func(hex string) string // formats 32 hex digits
}

// form describes the entries of a kind.
type form struct {
	marks []mark
	// silent: values do not change. After a change the other client would not
	// notice when the entry is deleted.
	silent bool
	// revocable: the other client asks a holder to release by writing revoke to
	// its entry.
	revocable bool
	// suffix is the queue's path after the name.
	suffix string
	// unordered: entries have no sequence numbers. All others count as ahead.
	unordered bool
	// recorded: the data of the queue's own node is its record.
	recorded bool
}

// mark is the text between an entry's prefix and its sequence number.
type mark struct{ mode, text string }

// revoke is what Curator's Revoker writes to the entry of a holder.
const revoke = "__REVOKE__"

// LayoutOf returns the layout of a URL, nil for Baton's own.
func LayoutOf(name, election string) (*Layout, error) {
	mutex := &form{marks: []mark{{"x", "lock-"}}, revocable: true}
	switch {
	case name == Native && election == "":
		return nil, nil
	case name == curator:
		f := &Layout{name: name, uniqueID: protected, kinds: map[string]*form{
			"mutex":  mutex,
			"rwlock": {marks: []mark{{"r", "__READ__"}, {"w", "__WRIT__"}}, revocable: true},

			"semaphore-locks":  {marks: mutex.marks, suffix: "/locks"},
			"semaphore-leases": {marks: []mark{{"x", "lease-"}}, suffix: "/leases"},
		}}
		switch election {
		case "", latch:
			f.kinds["election"] = &form{marks: []mark{{"x", "latch-"}}, silent: true}
		case selector:
			f.kinds["election"] = mutex
		default:
			return nil, zkconn.Invalid("URL parameter \"election\" must be %s or %s", latch, selector)
		}
		return f, nil
	case name == kazoo && election == "":
		lock := &form{marks: []mark{{"x", "__lock__"}}}
		return &Layout{name: name, plain: true, uniqueID: func(hex string) string { return hex }, kinds: map[string]*form{
			"mutex": lock, "election": lock,
			"rwlock": {marks: []mark{{"r", "__rlock__"}, {"w", "__lock__"}}},

			"semaphore-locks":  {marks: lock.marks, suffix: "-__lock__"},
			"semaphore-leases": {marks: []mark{{"x", ""}}, unordered: true, recorded: true},
		}}, nil
	case name == Native || name == kazoo:
		return nil, zkconn.Invalid("URL parameter \"election\" is for layout=%s", curator)
	}
	return nil, zkconn.Invalid("URL parameter \"layout\" must be %s, %s or %s", Native, curator, kazoo)
}

// protected is the prefix of an entry that Curator makes "with protection".
func protected(hex string) string {
	parts := []string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:]}
	return "_c_" + strings.Join(parts, "-") + "-"
}

// namePrefix begins the names of a contender's entries in all modes. The last
// digits of the session's number, which differ the most, extend the ID to 32
// digits.
func (f *Layout) namePrefix(id string, session int64) string {
	fill := fmt.Sprintf("%016x", uint64(session))
	return f.uniqueID(id + fill[len(id)-16:])
}

// form returns a queue's form, or nil if the layout has none.
func (f *Layout) form(queue driver.Queue) *form {
	kind, _, _ := strings.Cut(string(queue), "/")
	return f.kinds[kind]
}

// path is where a queue is, below the chroot.
func (f *Layout) path(queue driver.Queue) string {
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

func (f *form) mark(mode string) (text string, ok bool) {
	for _, m := range f.marks {
		if m.mode == mode {
			return m.text, true
		}
	}
	return "", false
}

type node struct {
	driver.Place
	seq int32
}

// parse parses an entry's name, which ends in a mark and a sequence number.
func (f *form) parse(name string) (node, bool) {
	if f == nil {
		return node{}, false
	}
	if f.unordered {
		n := node{Place: driver.Place{Key: name, Mode: f.marks[0].mode}}
		return n, nodes.Within(name, 32, 32, nodes.IsHex)
	}
	for _, m := range f.marks {
		i := strings.LastIndex(name, m.text)
		if i < 0 {
			continue
		}
		if seq, ok := nodes.Sequence(name[i+len(m.text):]); ok {
			return node{Place: driver.Place{Key: name, Mode: m.mode}, seq: seq}, true
		}
	}
	return node{}, false
}

// check refuses a value that the other client would take for a request.
func (f *form) check(value []byte) error {
	if f.revocable && string(value) == revoke {
		return zkconn.Invalid("the value %s asks a holder to give up", revoke)
	}
	return nil
}

// places returns the entries among the children of a queue, in order. Besides,
// the error says that the queue has strays, or is about to run out of numbers.
//
// Curator counts every child, sorted by its whole name if need be, and Kazoo
// ignores strays. So to Curator a stray may be ahead of everybody, and to Kazoo
// it does not exist.
func (f *Layout) places(queue driver.Queue, names []string) ([]driver.Place, error) {
	var entries []node
	var strays []string
	for _, name := range names {
		if n, ok := f.form(queue).parse(name); ok {
			entries = append(entries, n)
		} else {
			strays = append(strays, name)
		}
	}
	// A writer that downgrades has two nodes of the same number for a moment.
	slices.SortFunc(entries, func(a, b node) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(b.Mode, a.Mode))
	})
	places := make([]driver.Place, len(entries))
	for i, n := range entries {
		places[i] = n.Place
	}
	switch {
	case len(strays) > 0:
		return places, driver.Wrap(driver.ErrRefused, fmt.Errorf(
			"zookeeper: %s has children that are no contenders of this kind, "+
				"so the order is unknown; %s%s",
			f.path(queue), hint.OfZooKeeper, hint.Removal("zkCli.sh delete", f.root+f.path(queue)+"/", strays...)))
	case len(entries) > 0 && entries[0].seq < 0:
		return places, f.outOfNumbers(queue, entries[0].Key)
	}
	return places, nil
}

// outOfNumbers is the error for a queue whose sequence numbers run out. They
// would become negative, and the other clients compare them as texts: then each
// new entry would be first.
func (f *Layout) outOfNumbers(queue driver.Queue, key string) error {
	return driver.Wrap(driver.ErrRefused, fmt.Errorf(
		"zookeeper: %s has run out of sequence numbers, as %q shows; "+
			"let it become empty, and delete the node", f.path(queue), key))
}

// reserve is how many of the last numbers are refused.
const reserve = 1 << 20

func (f *Layout) noForm(queue driver.Queue) error {
	return zkconn.Invalid("queue %q: not supported by layout %s", queue, f.name)
}
