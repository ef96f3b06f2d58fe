package coordinatortest

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
)

// checked replaces Check; err is what the intact one said.
func checked(broken func(w *world, s *patched, queue driver.Queue, key string, token driver.Token, err error) error) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.check = func(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
			return broken(w, s, queue, key, token, s.session.Check(ctx, queue, key, token))
		}
	}
}

// entry returns the live entry of a key.
func (w *world) entry(queue driver.Queue, key string) (driver.Entry, bool) {
	for _, x := range w.svc.Snapshot(queue) {
		if x.Key == key {
			return x, true
		}
	}
	return driver.Entry{}, false
}

func checkFlaws() []flaw {
	var seen sync.Map // keys that a check has found once
	return []flaw{
		{
			name: "check remembers what it has found",
			finds: []string{
				"K1/a check knows at once of a leave", "K1/a check knows at once of a forget", "K1/a check knows at once of a close",
				"K1/a check knows at once of an ended session", "K1/a check knows at once of a deletion",
				"K1/a check knows at once of a removal", "K1/a check knows at once of a conversion",
			},
			session: checked(func(w *world, _ *patched, queue driver.Queue, key string, token driver.Token, err error) error {
				id := [4]any{w, queue, key, token}
				if _, found := seen.Load(id); found {
					return nil
				}
				if err == nil {
					seen.Store(id, true)
				}
				return err
			}),
		},
		{
			name: "check finds what is gone", finds: []string{"K2/Check of a place that is gone changes nothing"},
			session: checked(func(_ *world, _ *patched, _ driver.Queue, _ string, _ driver.Token, _ error) error { return nil }),
		},
		{
			name: "check goes by the key alone", finds: []string{"K2/Check of a foreign place changes nothing"},
			session: checked(func(w *world, _ *patched, queue driver.Queue, key string, _ driver.Token, err error) error {
				if _, there := w.entry(queue, key); there {
					return nil
				}
				return err
			}),
		},
		{
			name: "check goes by the token alone", finds: []string{"K2/Check spares the same id joined later"},
			session: checked(func(w *world, _ *patched, queue driver.Queue, _ string, token driver.Token, err error) error {
				for _, x := range w.svc.Snapshot(queue) {
					if x.Token == token {
						return nil
					}
				}
				return err
			}),
		},
		{
			name: "check looks in all queues", finds: []string{"K2/Check of a foreign place changes nothing"},
			session: checked(func(w *world, _ *patched, _ driver.Queue, key string, token driver.Token, err error) error {
				for _, queue := range w.svc.Queues() {
					if x, there := w.entry(queue, key); there && x.Token == token {
						return nil
					}
				}
				return err
			}),
		},
		{
			name: "check knows its own session only", finds: []string{"K1/a check knows at once of a leave"},
			session: checked(func(w *world, s *patched, queue driver.Queue, key string, _ driver.Token, err error) error {
				if x, there := w.entry(queue, key); there && x.Session != s.ID() {
					return driver.ErrGone
				}
				return err
			}),
		},
		{
			name: "check knows the first mode only", finds: []string{"K2/a check finds an entry that was converted"},
			session: checked(func(w *world, _ *patched, queue driver.Queue, key string, _ driver.Token, err error) error {
				if x, there := w.entry(queue, key); there && x.Mode != "x" {
					return driver.ErrGone
				}
				return err
			}),
		},
		{
			name: "check refuses odd keys", finds: []string{"K2/Check of a foreign place changes nothing"},
			session: checked(func(_ *world, _ *patched, _ driver.Queue, key string, _ driver.Token, err error) error {
				if errors.Is(err, driver.ErrGone) && strings.Contains(key, "/") {
					return driver.ErrInvalid
				}
				return err
			}),
		},
	}
}
