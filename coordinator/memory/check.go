package memory

import (
	"fmt"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// maxValue is the largest Value of a contender that package driver allows.
const maxValue = 64 << 10

const (
	hexDigits  = "0123456789abcdef"
	modeChars  = "abcdefghijklmnopqrstuvwxyz0123456789"
	unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%"
)

// check applies the rules of package driver to what a Join is given.
func check(line driver.Line, c driver.Contender) error {
	kind, name, ok := strings.Cut(string(line), "/")
	switch {
	case !ok || !segment(kind) || !segment(name):
		return invalid("line %q; want kind/name, each of unreserved URL characters and percent escapes", line)
	case len(c.ID) < 16 || len(c.ID) > 32 || !only(c.ID, hexDigits):
		return invalid("contender ID %q; want 16 to 32 lower-case hex digits", c.ID)
	case len(c.Mode) < 1 || len(c.Mode) > 8 || !only(c.Mode, modeChars):
		return invalid("mode %q; want 1 to 8 characters of a-z and 0-9", c.Mode)
	case len(c.Value) > maxValue:
		return invalid("value of %d bytes; want at most %d", len(c.Value), maxValue)
	}
	return nil
}

func segment(s string) bool {
	return s != "" && s != "." && s != ".." && only(s, unreserved)
}

func only(s, allowed string) bool {
	return strings.Trim(s, allowed) == ""
}

func invalid(format string, args ...any) error {
	return driver.Wrap(driver.ErrInvalid, fmt.Errorf("memory: "+format, args...))
}
