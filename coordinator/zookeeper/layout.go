package zookeeper

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file has the layout of a line and the order of its nodes:
//
//	<chroot>/<kind>/<name>/<mode>_<id>_<session>_<sequence>
//
// All four parts of a node's name are readable in one listing, so nobody has to read the
// nodes to know who stands where. The session is in the name because a
// connection may go on with a new session without asking (see FromConn): whose entry it
// is must not be concluded from who is connected.

// path is where a line is.
func (s *session) path(line driver.Line) string { return s.root + "/" + string(line) }

// checkLine refuses what is not "kind/name" in safe characters. The coordinator never
// sends such a line; a driver that is called directly must not turn one into a
// path that reaches into another line or into ZooKeeper's own tree.
func (s *session) checkLine(line driver.Line) error {
	kind, name, _ := strings.Cut(string(line), "/")
	for _, part := range []string{kind, name} {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, unsafe) {
			return invalid("line %q: want kind/name in unreserved URL characters and percent escapes", line)
		}
	}
	if s.root == "" && kind == reserved {
		return invalid("line %q: /%s belongs to the service", line, reserved)
	}
	return nil
}

func unsafe(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("-._~%", r))
}

// checkKey refuses keys that would lead out of the line: an empty one is the
// line itself.
func checkKey(line driver.Line, p driver.Place) error {
	if p.Key == "" || p.Key == "." || p.Key == ".." || strings.ContainsRune(p.Key, '/') {
		return invalid("place with key %q in line %q: not a place of this driver", p.Key, line)
	}
	return nil
}

// checkContender refuses what would not come back out of a node's name.
func checkContender(c driver.Contender) error {
	if !within(c.ID, 16, 32, isHex) {
		return invalid("contender ID %q: want 16 to 32 lower-case hex digits", c.ID)
	}
	if !within(c.Mode, 1, 8, isMode) {
		return invalid("contender mode %q: want 1 to 8 characters of a-z and 0-9", c.Mode)
	}
	if len(c.Value) > maxValue {
		return invalid("contender value of %d bytes: at most %d", len(c.Value), maxValue)
	}
	return nil
}

// maxValue is the contract's bound. The send buffer holds more, see sendBuffer.
const maxValue = 64 << 10

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
func isMode(b byte) bool  { return isDigit(b) || b >= 'a' && b <= 'z' }

// node is one child of a line.
type node struct {
	driver.Place
	seq int32
}

// nodePrefix is what the service appends a sequence number to.
func nodePrefix(c driver.Contender, session string) string {
	return c.Mode + "_" + c.ID + "_" + session + "_"
}

// parseNode reads a child's name. A child that Baton did not write has an empty ID, yet it is
// a place if it has a sequence number; ok is false if it has none.
func parseNode(name string) (n node, ok bool) {
	n.Key = name
	parts := strings.Split(name, "_")
	if len(parts) == 4 && within(parts[0], 1, 8, isMode) && within(parts[1], 16, 32, isHex) &&
		within(parts[2], 1, 16, isHex) {
		if n.seq, ok = sequence(parts[3]); ok {
			n.Mode, n.ID, n.Session = parts[0], parts[1], parts[2]
			return n, true
		}
	}
	n.seq, ok = foreignSequence(name)
	return n, ok
}

// sequence reads a sequence number, in the form in which the service writes it and no other:
// "%010d". (Printing it again to compare would cost most of the time that a long listing takes.)
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

// foreignSequence reads the sequence number at the end of a name whose prefix is not known.
//
// The service writes "%010d" of a signed number: ten digits, or a minus with nine or ten.
// Prefixes of other clients may end in "-" themselves ("lock-"), so a minus before
// ten digits counts as a sign only after another separator, or when the number would not
// fit without it.
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

// inOrder sorts the nodes of one line, first in line first.
//
// The sequence number of a line counts its joins in 32 bits and wraps: after 2147483647
// comes -2147483648. The signed distance to a fixed node is right on both sides of the wrap, as long as
// fewer than 2^31 joins lie between two nodes that are there at once. Comparing strings or plain
// integers is wrong at the wrap: a newcomer would overtake the holder.
func inOrder(nodes []node) {
	if len(nodes) == 0 {
		return
	}
	pivot := nodes[0].seq // which node does not matter
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(a.seq-pivot, b.seq-pivot) })
}

// parseChildren reads the children of a line. Strays are those without a sequence number.
func parseChildren(names []string) (nodes []node, strays []string) {
	nodes = make([]node, 0, len(names))
	for _, name := range names {
		if n, ok := parseNode(name); ok {
			nodes = append(nodes, n)
		} else {
			strays = append(strays, strconv.Quote(name))
		}
	}
	inOrder(nodes)
	return nodes, strays
}

// ambiguous is the error for a line with strays, nil if there are none.
//
// A stray stands nowhere. Leaving it out could admit two contenders if it belongs to a
// client that counts it, and waiting for it could take for ever; so it is reported
// by name, and somebody has to remove it.
func ambiguous(line driver.Line, strays []string) error {
	if len(strays) == 0 {
		return nil
	}
	slices.Sort(strays)
	return driver.Wrap(driver.ErrRefused, fmt.Errorf(
		"line %q has children without a sequence number, which have no place in it: %s",
		line, strings.Join(strays, ", ")))
}
