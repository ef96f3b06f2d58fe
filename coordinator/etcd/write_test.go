package etcd

import (
	"errors"
	"fmt"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
)

func write(t *testing.T, s *session, own driver.Place, value string) {
	t.Helper()
	check(t, s.Write(t.Context(), queue, own, []byte(value)))
}

// A session knows the revision of its writes.
func TestWriteTakesOneRequest(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	own := join(t, s, contender())
	twice := func() {
		t.Helper()
		if n := f.sent(func() {
			write(t, s, own.Place, "one")
			write(t, s, own.Place, "two")
		}); n != 2 {
			t.Errorf("%d requests for two writes", n)
		}
	}
	twice()
	own.Place = convert(t, s, own, "y")
	twice()
	// The value is still bound to the lease.
	_, _ = c.Revoke(t.Context(), s.Lease)
	if len(f.kvs) != 0 {
		t.Errorf("left behind: %v", f.kvs)
	}
}

// TestContendersAreForgotten: an entry's end removes its contender from memory.
func TestContendersAreForgotten(t *testing.T) {
	f, c := newFake(t)
	s, operator := open(t, f, c), open(t, f, c)
	for name, end := range map[string]func(own driver.Joined) error{
		"leave":  func(own driver.Joined) error { return s.Leave(t.Context(), queue, own.Place) },
		"forget": func(own driver.Joined) error { return s.Forget(t.Context(), queue, own.Place.ID) },
		"convert": func(own driver.Joined) error {
			return s.Leave(t.Context(), queue, convert(t, s, own, "y"))
		},
		"removed": func(own driver.Joined) error {
			check(t, operator.Remove(t.Context(), queue, own.Place.Key, own.Token))
			return isGone(s.Leave(t.Context(), queue, own.Place))
		},
		"removed, and converted": func(own driver.Joined) error {
			check(t, operator.Remove(t.Context(), queue, own.Place.Key, own.Token))
			_, err := s.Convert(t.Context(), queue, own, "y", nil)
			return errors.Join(isGone(err), isGone(s.Leave(t.Context(), queue, own.Place)))
		},
		"refused": func(own driver.Joined) error {
			alone := contender()
			alone.Alone = true
			if _, err := s.Join(t.Context(), queue, alone); !errors.Is(err, driver.ErrTaken) {
				return err
			}
			return s.Leave(t.Context(), queue, own.Place)
		},
	} {
		own := join(t, s, contender())
		write(t, s, own.Place, "v")
		if err := end(own); err != nil || len(s.memory.contenders) != 0 {
			t.Errorf("%s: %v, %v is in memory", name, err, s.memory.contenders)
		}
	}
}

// isGone returns nil for ErrGone.
func isGone(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return fmt.Errorf("%w; want ErrGone", err)
}
