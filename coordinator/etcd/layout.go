package etcd

import (
	"fmt"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// The keys of one namespace:
//
//	<namespace>/./<kind>/<name>/<id>-<lease>-<mode>   a contender, value as given
//	<namespace>/./sessions/<lease>-<nonce>            a session's sentinel, empty
//
// The segment "." ends the namespace. No namespace can contain it (driver.Namespace
// refuses it), hence no namespace's keys lie below another's, although "a" is a
// prefix of "a/b". A word such as "baton" would need a rule that reserves it.
//
// A line is the range of all keys below "<kind>/<name>/". Lines have exactly two
// segments, neither with a slash, so no line's range contains another's, nor a sentinel,
// which has one segment less.
//
// The contender's key is unique by its ID: two contenders of one session never
// share a key. Lease and mode are in the name so that a listing without values shows
// whose the entry is and what it wants. The ID comes before the mode because
// Forget knows only the ID and deletes the range "<id>-<lease>-".
type layout struct {
	base string // "<namespace>/./"
}

func newLayout(namespace string) layout {
	if namespace == "" {
		return layout{"./"}
	}
	return layout{namespace + "/./"}
}

// line is the prefix of all keys of a line.
func (l layout) line(line driver.Line) string { return l.base + string(line) + "/" }

// contender is the prefix of the one key that the contender can have.
func (l layout) contender(line driver.Line, id string, lease clientv3.LeaseID) string {
	return l.line(line) + id + "-" + leaseHex(lease) + "-"
}

// sentinel is the key of a session. The nonce keeps two sessions apart that adopt
// the same lease.
func (l layout) sentinel(lease clientv3.LeaseID, nonce string) string {
	return l.base + "sessions/" + leaseHex(lease) + "-" + nonce
}

// leaseHex writes a lease as etcdctl does. A lease chosen by a user may be negative,
// hence the conversion: "-5" would look like a separator.
func leaseHex(lease clientv3.LeaseID) string { return fmt.Sprintf("%016x", uint64(lease)) }

// parseName splits the last part of a contender's key. Names written by others,
// such as the bare lease of etcd's concurrency package, are not ok.
func parseName(name string) (id, lease, mode string, ok bool) {
	id, rest, _ := strings.Cut(name, "-")
	lease, mode, _ = strings.Cut(rest, "-")
	if !isID(id) || len(lease) != 16 || !isHex(lease) || !isMode(mode) {
		return "", "", "", false
	}
	return id, lease, mode, true
}

func isID(s string) bool { return len(s) >= 16 && len(s) <= 32 && isHex(s) }

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

func isMode(s string) bool {
	return len(s) >= 1 && len(s) <= 8 &&
		strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// entry is one key in one of its lives. A foreign client may delete a key and
// make it again; that is another entry, later in the line, so the key
// alone does not identify a contender.
type entry struct {
	key string
	rev int64 // its create revision
}

// handle is the entry as Place.Key.
func (e entry) handle() string { return e.key + "@" + strconv.FormatInt(e.rev, 10) }

// entry reads the handle of a place back. What is no handle, or one of another line, stands for nothing
// that could be in this line.
func (l layout) entry(line driver.Line, p driver.Place) (e entry, ok bool) {
	i := strings.LastIndexByte(p.Key, '@')
	if i < 0 || !strings.HasPrefix(p.Key[:i], l.line(line)) {
		return entry{}, false
	}
	rev, err := strconv.ParseInt(p.Key[i+1:], 10, 64)
	if err != nil || rev <= 0 {
		return entry{}, false
	}
	return entry{p.Key[:i], rev}, true
}

// place shows a key of a line. An entry that Baton did not write keeps its place without an ID.
// etcd's own clients name theirs after the lease alone, which tells whose it is;
// the lease that the service reports would do better, but views without values lack it.
func (l layout) place(line driver.Line, kv *mvccpb.KeyValue) driver.Place {
	p := driver.Place{Key: entry{string(kv.Key), kv.CreateRevision}.handle()}
	name := strings.TrimPrefix(string(kv.Key), l.line(line))
	if id, lease, mode, ok := parseName(name); ok {
		p.ID, p.Session, p.Mode = id, lease, mode
	} else if n := len(name); n > 0 && n <= 16 && isHex(name) {
		p.Session = strings.Repeat("0", 16-n) + name
	}
	return p
}
