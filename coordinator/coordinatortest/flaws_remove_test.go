package coordinatortest

import (
	"context"
	"errors"

	"github.com/baton-go/baton/coordinator/driver"
)

// removing replaces Remove; remove is the intact one, and x the live entry of the key, if there is one.
func removing(broken func(w *world, s *patched, c removal) error) func(*world, *patched) {
	return func(w *world, s *patched) {
		s.remove = func(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
			x, there := w.entry(queue, key)
			return broken(w, s, removal{ctx, queue, key, token, x, there})
		}
	}
}

type removal struct {
	ctx   context.Context
	queue driver.Queue
	key   string
	token driver.Token
	entry driver.Entry
	there bool
}

// intact is what the driver does.
func (c removal) intact(s *patched) error { return s.session.Remove(c.ctx, c.queue, c.key, c.token) }

// byHand removes without a look.
func (c removal) byHand(w *world, queue driver.Queue, key string) error {
	if !w.svc.Remove(queue, key) {
		return driver.ErrGone
	}
	return nil
}

func removeFlaws() []flaw {
	return []flaw{
		{
			name:    "remove takes whoever is behind with it",
			finds:   []string{"X1/Remove removes the entry"},
			session: removing(removeBehind),
		},
		{
			name: "remove knows the first mode only", finds: []string{"W1/a removal of a converted and written entry is told"},
			session: removing(func(_ *world, s *patched, c removal) error {
				if c.there && c.entry.Mode != "x" {
					return driver.ErrGone
				}
				return c.intact(s)
			}),
		},
		{
			name:    "remove only says so",
			finds:   []string{"X1/Remove removes the entry", "W1/Watch: a removal is told", "X1/the contender of a removed entry is told"},
			session: removing(func(*world, *patched, removal) error { return nil }),
		},
		{
			name: "remove passes", finds: []string{"W1/Follow: a removal is told"},
			session: func(w *world, s *patched) {
				w.open.Store(s.ID(), s.session)
				removing(removeAsPass)(w, s)
			},
		},
		{
			name: "remove ends the session", finds: []string{"X1/the contender of a removed entry is told"},
			session: removing(func(w *world, s *patched, c removal) error {
				err := c.intact(s)
				if err == nil {
					w.svc.Expire(c.entry.Session)
				}
				return err
			}),
		},
		{
			name: "remove leaves something in the queue", finds: []string{"X1/a queue goes on behind a removed entry"},
			session: removing(func(w *world, s *patched, c removal) error {
				err := c.intact(s)
				if err == nil {
					w.svc.AddForeign(c.queue)
				}
				return err
			}),
		},
		{
			name: "remove of nothing takes the last", finds: []string{"X2/Remove of a place that is gone changes nothing"},
			session: removing(func(w *world, s *patched, c removal) error {
				err := c.intact(s)
				if all := w.svc.Snapshot(c.queue); errors.Is(err, driver.ErrGone) && len(all) > 0 {
					w.svc.Remove(c.queue, all[len(all)-1].Key)
				}
				return err
			}),
		},
		{
			name: "remove goes by the key alone", finds: []string{"X2/Remove of a foreign place changes nothing"},
			session: removing(func(w *world, _ *patched, c removal) error { return c.byHand(w, c.queue, c.key) }),
		},
		{
			name: "remove looks in all queues", finds: []string{"X2/Remove of a foreign place changes nothing"},
			session: removing(func(w *world, _ *patched, c removal) error {
				for _, queue := range w.svc.Queues() {
					if x, there := w.entry(queue, c.key); there && x.Token == c.token {
						return c.byHand(w, queue, c.key)
					}
				}
				return driver.ErrGone
			}),
		},
		{
			name: "remove goes by the token alone", finds: []string{"X2/Remove spares the same id joined later", "X2/Remove of a foreign place changes nothing"},
			session: removing(func(w *world, _ *patched, c removal) error {
				for _, x := range w.svc.Snapshot(c.queue) {
					if x.Token == c.token {
						return c.byHand(w, c.queue, x.Key)
					}
				}
				return driver.ErrGone
			}),
		},
		{
			name: "remove asked again takes the next", finds: []string{"X3/Remove may be repeated after a lost reply"},
			session: removing(func(w *world, s *patched, c removal) error {
				err := c.intact(s)
				if all := w.svc.Snapshot(c.queue); errors.Is(err, driver.ErrGone) && len(all) > 0 {
					return c.byHand(w, c.queue, all[0].Key)
				}
				return err
			}),
		},
	}
}

func removeBehind(w *world, s *patched, c removal) error {
	err := c.intact(s)
	for _, x := range w.svc.Snapshot(c.queue) {
		if err == nil && x.Token > c.token {
			w.svc.Remove(c.queue, x.Key)
		}
	}
	return err
}

// removeAsPass has the entry's own session pass.
func removeAsPass(w *world, s *patched, c removal) error {
	owner, known := w.open.Load(c.entry.Session)
	if !c.there || !known {
		return c.intact(s)
	}
	return owner.(session).Pass(c.ctx, c.queue, c.entry.Place)
}
