package memory

import (
	"fmt"
	"regexp"

	"github.com/baton-go/baton/coordinator/driver"
)

// maxValue is the largest value of a contender or record.
const maxValue = 64 << 10

// The rules of package driver for requests, so that a recipe that breaks one
// fails in its first test.
var (
	idRule    = regexp.MustCompile(`^[0-9a-f]{16,32}$`)
	modeRule  = regexp.MustCompile(`^[a-z0-9]{1,16}$`)
	queueRule = regexp.MustCompile(`^[A-Za-z0-9._~%-]+/[A-Za-z0-9._~%-]+$`)
	dotsRule  = regexp.MustCompile(`(^|/)\.\.?(/|$)`)
)

func checkContender(queue driver.Queue, c driver.Contender) error {
	if err := checkQueue(queue); err != nil {
		return err
	}
	if !idRule.MatchString(c.ID) {
		return invalid("contender ID %q; want 16 to 32 lower-case hex digits", c.ID)
	}
	return checkEntry(c.Mode, c.Value)
}

// checkQueue is for requests that have an effect on an empty queue.
func checkQueue(queue driver.Queue) error {
	if !queueRule.MatchString(string(queue)) || dotsRule.MatchString(string(queue)) {
		return invalid("queue %q; want kind/name, each URL-escaped", queue)
	}
	return nil
}

func checkEntry(mode string, value []byte) error {
	if !modeRule.MatchString(mode) {
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

func invalid(format string, args ...any) error {
	return driver.Wrap(driver.ErrInvalid, fmt.Errorf("memory: "+format, args...))
}
