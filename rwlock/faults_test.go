package rwlock_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/rwlock"
)

// fault is something that happens when one request is sent, and the errors that may come of it.
type fault struct {
	name string
	strike
	errs []error
}

type strike func(p party) memory.Fate

func fate(f memory.Fate) strike { return func(party) memory.Fate { return f } }

// outage stops the service for a time.
func outage(d time.Duration) strike {
	return func(p party) memory.Fate {
		p.svc.Stop()
		time.AfterFunc(d, p.svc.Start)
		return memory.Fate{}
	}
}

var faults = []fault{
	{"the request is lost", fate(memory.Fate{DropRequest: true}), nil},
	{"the reply is lost", fate(memory.Fate{DropReply: true}), nil},
	{"the request is slow", fate(memory.Fate{DelayRequest: time.Second}), nil},
	{"the reply is slow", fate(memory.Fate{DelayReply: time.Second}), nil},
	{"the request arrives after another was sent", fate(memory.Fate{DelayRequest: 6 * time.Second}), nil},
	{"the reply arrives after another request was sent", fate(memory.Fate{DelayReply: 6 * time.Second}), nil},
	{"slow, and the reply is lost", fate(memory.Fate{DelayRequest: time.Second, DropReply: true}), nil},
	{"a short outage", outage(2 * time.Second), nil},
	{"cut off for long", func(p party) memory.Fate {
		p.link.Cut()
		time.AfterFunc(time.Minute, func() { p.link.Reset(); p.link.Heal() })
		return memory.Fate{}
	}, []error{coordinator.ErrSessionLost, coordinator.ErrUnavailable}},
	{"a refusal", fate(memory.Fate{Err: errors.New("no permission")}), []error{coordinator.ErrRefused}},
	{"the connection breaks", func(p party) memory.Fate { p.link.Reset(); return memory.Fate{} }, nil},
	{"the session expires", func(p party) memory.Fate { p.svc.Expire(p.session().ID()); return memory.Fate{} },
		[]error{coordinator.ErrSessionLost}},
	{"the entry is removed", func(p party) memory.Fate { p.svc.Remove(queue, p.own()); return memory.Fate{} },
		[]error{coordinator.ErrRemoved, coordinator.ErrNotHeld}}, // not held: removed as it was given back
}

// own is the key of the party's entry.
func (p party) own() string {
	for _, e := range p.svc.Snapshot(queue) {
		if e.Session == p.session().ID() {
			return e.Key
		}
	}
	return ""
}

// TestFaultAtEachRequestOfADowngrade lets each fault strike at each request that a writer sends who goes on as a reader,
// with a reader and a writer behind: nobody holds what another excludes, all are served, and nothing is left.
func TestFaultAtEachRequestOfADowngrade(t *testing.T) {
	for _, f := range faults {
		for _, age := range []time.Duration{0, time.Second} { // younger, and older, than a hold that watches its entry
			for _, dead := range []bool{false, true} { // the contexts of the unlocks
				for n := 0; ; n++ {
					struck := false
					parties(t, func(a, b, c party) {
						defer func() {
							if a.Failed() {
								a.Logf("%s, at request %d, age %v, unlocked with a dead context: %v", f.name, n, age, dead)
							}
						}()
						var sent atomic.Int64
						a.svc.OnRequest(func(r memory.Request) memory.Fate {
							if r.Driver != a.link || r.Op == memory.OpRenew || sent.Add(1) != int64(n)+1 {
								return memory.Fate{}
							}
							return f.strike(a)
						})
						errs := downgrade(a, b, c, age, dead)
						a.svc.OnRequest(nil)
						struck = sent.Load() > int64(n)
						allowed := f.errs
						if dead {
							allowed = append(slices.Clone(allowed), coordinator.ErrUnavailable)
						}
						for _, err := range errs {
							if !slices.ContainsFunc(allowed, func(e error) bool { return errors.Is(err, e) }) {
								t.Errorf("%v", err)
							}
						}
					})
					if !struck {
						break
					}
				}
			}
		}
	}
}

// downgrade is the scenario. It returns the errors of the first party.
func downgrade(a, b, c party, age time.Duration, dead bool) (errs []error) {
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w, err := a.l.Lock(ctx)
	var r *rwlock.Lock
	if note(err); err == nil {
		if r, err = a.l.RLock(w.Context()); err != nil {
			note(err)
			note(w.Unlock(ctx))
		}
	}
	over := func(l *rwlock.Lock) bool { return l == nil || l.Err() != nil }
	reader := b.begin(func(ctx context.Context) (*rwlock.Lock, error) {
		l, err := b.l.RLock(ctx)
		if !over(w) {
			time.Sleep(time.Nanosecond) // where an operator ends the session, both are told in the same moment
		}
		if !over(w) {
			a.Error("a reader was admitted beside a writer")
		}
		return l, err
	})
	writer := c.begin(func(ctx context.Context) (*rwlock.Lock, error) {
		l, err := c.l.Lock(ctx)
		if !over(r) || !reader.granted() || reader.lock.Err() == nil {
			a.Error("a writer was admitted beside a reader")
		}
		return l, err
	})
	time.Sleep(age)
	if r != nil {
		unlock := ctx
		if dead {
			cancel()
		}
		note(w.Unlock(unlock))
		if !over(r) && !dead && len(errs) == 0 {
			time.Sleep(4 * time.Second) // an outage may begin now; waits that broke are tried again within a second
			admitted(a.T, "a", reader, writer)
		}
		note(r.Unlock(unlock))
	}
	began := time.Now()
	reader.unlock()
	writer.unlock()
	if took := time.Since(began); took > 70*time.Second {
		a.Errorf("those behind were served %v later", took)
	}
	time.Sleep(time.Minute) // for what arrives late
	synctest.Wait()
	return errs
}

// TestClosedClientGivesBackADowngradeUnderWay: no goroutine outlives the client, and nobody waits for its TTL.
func TestClosedClientGivesBackADowngradeUnderWay(t *testing.T) {
	parties(t, func(a, b, _ party) {
		w := a.lock()
		r := a.take(a.l.RLock, w.Context())
		next := b.begin(b.l.Lock)
		a.svc.OnRequest(func(r memory.Request) memory.Fate {
			return memory.Fate{DropReply: r.Op == memory.OpConvert}
		})
		got := make(chan error, 1)
		go func() { got <- w.Unlock(context.Background()) }()
		time.Sleep(time.Second)
		if err := a.client.Close(context.Background()); err != nil {
			t.Error(err)
		}
		wantErr(t, <-got, coordinator.ErrClosed)
		wantErr(t, r.Unlock(context.Background()), coordinator.ErrClosed)
		admitted(t, "a", next)
		next.unlock()
	})
}
