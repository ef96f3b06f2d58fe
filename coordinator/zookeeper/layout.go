package zookeeper

import (
	"cmp"
	"math"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// This file has where things are, and what may be put there:
//
//	<chroot>/<kind>/<name>/…        the line, its contenders and their heels, see names.go and heel.go
//	<chroot>/<kind>/<name>+record   the line's record
//
// The record stands beside the line, not in it: a line has no children but contenders and their heels, whose number
// a join is told, and the service removes it when it has none. No line is called like a record, since
// "+" is not among the characters of their names.

// path is where a line is.
func (s *session) path(line driver.Line) string {
	if s.layout != nil {
		return s.root + s.layout.path(line)
	}
	return s.root + "/" + string(line)
}

// below is where something of a line is. (In one step, since every request needs it.)
func (s *session) below(line driver.Line, name string) string {
	if s.layout != nil {
		return s.path(line) + "/" + name
	}
	return s.root + "/" + string(line) + "/" + name
}

// record is where a line's record is.
func (s *session) record(line driver.Line) string {
	if s.layout != nil {
		return s.path(line) // where it has one
	}
	return s.path(line) + "+record"
}

// checkLine refuses what is not "kind/name" in safe characters. The coordinator never
// sends such a line; a driver that is called directly must not turn one into a
// path that reaches into another line or into ZooKeeper's own tree.
func (s *session) checkLine(line driver.Line) error {
	kind, name, _ := strings.Cut(string(line), "/")
	for _, part := range [...]string{kind, name} {
		if part == "." || part == ".." || !within(part, 1, len(line), isPlain) {
			return invalid("line %q: want kind/name in unreserved URL characters and percent escapes", line)
		}
	}
	if s.root == "" && kind == reserved {
		return invalid("line %q: /%s belongs to the service", line, reserved)
	}
	return nil
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

// The contract's bounds. The send buffer holds more than the largest value, see sendBuffer.
const (
	maxMode  = 16
	maxValue = 64 << 10
)

// version is the contract's version of a node's data. The service counts the changes of the data from 0, which in the
// contract stands for a record that is not there.
func version(data int32) driver.Version { return driver.Version(data) + 1 }

// dataVersion is the service's number for a version: -2, which no node has, for what is not the version of a
// node. (The service takes -1 for any version.)
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
