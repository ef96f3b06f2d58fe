// Package keys names the keys that Baton writes to etcd.
package keys

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/hint"
)

// Layout names the keys of one namespace:
//
//	<namespace>/./<kind>/<name>/<lease>-<id>-<mode>          an entry, value as given
//	<namespace>/./<kind>/<name>/<lease>-<id>-<mode>~         its handoff marker
//	<namespace>/./<kind>/<name>/+<lease>-<id>-<mode>-<rank>  a converted entry
//	<namespace>/./<kind>/<name>+tail                         the queue's tail key
//	<namespace>/./<kind>/<name>+record                       the queue's record
//	<namespace>/./sessions/<lease>-<nonce>                   a session's sentinel, empty
//
// The segment "." ends the namespace. No namespace contains it
// (driver.Namespace refuses it), so no namespace's keys are below another's.
//
// A queue is the range of all keys below "<kind>/<name>/". Queues have exactly
// two segments, so no queue's range contains another's, nor a sentinel, tail
// key or record, which have one segment less. No segment of a queue contains
// "+", so no queue, session or record has another's key.
//
// An entry's key is unique by the contender's ID: two contenders of one session
// never share a key. It contains lease and mode, so that a listing without
// values shows session and mode. The ID is before the mode because Forget knows
// only the ID and deletes the range "<lease>-<id>-".
//
// A conversion puts a new key, since the other contenders' watches are on the
// old one and must show its deletion. The new key's create revision does not
// show the place in the queue, so its name has the rank: the token of the join.
// All converted entries are in one range, which is short because only a holder
// is converted. So a view can have all of them besides those that etcd selects
// by create revision.
type Layout struct {
	base string // "<namespace>/./"
}

// New returns the layout of a namespace.
func New(namespace string) Layout {
	if namespace == "" {
		return Layout{"./"}
	}
	return Layout{namespace + "/./"}
}

const (
	tailSuffix = "+tail"
	// markSuffix sorts after all characters of a name, and occurs in none.
	markSuffix = "~"
	// convertedPrefix begins the names of converted entries. It sorts before
	// all hex digits.
	convertedPrefix = "+"
)

// Queue is the prefix of a queue's keys.
func (l Layout) Queue(queue driver.Queue) string { return l.base + string(queue) + "/" }

// All is the range of the namespace's keys.
func (l Layout) All() (key, end string) { return l.base, clientv3.GetPrefixRangeEnd(l.base) }

// QueueOf is the queue of an entry's key. Other keys are records, tail keys,
// markers and sentinels, or not Baton's.
func (l Layout) QueueOf(key string) (queue driver.Queue, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(key, l.base), "/", 3)
	if len(parts) < 3 || parts[0] == "" || parts[1] == "" || IsMarker(key) {
		return "", false
	}
	return driver.Queue(parts[0] + "/" + parts[1]), true
}

// Tail is the queue's tail key.
func (l Layout) Tail(queue driver.Queue) string { return l.base + string(queue) + tailSuffix }

// TailOf is the tail key of the queue of a contender's prefix.
func TailOf(prefix string) string {
	return prefix[:strings.LastIndexByte(prefix, '/')] + tailSuffix
}

// Record is the key of the queue's record. It is not below the queue, which is
// empty without contenders (D4).
func (l Layout) Record(queue driver.Queue) string { return l.base + string(queue) + "+record" }

// Contender is the prefix of the one key that a contender can have before its
// conversion. The mode follows.
func (l Layout) Contender(queue driver.Queue, session, id string) string {
	return l.Queue(queue) + session + "-" + id + "-"
}

// Own is the prefix of the keys that a session's contenders have in a queue
// before their conversion, and of their markers.
func (l Layout) Own(queue driver.Queue, session string) string {
	return l.Queue(queue) + session + "-"
}

// Converted is the prefix of the one key that a contender can have after its
// conversion, given the prefix before.
func Converted(contender string) string {
	i := strings.LastIndexByte(contender, '/') + 1
	return contender[:i] + convertedPrefix + contender[i:]
}

// AllConverted is the range of a queue's converted entries. It may contain keys
// of other programs.
func (l Layout) AllConverted(queue driver.Queue) (key, end string) {
	key = l.Queue(queue) + convertedPrefix
	return key, clientv3.GetPrefixRangeEnd(key)
}

// Marker is the key of an entry's handoff marker.
func Marker(key string) string { return key + markSuffix }

// IsMarker reports whether a key is a handoff marker.
func IsMarker(key string) bool { return strings.HasSuffix(key, markSuffix) }

// Sentinel is the key of a session. The nonce differs for two sessions on the
// same external lease.
func (l Layout) Sentinel(lease clientv3.LeaseID, nonce string) string {
	return l.base + "sessions/" + LeaseHex(lease) + "-" + nonce
}

// Name is the last part of an entry's key.
type Name struct {
	Lease, ID, Mode string
	Rank            int64 // the token of a converted entry, else zero
}

func (n Name) String() string {
	s := n.Lease + "-" + n.ID + "-" + n.Mode
	if n.Rank > 0 {
		return fmt.Sprintf("%s%s-%016x", convertedPrefix, s, n.Rank)
	}
	return s
}

// parseName parses the last part of an entry's key. It fails for other
// programs' names.
func parseName(s string) (Name, bool) {
	s, isConverted := strings.CutPrefix(s, convertedPrefix)
	lease, s, _ := strings.Cut(s, "-")
	id, s, _ := strings.Cut(s, "-")
	mode, hex, hasRank := strings.Cut(s, "-")
	if hasRank != isConverted || !isLong(lease) || !IsID(id) || !IsMode(mode) {
		return Name{}, false
	}
	n := Name{Lease: lease, ID: id, Mode: mode}
	if isConverted {
		rank, err := strconv.ParseInt(hex, 16, 64)
		if err != nil || rank <= 0 || !isLong(hex) {
			return Name{}, false
		}
		n.Rank = rank
	}
	return n, true
}

// Entry parses the handle of a place. It fails for handles of other queues.
func (l Layout) Entry(queue driver.Queue, p driver.Place) (Entry, bool) {
	e, ok := ParseHandle(p.Key)
	return e, ok && strings.HasPrefix(e.Key, l.Queue(queue))
}

// Named is the entry of the queue with this handle and token.
func (l Layout) Named(queue driver.Queue, handle string, token driver.Token) (Entry, bool) {
	e, ok := l.Entry(queue, driver.Place{Key: handle})
	return e, ok && !IsMarker(e.Key) && driver.Token(l.Rank(queue, e)) == token
}

// Name parses the key of an entry. An entry is converted after it joined, so
// Baton never wrote a rank that is not below the create revision.
func (l Layout) Name(queue driver.Queue, e Entry) (Name, bool) {
	bare, below := strings.CutPrefix(e.Key, l.Queue(queue))
	n, ok := parseName(bare)
	if !below || !ok || n.Rank >= e.Rev {
		return Name{}, false
	}
	return n, true
}

// Rank is the entry's place in its queue, and its token.
func (l Layout) Rank(queue driver.Queue, e Entry) int64 {
	n, _ := l.Name(queue, e)
	return cmp.Or(n.Rank, e.Rev)
}

// Place is the place of an entry of a queue. Another program's has only a key.
func (l Layout) Place(queue driver.Queue, e Entry) driver.Place {
	n, _ := l.Name(queue, e)
	return driver.Place{Key: e.Handle(), ID: n.ID, Session: n.Lease, Mode: n.Mode}
}

// Head is the entry of a key of a queue.
func (l Layout) Head(queue driver.Queue, kv *mvccpb.KeyValue) driver.Head {
	e := Entry{string(kv.Key), kv.CreateRevision}
	return driver.Head{
		Entry: driver.Entry{
			Place: l.Place(queue, e), Token: driver.Token(l.Rank(queue, e)), Value: kv.Value,
			Stray: hint.Stray(kv.Lease != 0, "etcdctl del", e.Key),
		},
		Version: driver.Version(kv.ModRevision),
	}
}

// InOrder returns the entries among keys of a queue, in order. A key may have
// been read twice, at one revision, and is returned once.
func (l Layout) InOrder(queue driver.Queue, kvs []*mvccpb.KeyValue) []driver.Head {
	heads := make([]driver.Head, 0, len(kvs))
	for _, kv := range kvs {
		if !IsMarker(string(kv.Key)) {
			heads = append(heads, l.Head(queue, kv))
		}
	}
	slices.SortFunc(heads, Before)
	return slices.CompactFunc(heads, func(a, b driver.Head) bool { return a.Key == b.Key })
}

// Read reads the keys of a queue that the options select, and all converted
// entries.
func (l Layout) Read(queue driver.Queue, opts ...clientv3.OpOption) []clientv3.Op {
	key, end := l.AllConverted(queue)
	values := []clientv3.OpOption{clientv3.WithRange(end)}
	all := clientv3.OpGet(l.Queue(queue), append(opts, clientv3.WithPrefix())...)
	if all.IsKeysOnly() {
		values = append(values, clientv3.WithKeysOnly())
	}
	return []clientv3.Op{all, clientv3.OpGet(key, values...)}
}

// First reads the first limit entries of a queue. The server sorts by create
// revision, once and off the apply path, since a read-only transaction is not
// applied, and returns no other keys. A conversion only raises the create
// revision, and converted entries are all read, so none of the first is missed.
func (l Layout) First(queue driver.Queue, limit int) []clientv3.Op {
	return l.Read(queue, clientv3.WithLimit(int64(limit)),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

// OfHandle is the layout whose handle names an entry of the queue, in any
// namespace.
func OfHandle(queue driver.Queue, handle string) (Layout, bool) {
	base, ok := strings.CutSuffix(handle[:strings.LastIndexByte(handle, '/')+1], string(queue)+"/")
	return Layout{base}, ok && (base == "./" || strings.HasSuffix(base, "/./"))
}
