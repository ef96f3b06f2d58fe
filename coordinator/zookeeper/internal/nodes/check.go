package nodes

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// The contract's bounds. zkconn's send buffer is larger than the largest value.
const (
	maxMode  = 16
	maxValue = 64 << 10
)

// CheckQueue refuses names that are not "kind/name" in safe characters. They
// would reach into another queue or ZooKeeper's own tree. The coordinator never
// sends them.
func (s *Session) CheckQueue(queue driver.Queue) error {
	kind, name, _ := strings.Cut(string(queue), "/")
	for _, part := range [...]string{kind, name} {
		if part == "." || part == ".." || !Within(part, 1, len(queue), isPlain) {
			return zkconn.Invalid("queue %q: want kind/name in unreserved URL characters "+
				"and percent escapes", queue)
		}
	}
	if s.Tree.Root == "" && kind == Reserved {
		return zkconn.Invalid("queue %q: /%s belongs to the service", queue, Reserved)
	}
	return nil
}

// CheckKey refuses keys that lead out of the queue; "" is the queue itself.
func CheckKey(queue driver.Queue, p driver.Place) error {
	if p.Key == "" || p.Key == "." || p.Key == ".." || strings.ContainsRune(p.Key, '/') {
		return zkconn.Invalid("place with key %q in the queue %q: not a place of this driver",
			p.Key, queue)
	}
	return nil
}

// CheckView checks the arguments of Ahead.
func (s *Session) CheckView(queue driver.Queue, own driver.Place) error {
	if err := s.CheckQueue(queue); err != nil || own == (driver.Place{}) {
		return err
	}
	return CheckKey(queue, own)
}

// CheckContender refuses a contender that a node's name cannot represent.
func CheckContender(c driver.Contender) error {
	return cmp.Or(CheckID(c.ID), CheckMode(c.Mode), CheckValue(c.Value))
}

// CheckID refuses an invalid contender ID.
func CheckID(id string) error {
	if !Within(id, 16, 32, IsHex) {
		return zkconn.Invalid("contender ID %q: want 16 to 32 lower-case hex digits", id)
	}
	return nil
}

// CheckMode refuses an invalid mode.
func CheckMode(mode string) error {
	if !Within(mode, 1, maxMode, isMode) {
		return zkconn.Invalid("contender mode %q: want 1 to %d characters of a-z and 0-9",
			mode, maxMode)
	}
	return nil
}

// CheckValue refuses a value that is too large.
func CheckValue(value []byte) error {
	if len(value) > maxValue {
		return zkconn.Invalid("value of %d bytes: at most %d", len(value), maxValue)
	}
	return nil
}

// Sequence parses a sequence number in exactly the service's form, "%010d".
// Printing it again to compare would be too slow.
func Sequence(s string) (int32, bool) {
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

// Within reports whether a text has least to most characters, all of them ok.
func Within(s string, least, most int, ok func(byte) bool) bool {
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

// IsHex reports whether a character is a lower-case hex digit.
func IsHex(b byte) bool { return isMode(b) && b <= 'f' }

func isMode(b byte) bool { return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' }

func isPlain(b byte) bool {
	return isMode(b) || b >= 'A' && b <= 'Z' || strings.IndexByte("-._~%", b) >= 0
}
