package coordinatortest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
)

// act is one entryCall. own has only key and token for a Remove or Check, and
// no token for a Leave, Pass or Write.
type act struct {
	ctx   context.Context
	queue driver.Queue
	own   driver.Joined
	do    func(ctx context.Context, s session, queue driver.Queue, own driver.Joined) error
}

// intact makes the call on the intact session.
func (a act) intact(s *patched) error { return a.do(a.ctx, s.session, a.queue, a.own) }

// to makes the call for an entry, on its owner's session.
func (a act) to(w *world, x driver.Entry) error {
	owner, known := w.open.Load(x.Session)
	if !known {
		return driver.ErrGone
	}
	return a.do(a.ctx, owner.(session), a.queue, driver.Joined{Place: x.Place, Token: x.Token})
}

// toAny makes the call for the first live entry that f accepts.
func (a act) toAny(w *world, f func(driver.Entry) bool) error {
	if x, there := w.find(a.queue, f); there {
		return a.to(w, x)
	}
	return driver.ErrGone
}

// broken replaces an entryCall.
func (x entryCall) broken(wrong func(w *world, s *patched, a act) error) func(*world, *patched) {
	return func(w *world, s *patched) {
		w.open.Store(s.ID(), s.session)
		exit := func(ctx context.Context, queue driver.Queue, own driver.Place) error {
			return wrong(w, s, act{ctx, queue, driver.Joined{Place: own}, x.call})
		}
		byKey := func(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
			return wrong(w, s, act{ctx, queue, driver.Joined{Place: driver.Place{Key: key}, Token: token}, x.call})
		}
		switch x.name {
		case "Leave":
			s.leave = exit
		case "Pass":
			s.pass = exit
		case "Remove":
			s.remove = byKey
		case "Check":
			s.check = byKey
		case "Write":
			s.write = func(ctx context.Context, queue driver.Queue, own driver.Place, value []byte) error {
				return wrong(w, s, act{ctx, queue, driver.Joined{Place: own},
					func(ctx context.Context, s session, queue driver.Queue, own driver.Joined) error {
						return s.Write(ctx, queue, own.Place, value)
					}})
			}
		case "Convert":
			s.convert = func(
				ctx context.Context, queue driver.Queue, own driver.Joined, mode string, value []byte,
			) (place driver.Place, err error) {
				err = wrong(w, s, act{ctx, queue, own,
					func(ctx context.Context, s session, queue driver.Queue, own driver.Joined) (err error) {
						place, err = s.Convert(ctx, queue, own, mode, value)
						return err
					}})
				return place, err
			}
		}
	}
}

// doing has the cases that fail if an entryCall does nothing.
var doing = map[string][]string{
	"Leave":  {"L1/Leave removes the entry", "W1/a leave of a converted and written entry ends the wait"},
	"Pass":   {"L1/Pass removes the entry"},
	"Remove": {"X1/Remove removes the entry", "X1/a removed contender gets ErrGone", "W1/Watch: a removal ends the wait"},
	"Write":  {"P1/a write is shown by list and head"},
}

// entryCallFlaws are the flaws that all entryCalls can have.
func entryCallFlaws() (all []flaw) {
	for _, x := range entryCalls {
		add := func(name, finds string, wrong func(w *world, s *patched, a act) error) {
			all = append(all, flaw{name: x.name + " " + name, finds: []string{finds}, session: x.broken(wrong)})
		}
		// missing calls instead if there is no entry.
		missing := func(instead func(w *world, s *patched, a act) error) func(*world, *patched, act) error {
			return func(w *world, s *patched, a act) error {
				if err := a.intact(s); !errors.Is(err, driver.ErrGone) {
					return err
				}
				return instead(w, s, a)
			}
		}
		gone := x.gone + "/" + x.name + " of a place that is gone changes nothing"
		foreign := x.gone + "/" + x.name + " of a foreign place changes nothing"
		succeed := func(*world, *patched, act) error { return nil }
		first := func(w *world, _ *patched, a act) error {
			return a.toAny(w, func(driver.Entry) bool { return true })
		}

		add("of no entry succeeds", gone, missing(succeed))
		add("of no entry makes one", gone, missing(func(w *world, _ *patched, a act) error {
			w.svc.AddForeign(a.queue)
			return driver.ErrGone
		}))
		add("compares only the key", foreign, func(w *world, _ *patched, a act) error {
			return a.toAny(w, func(x driver.Entry) bool { return x.Key == a.own.Place.Key })
		})
		add("compares ID or token", x.gone+"/"+x.name+" keeps a later entry of the same id",
			func(w *world, _ *patched, a act) error {
				return a.toAny(w, func(x driver.Entry) bool {
					return x.ID == a.own.Place.ID || x.Token == a.own.Token
				})
			})
		if x.anyone {
			add("searches all queues", foreign, missing(func(w *world, s *patched, a act) error {
				for _, a.queue = range w.svc.Queues() {
					if err := a.intact(s); err == nil {
						return nil
					}
				}
				return driver.ErrGone
			}))
		}
		for _, name := range doing[x.name] {
			add("does nothing", name, succeed)
		}
		if x.removed != "" {
			add("of no entry removes the first in the queue", gone, missing(func(w *world, s *patched, a act) error {
				_ = first(w, s, a)
				return driver.ErrGone
			}))
			add("repeated removes the next entry", x.again+"/"+x.name+" may be repeated after a lost reply", missing(first))
		}
	}
	return append(all, singleCallFlaws()...)
}

// firstModeOnly finds no converted entry.
func firstModeOnly(w *world, s *patched, a act) error {
	if x, there := w.entry(a.queue, a.own.Place.Key); there && x.Mode != "x" {
		return driver.ErrGone
	}
	return a.intact(s)
}

// singleCallFlaws are the flaws of one entryCall.
func singleCallFlaws() []flaw {
	var seen sync.Map // keys that a check has found
	return []flaw{
		{
			name: "remove finds no converted entry", finds: []string{"W1/a removal of a converted and written entry ends the wait"},
			session: removes.broken(firstModeOnly),
		},
		{
			name: "remove removes the entries behind, too", finds: []string{"X1/Remove removes the entry"},
			session: removed(func(w *world, a act, _ driver.Entry) {
				for _, x := range w.svc.Snapshot(a.queue) {
					if x.Token > a.own.Token {
						_ = remove(w, a.queue, x.Key)
					}
				}
			}),
		},
		{
			name: "remove ends the session", finds: []string{"X1/a removed contender gets ErrGone"},
			session: removed(func(w *world, _ act, x driver.Entry) { w.svc.Expire(x.Session) }),
		},
		{
			name: "remove leaves something in the queue", finds: []string{"X1/a queue works after a removal"},
			session: removed(func(w *world, a act, _ driver.Entry) { w.svc.AddForeign(a.queue) }),
		},
		{
			name: "remove passes", finds: []string{"W1/Follow: a removal ends the wait"},
			session: removes.broken(func(w *world, s *patched, a act) error {
				a.do = passes.call
				return a.toAny(w, func(x driver.Entry) bool { return x.Key == a.own.Place.Key })
			}),
		},
		{
			name: "check finds no converted entry", finds: []string{"K2/a check finds an entry that was converted"},
			session: checks.broken(firstModeOnly),
		},
		{
			name: "check finds only its session's entries", finds: []string{"K1/a check fails right after a leave"},
			session: checks.broken(func(w *world, s *patched, a act) error {
				if x, there := w.entry(a.queue, a.own.Place.Key); there && x.Session != s.ID() {
					return driver.ErrGone
				}
				return a.intact(s)
			}),
		},
		{
			name: "check caches",
			finds: []string{
				"K1/a check fails right after a leave", "K1/a check fails right after a forget", "K1/a check fails right after a close",
				"K1/a check fails right after an ended session", "K1/a check fails right after a deletion",
				"K1/a check fails right after a removal", "K1/a check fails right after a conversion",
			},
			session: checks.broken(func(w *world, s *patched, a act) error {
				id := [4]any{w, a.queue, a.own.Place.Key, a.own.Token}
				err := a.intact(s)
				if err == nil {
					seen.Store(id, true)
				}
				if _, found := seen.Load(id); found {
					return nil
				}
				return err
			}),
		},
		{
			name: "check returns ErrInvalid for malformed keys", finds: []string{"K2/Check of a foreign place changes nothing"},
			session: checks.broken(func(_ *world, s *patched, a act) error {
				if err := a.intact(s); !errors.Is(err, driver.ErrGone) || !strings.Contains(a.own.Place.Key, "/") {
					return err
				}
				return driver.ErrInvalid
			}),
		},
		madeLater("M4", converts, interferences),
		madeLater("P1", writes, append(slices.Clone(interferences), laterWrite)),
	}
}

// removed calls then after a Remove.
func removed(then func(w *world, a act, x driver.Entry)) func(*world, *patched) {
	return removes.broken(func(w *world, s *patched, a act) error {
		x, _ := w.entry(a.queue, a.own.Place.Key)
		err := a.intact(s)
		if err == nil {
			then(w, a, x)
		}
		return err
	})
}

// madeLater repeats a failed entryCall later, for the entry of the ID.
func madeLater(clause string, x entryCall, interferences []interference) flaw {
	f := flaw{name: x.name + " that failed is repeated later"}
	for _, t := range interferences {
		f.finds = append(f.finds, clause+"/a late "+x.name+" makes nothing after "+t.what)
	}
	f.session = x.broken(func(w *world, s *patched, a act) error {
		err := a.intact(s)
		later(err, func(ctx context.Context) {
			a.ctx = ctx
			if x, there := w.queued(a.queue, a.own.Place.ID); there {
				_ = a.to(w, x)
			} else {
				_, _ = s.session.Join(ctx, a.queue, driver.Contender{ID: a.own.Place.ID, Mode: "x"})
			}
		})
		return err
	})
	return f
}
