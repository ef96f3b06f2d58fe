package zookeeper

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file has the names of the nodes in a queue, and their order:
//
//	<mode>_<id>_<session>_<sequence>                one that joined
//	<mode>_<id>_<session>_<token>_<n>_<sequence>    the same after its n-th conversion
//	successor_<sequence>                            the successor node of the one whose number is one less
//
// All parts are readable in one listing, so nobody has to read the nodes to
// know who stands where. The session is in the name because a connection may go
// on with a new session without asking (see FromConn): whose entry it is must
// not be concluded from who is connected.
//
// A conversion makes a new node, which has a zxid of its own and would get a
// sequence number at the end of the queue. So it is made under a name that says
// what stays: the sequence number, which is the place in the queue, and the
// token, which for one that joined is the node's czxid. The number of the
// conversion makes the name one that was never used, also when a mode comes
// back.
//
// A successor node belongs to an entry and is no contender itself: see
// handoff.go.

// node is one child of a queue.
type node struct {
	driver.Place
	seq   int32
	turn  uint32       // how many conversions it has seen
	token driver.Token // if there were any; else the node's czxid is the token
}

// nodePrefix is what the service appends a sequence number to.
func nodePrefix(c driver.Contender, session string) string {
	return c.Mode + "_" + c.ID + "_" + session + "_"
}

// converted is n with another mode. Asked again it gives the same.
func (n node) converted(mode string, token driver.Token) node {
	n.Mode, n.token = mode, token
	n.turn++
	n.Key = fmt.Sprintf("%s%016x_%x_%010d", nodePrefix(driver.Contender{ID: n.ID, Mode: mode}, n.Session), uint64(token), n.turn, n.seq)
	return n
}

// tokenOr is the node's token, if czxid is its czxid.
func (n node) tokenOr(czxid int64) driver.Token {
	if n.turn > 0 {
		return n.token
	}
	return driver.Token(czxid)
}

// parseNode reads a child's name. A child that Baton did not write has an empty
// ID, yet it is a place if it has a sequence number; ok is false if it has
// none, and for a successor node.
func parseNode(name string) (n node, ok bool) {
	if n, ok = parseOwn(name); ok {
		return n, true
	}
	n = node{Place: driver.Place{Key: name}}
	if _, ok := parseSuccessor(name); ok {
		return n, false
	}
	n.seq, ok = foreignSequence(name)
	return n, ok
}

// parseOwn reads the name of a child that Baton wrote.
func parseOwn(name string) (n node, ok bool) {
	var parts [6]string
	count, rest, more := 0, name, true
	for ; more; count++ {
		if count == len(parts) {
			return node{}, false
		}
		parts[count], rest, more = strings.Cut(rest, "_")
	}
	switch count {
	case 4:
	case len(parts):
		if n.token, n.turn, ok = conversion(parts[3], parts[4]); !ok {
			return node{}, false
		}
	default:
		return node{}, false
	}
	if !within(parts[0], 1, maxMode, isMode) || !within(parts[1], 16, 32, isHex) || !within(parts[2], 1, 16, isHex) {
		return node{}, false
	}
	n.Place = driver.Place{Key: name, ID: parts[1], Mode: parts[0], Session: parts[2]}
	n.seq, ok = sequence(parts[count-1])
	return n, ok
}

// conversion reads the parts that a conversion adds, in the form in which they
// are written and no other.
func conversion(token, turn string) (driver.Token, uint32, bool) {
	if !within(token, 16, 16, isHex) || !within(turn, 1, 8, isHex) || turn[0] == '0' {
		return 0, 0, false
	}
	t, err := strconv.ParseUint(token, 16, 63)
	if err != nil || t == 0 {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(turn, 16, 32)
	return driver.Token(t), uint32(n), err == nil
}

// sequence reads a sequence number, in the form in which the service writes it
// and no other: "%010d". (Printing it again to compare would cost most of the
// time that a long listing takes.)
func sequence(s string) (int32, bool) {
	v, err := strconv.ParseInt(s, 10, 32)
	switch {
	case err != nil || s[0] == '+':
		return 0, false
	case v <= -1_000_000_000:
		return int32(v), len(s) == 11
	default:
		return int32(v), len(s) == 10 && (s[0] == '-') == (v < 0)
	}
}

// foreignSequence reads the sequence number at the end of a name whose prefix
// is not known.
//
// The service writes "%010d" of a signed number: ten digits, or a minus with
// nine or ten. Prefixes of other clients may end in "-" themselves ("lock-"),
// so a minus before ten digits counts as a sign only after another separator,
// or when the number would not fit without it.
func foreignSequence(name string) (int32, bool) {
	start := len(name)
	for start > 0 && isDigit(name[start-1]) {
		start--
	}
	minus := start > 0 && name[start-1] == '-'
	digits := name[start:]
	switch {
	case len(digits) == 9 && minus:
		digits = "-" + digits
	case len(digits) == 10 && minus && (start > 1 && strings.ContainsRune("-_", rune(name[start-2])) || digits > "2147483647"):
		digits = "-" + digits
	case len(digits) >= 10:
		digits = digits[len(digits)-10:] // the prefix ends in digits
	default:
		return 0, false
	}
	return sequence(digits)
}

// late tells that the sequence number is one of those that a service gives when
// it has run out of them.
//
// It counts the joins and conversions of a queue in 32 bits. What comes after
// 2147483647 depends on the release: in some the count wraps; others, 3.8 among
// them, stay there and give that number to everybody, apart from joins that
// arrive together, of which the later ones get negative numbers. So no order
// follows from such numbers, and two contenders may have the same.
func (n node) late() bool { return n.seq < 0 || n.seq == math.MaxInt32 }

// inOrder sorts the nodes of one queue, first in the queue first, for as long as none
// is late.
//
// The signed distance to a fixed node is right on both sides of a wrap too, as
// long as fewer than 2^31 numbers lie between two nodes that are there at once.
// Comparing strings or plain integers is wrong there: a newcomer would overtake
// the holder.
func inOrder(nodes []node) {
	if len(nodes) == 0 {
		return
	}
	pivot := nodes[0].seq // which node does not matter
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(a.seq-pivot, b.seq-pivot) })
}

// queueView is the children of a queue at one moment.
type queueView struct {
	nodes      []node   // in order
	successors []int32  // their sequence numbers, in no order
	strays     []string // those without a sequence number, quoted
}

// parseChildren reads the children of a queue.
func parseChildren(names []string) queueView {
	c := queueView{nodes: make([]node, 0, len(names))}
	for _, name := range names {
		if seq, ok := parseSuccessor(name); ok {
			c.successors = append(c.successors, seq)
		} else if n, ok := parseNode(name); ok {
			c.nodes = append(c.nodes, n)
		} else {
			c.strays = append(c.strays, strconv.Quote(name))
		}
	}
	inOrder(c.nodes)
	return c
}

// ambiguous is the error for a queue of which nobody can say who is first, nil
// if it is none.
func (s *session) ambiguous(queue driver.Queue, c queueView) error {
	if s.layout != nil {
		return s.layout.ambiguousFor(queue, c)
	}
	return ambiguous(queue, c.strays)
}

// ambiguous is the error for a queue with strays, nil if there are none.
//
// A stray stands nowhere. Leaving it out could admit two contenders if it
// belongs to a client that counts it, and waiting for it could take for ever;
// so it is reported by name, and somebody has to remove it.
func ambiguous(queue driver.Queue, strays []string) error {
	if len(strays) == 0 {
		return nil
	}
	slices.Sort(strays)
	return driver.Wrap(driver.ErrRefused, fmt.Errorf(
		"queue %q has children without a sequence number, which have no place in it: %s",
		queue, strings.Join(strays, ", ")))
}

// This file has where things are, and what may be put there:
//
//	<chroot>/<kind>/<name>/…        the queue, its contenders and their successor nodes, see here and in handoff.go
//	<chroot>/<kind>/<name>+record   the queue's record
//
// The record stands beside the queue, not in it: a queue has no children but
// contenders and their successor nodes, whose number a join is told, and the
// service removes it when it has none. No queue is called like a record, since
// "+" is not among the characters of their names.

// path is where a queue is.
func (s *session) path(queue driver.Queue) string {
	if s.layout != nil {
		return s.root + s.layout.path(queue)
	}
	return s.root + "/" + string(queue)
}

// below is where something of a queue is. (In one step, since every request
// needs it.)
func (s *session) below(queue driver.Queue, name string) string {
	if s.layout != nil {
		return s.path(queue) + "/" + name
	}
	return s.root + "/" + string(queue) + "/" + name
}

// record is where a queue's record is.
func (s *session) record(queue driver.Queue) string {
	if s.layout != nil {
		return s.path(queue) // where it has one
	}
	return s.path(queue) + "+record"
}

// checkQueue refuses what is not "kind/name" in safe characters. The coordinator
// never sends such a queue; a driver that is called directly must not turn one
// into a path that reaches into another queue or into ZooKeeper's own tree.
func (s *session) checkQueue(queue driver.Queue) error {
	kind, name, _ := strings.Cut(string(queue), "/")
	for _, part := range [...]string{kind, name} {
		if part == "." || part == ".." || !within(part, 1, len(queue), isPlain) {
			return invalid("queue %q: want kind/name in unreserved URL characters and percent escapes", queue)
		}
	}
	if s.root == "" && kind == reserved {
		return invalid("queue %q: /%s belongs to the service", queue, reserved)
	}
	return nil
}

// checkKey refuses keys that would lead out of the queue: an empty one is the
// queue itself.
func checkKey(queue driver.Queue, p driver.Place) error {
	if p.Key == "" || p.Key == "." || p.Key == ".." || strings.ContainsRune(p.Key, '/') {
		return invalid("place with key %q in the queue %q: not a place of this driver", p.Key, queue)
	}
	return nil
}

// checkContender refuses what would not come back out of a node's name.
func checkContender(c driver.Contender) error {
	if !within(c.ID, 16, 32, isHex) {
		return invalid("contender ID %q: want 16 to 32 lower-case hex digits", c.ID)
	}
	return cmp.Or(checkMode(c.Mode), checkValue(c.Value))
}

func checkMode(mode string) error {
	if !within(mode, 1, maxMode, isMode) {
		return invalid("contender mode %q: want 1 to %d characters of a-z and 0-9", mode, maxMode)
	}
	return nil
}

func checkValue(value []byte) error {
	if len(value) > maxValue {
		return invalid("value of %d bytes: at most %d", len(value), maxValue)
	}
	return nil
}

// The contract's bounds. The send buffer holds more than the largest value, see
// sendBuffer.
const (
	maxMode  = 16
	maxValue = 64 << 10
)

// version is the contract's version of a node's data. The service counts the
// changes of the data from 0, which in the contract stands for a record that is
// not there.
func version(data int32) driver.Version { return driver.Version(data) + 1 }

// dataVersion is the service's number for a version: -2, which no node has, for
// what is not the version of a node. (The service takes -1 for any version.)
func dataVersion(v driver.Version) int32 {
	if v < 1 || v > math.MaxInt32 {
		return -2
	}
	return int32(v - 1)
}

func within(s string, least, most int, ok func(byte) bool) bool {
	if len(s) < least || len(s) > most {
		return false
	}
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }
func isHex(b byte) bool   { return isDigit(b) || b >= 'a' && b <= 'f' }
func isPlain(b byte) bool {
	switch b {
	case '-', '.', '_', '~', '%':
		return true
	}
	return isDigit(b) || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
func isMode(b byte) bool { return isDigit(b) || b >= 'a' && b <= 'z' }
