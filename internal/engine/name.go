package engine

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/baton-go/baton/coordinator/driver"
)

// MaxName is the length of the longest name, in bytes.
const MaxName = 255

// CheckName returns an ErrInvalid for an invalid name; see
// coordinator.CheckName.
func CheckName(name string) error {
	switch {
	case name == "":
		return Invalid("name is empty")
	case len(name) > MaxName:
		return Invalid("name %.20q… has %d bytes; at most %d are allowed", name, len(name), MaxName)
	case !utf8.ValidString(name):
		return Invalid("name %q is not valid UTF-8", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return Invalid("name %q has a control character", name)
	}
	for i, seg := range strings.Split(name, "/") {
		switch {
		case seg == "":
			return Invalid("name %q has an empty segment; \"/\" must not begin, end or be doubled", name)
		case seg == "." || seg == "..":
			return Invalid("name %q has the segment %q", name, seg)
		case !strings.ContainsFunc(seg, visible):
			return Invalid("name %q has a segment without a visible character", name)
		case i == 0 && seg == "zookeeper":
			return Invalid("name %q begins with the reserved word \"zookeeper\"", name)
		}
	}
	return nil
}

// visible reports whether a character shows. Some letters and symbols do not.
func visible(r rune) bool {
	switch r {
	case '\u115F', '\u1160', '\u3164', '\uFFA0', '\u2800':
		return false
	}
	return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
}

// QueueOf returns the queue of a recipe's name. Its kind ("mutex") separates
// the queues of two recipes with the same name.
func QueueOf(kind, name string) (driver.Queue, error) {
	bad := func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' }
	if kind == "" || kind == OwnKind || strings.ContainsFunc(kind, bad) {
		return "", Invalid("kind %q of a queue: want letters a to z and \"-\", and not %q", kind, OwnKind)
	}
	if err := CheckName(name); err != nil {
		return "", err
	}
	return driver.NewQueue(kind, name), nil
}

// Queue is QueueOf, but if queues are shared with other clients, it uses their
// names, and returns ErrInvalid for a kind that they do not have.
func (c *Client) Queue(kind, name string) (driver.Queue, error) {
	d := c.Sharer()
	if d == nil {
		return QueueOf(kind, name)
	}
	name, err := d.SharedName(kind, name)
	if err != nil {
		return "", fmt.Errorf("baton: %w", err)
	}
	return driver.NewQueue(kind, name), nil
}

// Sharer returns the driver if its queues are shared with other clients, or
// nil.
func (c *Client) Sharer() driver.Sharer {
	d, _ := c.driver.(driver.Sharer)
	return d
}

// Printable returns s, quoted if it has characters that a terminal does not
// show as they are: control characters, and those that change the direction of
// writing or break the line.
func Printable(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return strconv.Quote(s)
		}
	}
	return s
}
