package memory

import (
	"fmt"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// The rules of package driver for what a request may contain. They are checked
// here so that a recipe that breaks one fails in its first test.

// maxValue is the largest value of a contender or record.
const maxValue = 64 << 10

const (
	hexDigits  = "0123456789abcdef"
	modeChars  = "abcdefghijklmnopqrstuvwxyz0123456789"
	unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%"
)

func checkContender(queue driver.Queue, c driver.Contender) error {
	if err := checkQueue(queue); err != nil {
		return err
	}
	if len(c.ID) < 16 || len(c.ID) > 32 || !only(c.ID, hexDigits) {
		return invalid("contender ID %q; want 16 to 32 lower-case hex digits", c.ID)
	}
	return checkEntry(c.Mode, c.Value)
}

// checkQueue is for requests that have an effect where nobody has joined.
func checkQueue(queue driver.Queue) error {
	kind, name, _ := strings.Cut(string(queue), "/")
	for _, segment := range []string{kind, name} {
		if segment == "" || segment == "." || segment == ".." || !only(segment, unreserved) {
			return invalid("queue %q; want kind/name, each URL-escaped", queue)
		}
	}
	return nil
}

func checkEntry(mode string, value []byte) error {
	if len(mode) < 1 || len(mode) > 16 || !only(mode, modeChars) {
		return invalid("mode %q; want 1 to 16 characters of a-z and 0-9", mode)
	}
	return checkValue(value)
}

func checkValue(value []byte) error {
	if len(value) > maxValue {
		return invalid("value of %d bytes; want at most %d", len(value), maxValue)
	}
	return nil
}

func only(s, allowed string) bool { return strings.Trim(s, allowed) == "" }

func invalid(format string, args ...any) error {
	return driver.Wrap(driver.ErrInvalid, fmt.Errorf("memory: "+format, args...))
}
