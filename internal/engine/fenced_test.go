package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/internal/engine"
)

const services = driver.Queue("baton/service")

// sequencer returns that of an entry in the queue of these tests.
func (w world) sequencer(s *engine.Session, j driver.Joined) fence.Sequencer {
	w.Helper()
	service, err := s.Service(w.Context())
	check(w, err)
	return fence.Sequencer{Scope: fence.Scope{Service: service, Kind: "test", Name: "queue"}, Token: j.Token, Key: j.Place.Key}
}

func TestServiceHasOneIdentityForAllClients(t *testing.T) {
	within(t, func(w world) {
		var mu sync.Mutex
		ids := map[string]int{}
		w.svc.OnRequest(func(memory.Request) memory.Fate { return memory.Fate{DelayRequest: time.Millisecond} }) // so that all write at once
		var wg sync.WaitGroup
		for range 8 {
			c, _ := w.another()
			wg.Go(func() {
				defer c.Close(w.Context())
				s, err := engine.Of(c).Session(w.Context())
				if err != nil {
					w.Error(err)
					return
				}
				id, err := s.Service(w.Context())
				if err != nil {
					w.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[id]++
			})
		}
		wg.Wait()
		if len(ids) != 1 || ids[string(w.svc.Record(services).Value)] != 8 {
			w.Errorf("identities %v, stored %q", ids, w.svc.Record(services).Value)
		}
		for id := range ids {
			if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
				w.Errorf("identity %q", id)
			}
		}
	})
	a, b := "", ""
	for _, id := range []*string{&a, &b} {
		within(t, func(w world) { *id = w.sequencer(w.session(), driver.Joined{}).Service })
	}
	if a == b {
		t.Errorf("two services are both %q", a)
	}
}

func TestIdentityIsReadOnceInASession(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		first, err := s.Service(w.Context())
		for range 3 {
			if id, again := s.Service(w.Context()); id != first || errors.Join(err, again) != nil {
				w.Error(id, first, err, again)
			}
		}
		if st := w.link.Stats().Requests; st[memory.OpRecord] != 2 || st[memory.OpSetRecord] != 1 { // looked, wrote, looked
			w.Errorf("%v", st)
		}
		w.svc.Expire(s.ID())
		time.Sleep(time.Second)
		if id, err := w.session().Service(w.Context()); id != first || err != nil {
			w.Error(id, err)
		}
		if st := w.link.Stats().Requests; st[memory.OpRecord] != 3 || st[memory.OpSetRecord] != 1 {
			w.Errorf("in another session: %v", st)
		}
	})
}

// TestIdentitySurvivesFaults: whichever request fails, in the end one identity
// is stored, and it is the one returned.
func TestIdentitySurvivesFaults(t *testing.T) {
	for _, fate := range []memory.Fate{{DropRequest: true}, {DropReply: true}, {DelayReply: 20 * time.Second}} {
		for at := range 4 {
			within(t, func(w world) {
				n := 0
				w.svc.OnRequest(func(r memory.Request) memory.Fate {
					if r.Op != memory.OpRecord && r.Op != memory.OpSetRecord {
						return memory.Fate{}
					}
					if n++; n-1 == at {
						return fate
					}
					return memory.Fate{}
				})
				id, err := w.session().Service(w.Context())
				if err != nil || id != string(w.svc.Record(services).Value) {
					w.Errorf("%+v at %d: %q, %v; stored %q", fate, at, id, err, w.svc.Record(services).Value)
				}
			})
		}
	}
}

func TestIdentityOfAnUnavailableServiceIsAnError(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		w.svc.OnRequest(func(r memory.Request) memory.Fate {
			return memory.Fate{DropReply: r.Op == memory.OpSetRecord, DropRequest: r.Op == memory.OpRecord}
		})
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if id, err := s.Service(ctx); id != "" || !errors.Is(err, engine.ErrUnavailable) {
			w.Errorf("%q, %v", id, err)
		}
		w.svc.OnRequest(memory.Once(memory.OpSetRecord, memory.Fate{Err: driver.ErrRefused}))
		if id, err := s.Service(w.Context()); id != "" || !errors.Is(err, engine.ErrRefused) {
			w.Errorf("%q, %v", id, err)
		}
		w.svc.Expire(s.ID())
		if id, err := s.Service(w.Context()); id != "" || !errors.Is(err, engine.ErrSessionLost) {
			w.Errorf("%q, %v", id, err)
		}
	})
}

func TestCheckReportsWhetherTheGrantHolds(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		j := w.join(s)
		seq := w.sequencer(s, j)
		other, link := w.another()
		defer other.Close(w.Context())
		wants := func(want error, what string) {
			w.Helper()
			if err := other.Check(w.Context(), seq); !errors.Is(err, want) {
				w.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		wants(nil, "holds")
		before := link.Stats().Total()
		wants(nil, "holds still")
		if n := link.Stats().Total() - before; n != 1 || link.Stats().Requests[memory.OpCheck] != 2 {
			w.Errorf("%d requests for a check: %v", n, link.Stats().Requests)
		}
		j.Place, _ = s.Convert(w.Context(), queue, j, "y", nil)
		wants(fence.ErrStale, "converted")
		seq = w.sequencer(s, j)
		wants(nil, "the converted one")
		seq.Token++
		wants(fence.ErrStale, "another token")
		seq.Token--
		check(w, s.Leave(w.Context(), queue, j.Place))
		wants(fence.ErrStale, "left")
		err := other.Check(w.Context(), seq)
		if stale, ok := errors.AsType[*fence.StaleError](err); !ok || stale.Shown != seq || stale.Latest != 0 {
			w.Errorf("left: %v", err)
		}
		j = w.join(s)
		seq = w.sequencer(s, j)
		wants(nil, "joined again")
		w.svc.Expire(s.ID())
		wants(fence.ErrStale, "session over")
	})
}

func TestCheckRefusesASequencerOfAnotherService(t *testing.T) {
	var elsewhere fence.Sequencer
	within(t, func(w world) {
		s := w.session()
		elsewhere = w.sequencer(s, w.join(s))
	})
	within(t, func(w world) {
		asked := func(seq fence.Sequencer) error { return w.client.Check(w.Context(), seq) }
		if err := asked(elsewhere); !errors.Is(err, fence.ErrForeign) || len(w.svc.Record(services).Value) != 0 {
			w.Errorf("a service without identity: %v, and one was made: %q", err, w.svc.Record(services).Value)
		}
		s := w.session()
		own := w.sequencer(s, w.join(s))
		if own.Key != elsewhere.Key || own.Token != elsewhere.Token {
			w.Fatalf("%v and %v differ in more than the service", own, elsewhere)
		}
		check(w, errors.Join(asked(own), w.client.Check(w.Context(), own)))
		err := asked(elsewhere)
		if foreign, ok := errors.AsType[*fence.ForeignError](err); !ok || foreign.Want.Service != own.Service || foreign.Shown != elsewhere {
			w.Errorf("%v", err)
		}
		own.Name = "other"
		if err := asked(own); !errors.Is(err, fence.ErrStale) {
			w.Errorf("another name: %v", err)
		}
		for _, bad := range []fence.Sequencer{{}, {Scope: own.Scope}, {Scope: fence.Scope{Service: "s", Kind: "test", Name: ".."}, Token: 1, Key: "k"},
			{Scope: fence.Scope{Service: "s", Kind: "baton", Name: "service"}, Token: 1, Key: "k"}} {
			before := w.link.Stats().Total()
			if err := asked(bad); !errors.Is(err, engine.ErrInvalid) || w.link.Stats().Total() != before {
				w.Errorf("%+v: %v", bad, err)
			}
		}
	})
}

// TestCheckOutlivesTheSessionThatSendsIt, which does not matter to the grant.
func TestCheckOutlivesTheSessionThatSendsIt(t *testing.T) {
	within(t, func(w world) {
		s := w.session()
		seq := w.sequencer(s, w.join(s))
		other, link := w.another()
		defer other.Close(w.Context())
		check(w, other.Check(w.Context(), seq))
		for _, id := range w.svc.Sessions() {
			if id != s.ID() {
				link.HoldReplies() // so that it does not notice the end before the check
				w.svc.Expire(id)
			}
		}
		go func() {
			time.Sleep(10 * time.Millisecond)
			link.Heal()
		}()
		if err := other.Check(w.Context(), seq); err != nil {
			w.Errorf("with the next session: %v", err)
		}
		link.Cut()
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		if err := other.Check(ctx, seq); !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fence.ErrStale) {
			w.Errorf("cut off: %v", err)
		}
		link.Heal()
		synctest.Wait()
	})
	within(t, func(w world) {
		s := w.session()
		seq := w.sequencer(s, w.join(s))
		other, _ := w.another()
		check(w, other.Close(w.Context()))
		if err := other.Check(w.Context(), seq); !errors.Is(err, engine.ErrClosed) {
			w.Errorf("closed: %v", err)
		}
	})
}
