package keys

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// Entry is one key in one of its lives. A key may be deleted and made again, by
// another program or by Baton, which uses the names of contenders again. That
// is another entry, so the key alone does not identify one.
type Entry struct {
	Key string
	Rev int64 // its create revision
}

// Handle is the entry as Place.Key.
func (e Entry) Handle() string {
	var rev [20]byte
	return e.Key + "@" + string(strconv.AppendInt(rev[:0], e.Rev, 10))
}

// ParseHandle reads a Place.Key back.
func ParseHandle(handle string) (e Entry, ok bool) {
	i := strings.LastIndexByte(handle, '@')
	if i < 0 {
		return Entry{}, false
	}
	rev, err := strconv.ParseInt(handle[i+1:], 10, 64)
	if err != nil || rev <= 0 {
		return Entry{}, false
	}
	return Entry{handle[:i], rev}, true
}

// Is tells whether a key that was read is the entry.
func (e Entry) Is(kv *mvccpb.KeyValue) bool {
	return string(kv.Key) == e.Key && kv.CreateRevision == e.Rev
}

// In tells whether the entry was there when its key was read.
func (e Entry) In(kvs []*mvccpb.KeyValue) bool { return len(kvs) > 0 && e.Is(kvs[0]) }

// Goes tells whether an event is the end of the entry. A watch that was resumed
// may show the end of an earlier life of the key.
func (e Entry) Goes(ev *clientv3.Event) bool {
	return ev.Type == mvccpb.DELETE && string(ev.Kv.Key) == e.Key && ev.Kv.ModRevision > e.Rev
}

// Stands is true if the entry is there: the same key in the same life.
func (e Entry) Stands() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.Key), "=", e.Rev)
}

// Unchanged compares the mod revision of a key, 0 for one that must not be
// there.
func Unchanged(key string, mod int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", mod)
}

// Absent is true if no key has the prefix.
func Absent(prefix string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(prefix).WithPrefix(), "=", 0)
}

// Before is the order of a queue. Only another program's transaction that made
// several keys gives two entries one token; their names settle it.
func Before(a, b driver.Head) int {
	return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Key, b.Key))
}

// Places are the places of entries.
func Places(heads []driver.Head) []driver.Place {
	places := make([]driver.Place, len(heads))
	for i, h := range heads {
		places[i] = h.Place
	}
	return places
}

// LeaseHex writes a lease as etcdctl does. A lease that a user chose may be
// negative, hence the conversion: "-5" would look like a separator.
func LeaseHex(lease clientv3.LeaseID) string { return fmt.Sprintf("%016x", uint64(lease)) }

// IsID tells whether s can be the ID of a contender.
func IsID(s string) bool { return len(s) >= 16 && len(s) <= 32 && isHex(s) }

// IsMode tells whether s can be the mode of a contender.
func IsMode(s string) bool {
	return len(s) >= 1 && len(s) <= 16 &&
		strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// isLong tells whether s is a 64-bit number as LeaseHex writes it.
func isLong(s string) bool { return len(s) == 16 && isHex(s) }

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
