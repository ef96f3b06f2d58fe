package etcd

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// The keys of one namespace:
//
//	<namespace>/./<kind>/<name>/<lease>-<id>-<mode>          a contender, value as given
//	<namespace>/./<kind>/<name>/+<lease>-<id>-<mode>-<rank>  one that was converted
//	<namespace>/./<kind>/<name>+record                       the queue's record
//	<namespace>/./sessions/<lease>-<nonce>                   a session's sentinel, empty
//
// The segment "." ends the namespace. No namespace can contain it (driver.Namespace
// refuses it), hence no namespace's keys lie below another's, although "a" is a
// prefix of "a/b". A word such as "baton" would need a rule that reserves it.
//
// A queue is the range of all keys below "<kind>/<name>/". Queues have exactly
// two segments, neither with a slash, so no queue's range contains another's,
// nor a sentinel or a record, which have one segment less. A "+" occurs in
// neither segment, so no queue, session or record has another's key.
//
// The contender's key is unique by its ID: two contenders of one session never
// share a key. Lease and mode are in the name so that a listing without values shows
// whose the entry is and what it wants. The lease comes first, so that one watch can be on all
// entries of a session in a queue. The ID comes before the mode because
// Forget knows only the ID and deletes the range "<lease>-<id>-".
//
// A conversion makes a new key, since the watches of others are on the old one and must tell
// that it went. The new key's create revision says nothing about the place in the queue, so its
// name has the one that counts: the rank, the token that the contender got when it joined. All
// that were converted lie in a range of their own, which is short because only who was
// admitted is ever converted. So a view can have all of them in addition to those that
// etcd itself selects by create revision.
type layout struct {
	base string // "<namespace>/./"
	// shared: queues are those of etcd's package concurrency, below root,
	// "<namespace>/". See foreign.go.
	shared bool
	root   string
}

func newLayout(namespace string) layout {
	if namespace == "" {
		return layout{base: "./"}
	}
	return layout{base: namespace + "/./"}
}

// queue is the prefix of all keys of a queue.
func (l layout) queue(queue driver.Queue) string {
	if l.shared {
		return l.root + sharedName(queue) + "/"
	}
	return l.stem(queue) + slash
}

// stem is what all keys begin with that a queue has, those that are not below it
// as well; others' keys may, too.
func (l layout) stem(queue driver.Queue) string { return l.base + string(queue) }

// below cuts the prefix of a queue's keys from one of them.
func (l layout) below(queue driver.Queue, key string) (bare string, ok bool) {
	if l.shared {
		return strings.CutPrefix(key, l.queue(queue))
	}
	if bare, ok = strings.CutPrefix(key, l.base); ok {
		if bare, ok = strings.CutPrefix(bare, string(queue)); ok {
			bare, ok = strings.CutPrefix(bare, slash)
		}
	}
	return bare, ok
}

// lineEnd ends the range of all keys of a queue: it is their prefix with the
// character that follows the slash.
func (l layout) queueEnd(queue driver.Queue) string { return l.stem(queue) + afterSlash }

const slash, afterSlash = "/", "0"

// record is the key of the queue's record. It is not below the queue, which is
// empty without contenders (D4).
func (l layout) record(queue driver.Queue) string { return l.stem(queue) + "+record" }

// contender is the one key that the contender can have before it is converted;
// without a mode it is the prefix of that.
func (l layout) contender(queue driver.Queue, id string, lease clientv3.LeaseID, mode string) string {
	return l.base + string(queue) + "/" + leaseHex(lease) + "-" + id + "-" + mode
}

// moved begins the names of converted entries. It sorts before all hex digits.
const moved = "+"

// converted is the prefix of the one key that a contender can have after it was converted,
// given the prefix before that.
func converted(contender string) string {
	i := strings.LastIndexByte(contender, '/') + 1
	return contender[:i] + moved + contender[i:]
}

// allConverted is the range of all converted entries of a queue. Others may have
// put keys there, too.
func (l layout) allConverted(queue driver.Queue) (key, end string) {
	key = l.queue(queue) + moved
	return key, clientv3.GetPrefixRangeEnd(key)
}

// sentinel is the key of a session. The nonce keeps two sessions apart that adopt
// the same lease.
func (l layout) sentinel(lease clientv3.LeaseID, nonce string) string {
	return l.base + "sessions/" + leaseHex(lease) + "-" + nonce
}

// leaseHex writes a lease as etcdctl does. A lease chosen by a user may be negative,
// hence the conversion: "-5" would look like a separator.
func leaseHex(lease clientv3.LeaseID) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(lease))
	return hex.EncodeToString(b[:])
}

// name is the last part of a contender's key.
type name struct {
	lease, id, mode string
	rank            int64 // the token of a converted entry; zero of one that has its own create revision
}

func (n name) String() string {
	s := n.lease + "-" + n.id + "-" + n.mode
	if n.rank > 0 {
		return fmt.Sprintf("%s%s-%016x", moved, s, n.rank)
	}
	return s
}

// parseName reads the last part of a contender's key. Names written by others,
// such as the bare lease of etcd's concurrency package, are not ok.
func parseName(s string) (name, bool) {
	s, isMoved := strings.CutPrefix(s, moved)
	lease, s, _ := strings.Cut(s, "-")
	id, s, _ := strings.Cut(s, "-")
	mode, hex, hasRank := strings.Cut(s, "-")
	if hasRank != isMoved || !isLong(lease) || !isID(id) || !isMode(mode) {
		return name{}, false
	}
	n := name{lease: lease, id: id, mode: mode}
	if isMoved {
		rank, err := strconv.ParseInt(hex, 16, 64)
		if err != nil || rank <= 0 || !isLong(hex) {
			return name{}, false
		}
		n.rank = rank
	}
	return n, true
}

func isID(s string) bool { return len(s) >= 16 && len(s) <= 32 && isHex(s) }

// isLong says whether s is a 64-bit number as leaseHex writes it.
func isLong(s string) bool { return len(s) == 16 && isHex(s) }

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

func isMode(s string) bool {
	return len(s) >= 1 && len(s) <= 16 &&
		strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// entry is one key in one of its lives. A foreign client may delete a key and
// make it again, and so does Baton for a contender that is converted there and back; that is
// another entry, so the key alone does not identify one.
type entry struct {
	key string
	rev int64 // its create revision
}

// handle is the entry as Place.Key.
func (e entry) handle() string {
	var rev [20]byte
	return e.key + "@" + string(strconv.AppendInt(rev[:0], e.rev, 10))
}

// is tells whether a key that was read is the entry.
func (e entry) is(kv *mvccpb.KeyValue) bool {
	return string(kv.Key) == e.key && kv.CreateRevision == e.rev
}

// in tells whether the entry was there when its key was read.
func (e entry) in(kvs []*mvccpb.KeyValue) bool { return len(kvs) > 0 && e.is(kvs[0]) }

// goes tells whether an event is the end of the entry.
func (e entry) goes(ev *clientv3.Event) bool {
	return ev.Type == mvccpb.DELETE && string(ev.Kv.Key) == e.key && ev.Kv.ModRevision > e.rev
}

// stands compares the entry with the one that is there: the same key in the same life.
func (e entry) stands() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.rev)
}

// revision writes a revision.
func revision(rev int64) string { return strconv.FormatInt(rev, 10) }

// entry reads the handle of a place back. What is no handle, or one of another
// queue, stands for nothing that could be in this queue.
func (l layout) entry(queue driver.Queue, p driver.Place) (e entry, ok bool) {
	i := strings.LastIndexByte(p.Key, '@')
	if i < 0 {
		return entry{}, false
	}
	if _, ok := l.below(queue, p.Key[:i]); !ok {
		return entry{}, false
	}
	rev, err := strconv.ParseInt(p.Key[i+1:], 10, 64)
	if err != nil || rev <= 0 {
		return entry{}, false
	}
	return entry{p.Key[:i], rev}, true
}

// name reads what the entry's key says of its contender. An entry is converted
// after it joined, so a rank that is not below the create revision is none of
// ours.
func (l layout) name(queue driver.Queue, e entry) (name, bool) {
	bare, ok := l.below(queue, e.key)
	if !ok {
		return name{}, false
	}
	n, ok := parseName(bare)
	if !ok || n.rank >= e.rev {
		return name{}, false
	}
	return n, true
}

// rank is where the entry stands in its queue, and its token.
func (l layout) rank(queue driver.Queue, e entry) int64 {
	n, _ := l.name(queue, e)
	return cmp.Or(n.rank, e.rev)
}

// place shows an entry of a queue. One that Baton did not write keeps its place without an ID.
// etcd's own clients name theirs after the lease alone, which tells whose it is;
// the lease that the service reports would do better, but views without values lack it.
func (l layout) place(queue driver.Queue, e entry) driver.Place {
	p := driver.Place{Key: e.handle()}
	if n, ok := l.name(queue, e); ok {
		p.ID, p.Session, p.Mode = n.id, n.lease, n.mode
		return p
	}
	bare := strings.TrimPrefix(e.key, l.queue(queue))
	if k := len(bare); k > 0 && k <= 16 && isHex(bare) {
		p.Session = strings.Repeat("0", 16-k) + bare
	}
	return p
}

// head shows one key of a queue.
func (l layout) head(queue driver.Queue, kv *mvccpb.KeyValue) driver.Head {
	e := entry{string(kv.Key), kv.CreateRevision}
	return driver.Head{
		Entry:   driver.Entry{Place: l.place(queue, e), Token: driver.Token(l.rank(queue, e)), Value: kv.Value},
		Version: driver.Version(kv.ModRevision),
	}
}

// before is the order of a queue. Equal ranks come only from a foreign
// transaction that made several keys; their names settle it.
func before(a, b driver.Head) int {
	return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Key, b.Key))
}

// inOrder shows keys of a queue in its order, each once: a key may have been read twice, at one
// revision. Marks stand nowhere.
func (l layout) inOrder(queue driver.Queue, kvs []*mvccpb.KeyValue) []driver.Head {
	states := make([]driver.Head, 0, len(kvs))
	for _, kv := range kvs {
		if !isMark(string(kv.Key)) {
			states = append(states, l.head(queue, kv))
		}
	}
	slices.SortFunc(states, before)
	return slices.CompactFunc(states, func(a, b driver.Head) bool { return a.Key == b.Key })
}
