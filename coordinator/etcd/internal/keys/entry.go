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

// Entry is one key with its create revision. Another program may delete and
// recreate a key, and so may Baton, which reuses the names of contenders. That
// is another entry.
type Entry struct {
	Key string
	Rev int64 // the create revision
}

// Handle is the entry as Place.Key.
func (e Entry) Handle() string {
	var rev [20]byte
	return e.Key + "@" + string(strconv.AppendInt(rev[:0], e.Rev, 10))
}

// ParseHandle parses a Place.Key.
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

// Is reports whether a key that was read is the entry.
func (e Entry) Is(kv *mvccpb.KeyValue) bool {
	return string(kv.Key) == e.Key && kv.CreateRevision == e.Rev
}

// In reports whether the entry existed when its key was read.
func (e Entry) In(kvs []*mvccpb.KeyValue) bool { return len(kvs) > 0 && e.Is(kvs[0]) }

// IsDeletedBy reports whether an event is the deletion of the entry. A resumed
// watch may show the deletion of an earlier entry of the key.
func (e Entry) IsDeletedBy(ev *clientv3.Event) bool {
	return ev.Type == mvccpb.DELETE && string(ev.Kv.Key) == e.Key && ev.Kv.ModRevision > e.Rev
}

// Exists is true if the entry exists, with this create revision.
func (e Entry) Exists() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(e.Key), "=", e.Rev)
}

// Unchanged compares the mod revision of a key, 0 for no key.
func Unchanged(key string, mod int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", mod)
}

// Absent is true if no key has the prefix.
func Absent(prefix string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(prefix).WithPrefix(), "=", 0)
}

// Before is the order of a queue. Two entries have the same token only if
// another program's transaction created several keys; then their names decide.
func Before(a, b driver.Head) int {
	return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Key, b.Key))
}

// Places returns the places of entries.
func Places(heads []driver.Head) []driver.Place {
	places := make([]driver.Place, len(heads))
	for i, h := range heads {
		places[i] = h.Place
	}
	return places
}

// LeaseHex formats a lease as etcdctl does. A lease chosen by a user may be
// negative, hence the conversion: "-5" would look like a separator.
func LeaseHex(lease clientv3.LeaseID) string { return fmt.Sprintf("%016x", uint64(lease)) }

// IsID reports whether s can be a contender's ID.
func IsID(s string) bool { return len(s) >= 16 && len(s) <= 32 && isHex(s) }

// IsMode reports whether s can be a contender's mode.
func IsMode(s string) bool {
	return len(s) >= 1 && len(s) <= 16 &&
		strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// isLong reports whether s is a 64-bit number as LeaseHex formats it.
func isLong(s string) bool { return len(s) == 16 && isHex(s) }

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
