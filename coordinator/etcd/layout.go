package etcd

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// The keys of one namespace:
//
//	<namespace>/./<kind>/<name>/<lease>-<id>-<mode>          a contender, value as given
//	<namespace>/./<kind>/<name>/+<lease>-<id>-<mode>-<rank>  one that was converted
//	<namespace>/./<kind>/<name>+record                       the line's record
//	<namespace>/./sessions/<lease>-<nonce>                   a session's sentinel, empty
//
// The segment "." ends the namespace. No namespace can contain it (driver.Namespace
// refuses it), hence no namespace's keys lie below another's, although "a" is a
// prefix of "a/b". A word such as "baton" would need a rule that reserves it.
//
// A line is the range of all keys below "<kind>/<name>/". Lines have exactly two
// segments, neither with a slash, so no line's range contains another's, nor a sentinel or a record,
// which have one segment less. A "+" occurs in neither segment, so no line, session
// or record has another's key.
//
// The contender's key is unique by its ID: two contenders of one session never
// share a key. Lease and mode are in the name so that a listing without values shows
// whose the entry is and what it wants. The lease comes first, so that one watch can be on all
// entries of a session in a line. The ID comes before the mode because
// Forget knows only the ID and deletes the range "<lease>-<id>-".
//
// A conversion makes a new key, since the watches of others are on the old one and must tell
// that it went. The new key's create revision says nothing about the place in the line, so its
// name has the one that counts: the rank, the token that the contender got when it joined. All
// that were converted lie in a range of their own, which is short because only who was
// admitted is ever converted. So a view can have all of them in addition to those that
// etcd itself selects by create revision.
type layout struct {
	base string // "<namespace>/./"
	// shared: lines are those of etcd's package concurrency, below root, "<namespace>/". See guest.go.
	shared bool
	root   string
}

func newLayout(namespace string) layout {
	if namespace == "" {
		return layout{base: "./"}
	}
	return layout{base: namespace + "/./"}
}

// line is the prefix of all keys of a line.
func (l layout) line(line driver.Line) string {
	if l.shared {
		return l.root + sharedName(line) + "/"
	}
	return l.stem(line) + slash
}

// stem is what all keys begin with that a line has, those that are not below it as well; others' keys may, too.
func (l layout) stem(line driver.Line) string { return l.base + string(line) }

// below cuts the prefix of a line's keys from one of them.
func (l layout) below(line driver.Line, key string) (bare string, ok bool) {
	if l.shared {
		return strings.CutPrefix(key, l.line(line))
	}
	if bare, ok = strings.CutPrefix(key, l.base); ok {
		if bare, ok = strings.CutPrefix(bare, string(line)); ok {
			bare, ok = strings.CutPrefix(bare, slash)
		}
	}
	return bare, ok
}

// lineEnd ends the range of all keys of a line: it is their prefix with the character that follows the slash.
func (l layout) lineEnd(line driver.Line) string { return l.stem(line) + afterSlash }

const slash, afterSlash = "/", "0"

// record is the key of the line's record. It is not below the line, which is empty without contenders (D4).
func (l layout) record(line driver.Line) string { return l.stem(line) + "+record" }

// contender is the one key that the contender can have before it is converted; without a mode it is the prefix of that.
func (l layout) contender(line driver.Line, id string, lease clientv3.LeaseID, mode string) string {
	return l.base + string(line) + "/" + leaseHex(lease) + "-" + id + "-" + mode
}

// siblings is the prefix of the keys of all contenders that the session of an entry has in its line: of the converted ones if it
// is one of those, and of the others if not.
func siblings(e entry) string {
	bare := e.key[strings.LastIndexByte(e.key, '/')+1:]
	lease, _, _ := strings.Cut(bare, "-")
	return strings.TrimSuffix(e.key, bare) + lease + "-"
}

// moved begins the names of converted entries. It sorts before all hex digits.
const moved = "+"

// converted is the prefix of the one key that a contender can have after it was converted,
// given the prefix before that.
func converted(contender string) string {
	i := strings.LastIndexByte(contender, '/') + 1
	return contender[:i] + moved + contender[i:]
}

// allConverted is the range of all converted entries of a line. Others may have put keys there, too.
func (l layout) allConverted(line driver.Line) (key, end string) {
	key = l.line(line) + moved
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
