package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
)

// Remove takes out an entry of whatever session, as [Service.Remove] does.
func (s *session) Remove(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	svc := s.driver.svc
	_, err := s.do(ctx, Request{Op: OpRemove, Queue: queue}, func(*call) error {
		e := svc.find(queue, driver.Place{Key: key})
		if e == nil || e.Token != token {
			return driver.Wrap(driver.ErrGone, errNoEntry)
		}
		svc.erase(e)
		return nil
	})
	return err
}

// Queues are those that exist: a queue does while it has entries.
func (s *session) Queues(ctx context.Context) ([]driver.Queue, error) {
	var queues []driver.Queue
	_, err := s.do(ctx, Request{Op: OpQueues}, func(*call) error {
		queues = slices.Sorted(maps.Keys(s.driver.svc.queues))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return queues, nil
}

// maxValue is the largest value of a contender or record that package driver allows.
const maxValue = 64 << 10

const (
	hexDigits  = "0123456789abcdef"
	modeChars  = "abcdefghijklmnopqrstuvwxyz0123456789"
	unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%"
)

// check applies the rules of package driver to what a Join is given.
func check(queue driver.Queue, c driver.Contender) error {
	if err := checkQueue(queue); err != nil {
		return err
	}
	if len(c.ID) < 16 || len(c.ID) > 32 || !only(c.ID, hexDigits) {
		return invalid("contender ID %q; want 16 to 32 lower-case hex digits", c.ID)
	}
	return checkEntry(c.Mode, c.Value)
}

// checkQueue is for what can have an effect in a queue where nobody has joined.
func checkQueue(queue driver.Queue) error {
	kind, name, ok := strings.Cut(string(queue), "/")
	if !ok || !segment(kind) || !segment(name) {
		return invalid("queue %q; want kind/name, each of unreserved URL characters and percent escapes", queue)
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

func segment(s string) bool {
	return s != "" && s != "." && s != ".." && only(s, unreserved)
}

func only(s, allowed string) bool {
	return strings.Trim(s, allowed) == ""
}

func invalid(format string, args ...any) error {
	return driver.Wrap(driver.ErrInvalid, fmt.Errorf("memory: "+format, args...))
}
