package etcd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

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

// entry reads the handle of a place back. What is no handle, or one of another line, stands for nothing
// that could be in this line.
func (l layout) entry(line driver.Line, p driver.Place) (e entry, ok bool) {
	i := strings.LastIndexByte(p.Key, '@')
	if i < 0 {
		return entry{}, false
	}
	if _, ok := l.below(line, p.Key[:i]); !ok {
		return entry{}, false
	}
	rev, err := strconv.ParseInt(p.Key[i+1:], 10, 64)
	if err != nil || rev <= 0 {
		return entry{}, false
	}
	return entry{p.Key[:i], rev}, true
}

// name reads what the entry's key says of its contender. An entry is converted after it joined, so a
// rank that is not below the create revision is none of ours.
func (l layout) name(line driver.Line, e entry) (name, bool) {
	bare, ok := l.below(line, e.key)
	if !ok {
		return name{}, false
	}
	n, ok := parseName(bare)
	if !ok || n.rank >= e.rev {
		return name{}, false
	}
	return n, true
}

// rank is where the entry stands in its line, and its token.
func (l layout) rank(line driver.Line, e entry) int64 {
	n, _ := l.name(line, e)
	return cmp.Or(n.rank, e.rev)
}

// place shows an entry of a line. One that Baton did not write keeps its place without an ID.
// etcd's own clients name theirs after the lease alone, which tells whose it is;
// the lease that the service reports would do better, but views without values lack it.
func (l layout) place(line driver.Line, e entry) driver.Place {
	p := driver.Place{Key: e.handle()}
	if n, ok := l.name(line, e); ok {
		p.ID, p.Session, p.Mode = n.id, n.lease, n.mode
		return p
	}
	bare := strings.TrimPrefix(e.key, l.line(line))
	if k := len(bare); k > 0 && k <= 16 && isHex(bare) {
		p.Session = strings.Repeat("0", 16-k) + bare
	}
	return p
}

// head shows one key of a line.
func (l layout) head(line driver.Line, kv *mvccpb.KeyValue) driver.Head {
	e := entry{string(kv.Key), kv.CreateRevision}
	return driver.Head{
		Entry:   driver.Entry{Place: l.place(line, e), Token: driver.Token(l.rank(line, e)), Value: kv.Value},
		Version: driver.Version(kv.ModRevision),
	}
}

// before is the order of a line. Equal ranks come only from a foreign transaction that made several keys; their
// names settle it.
func before(a, b driver.Head) int {
	return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Key, b.Key))
}

// inOrder shows keys of a line in its order, each once: a key may have been read twice, at one
// revision. Marks stand nowhere.
func (l layout) inOrder(line driver.Line, kvs []*mvccpb.KeyValue) []driver.Head {
	states := make([]driver.Head, 0, len(kvs))
	for _, kv := range kvs {
		if !isMark(string(kv.Key)) {
			states = append(states, l.head(line, kv))
		}
	}
	slices.SortFunc(states, before)
	return slices.CompactFunc(states, func(a, b driver.Head) bool { return a.Key == b.Key })
}
