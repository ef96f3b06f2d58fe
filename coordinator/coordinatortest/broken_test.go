package coordinatortest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
)

// flaw is one error of a driver, and the cases that must find it.
type flaw struct {
	name  string
	finds []string
	// Either session breaks a session, or driver breaks the driver.
	session func(w *world, s *patched)
	driver  func(w *world, d *patchedDriver)
	opts    []memory.Option
}

func (f flaw) harness() Harness {
	return memoryHarness(func(w *world, d driver.Driver) driver.Driver {
		p := &patchedDriver{Driver: d}
		if f.session != nil {
			p.patch = func(s *patched) { f.session(w, s) }
		}
		if f.driver != nil {
			f.driver(w, p)
		}
		return p
	}, f.opts...).withDefaults()
}

// TestBrokenDriversFailNamedCases: a case that no broken driver fails may check
// nothing.
func TestBrokenDriversFailNamedCases(t *testing.T) {
	named, found := map[string]testCase{}, map[string]bool{}
	for _, c := range cases {
		named[c.name] = c
	}
	for _, f := range flaws() {
		for _, name := range f.finds {
			found[name] = true
			t.Run(f.name+"/"+name, func(t *testing.T) {
				c, there := named[name]
				if !there {
					t.Fatalf("there is no case %q", name)
				}
				synctest.Test(t, func(t *testing.T) {
					err := c.run(t, f.harness())
					if _, found := errors.AsType[*failure](err); !found {
						t.Errorf("the case returned %v, want a failure", err)
					}
				})
			})
		}
	}
	for name := range named {
		if !found[name] {
			t.Errorf("no broken driver fails %q", name)
		}
	}
}

func flaws() []flaw {
	return slices.Concat(
		joinFlaws(), staleFlaws(), viewFlaws(), listFlaws(), lastFlaws(), waitFlaws(), wakeFlaws(),
		entryCallFlaws(), forgetFlaws(), convertFlaws(), writeFlaws(), headFlaws(), recordFlaws(), setRecordFlaws(),
		queuesFlaws(), followFlaws(), queueFlaws(), sessionFlaws(), openFlaws(), callFlaws(),
	)
}

// find returns a live entry, read from the service itself.
func (w *world) find(queue driver.Queue, is func(driver.Entry) bool) (driver.Entry, bool) {
	all := w.svc.Snapshot(queue)
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	return driver.Entry{}, false
}

// queued returns the live entry of an ID.
func (w *world) queued(queue driver.Queue, id string) (driver.Entry, bool) {
	return w.find(queue, func(x driver.Entry) bool { return x.ID == id })
}

// entry returns the live entry of a key.
func (w *world) entry(queue driver.Queue, key string) (driver.Entry, bool) {
	return w.find(queue, func(x driver.Entry) bool { return x.Key == key })
}

func remove(w *world, queue driver.Queue, keyOrID string) error {
	if !w.svc.Remove(queue, keyOrID) {
		return driver.ErrGone
	}
	return nil
}

// removeAll removes all entries of a session.
func (w *world) removeAll(queue driver.Queue, session string) {
	for _, x := range w.svc.Snapshot(queue) {
		if x.Session == session {
			_ = remove(w, queue, x.Key)
		}
	}
}

func (w *world) places(queue driver.Queue) []driver.Place {
	return each(w.svc.Snapshot(queue), func(x driver.Entry) driver.Place { return x.Place })
}

// print formats the entries of a queue.
func (w *world) print(queue driver.Queue) string { return fmt.Sprint(w.svc.Snapshot(queue)) }

// observer returns a session that is not under test, on a link without faults.
func (w *world) observer() driver.Session {
	w.once.Do(func() {
		w.spare, _ = w.svc.Driver().Open(context.Background(), time.Hour) // the maximum of the harness
	})
	return w.spare
}

// later repeats a failed call in the background, as late requests do.
func later(err error, repeat func(ctx context.Context)) {
	if errors.Is(err, driver.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		go func() {
			time.Sleep(100 * time.Millisecond) // after the case's next step, and within its Settle
			repeat(context.Background())
		}()
	}
}

// until blocks until ctx ends.
func until(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
