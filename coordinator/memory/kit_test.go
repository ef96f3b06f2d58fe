package memory_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
)

// kit is a service with two clients that have a session each, and an entry of the first one.
func kit(t *testing.T) (svc *memory.Service, links [2]*memory.Driver, sessions [2]session, joined driver.Joined) {
	t.Helper()
	svc = memory.NewService()
	for i := range links {
		links[i] = svc.Driver()
		s, err := links[i].Open(t.Context(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		sessions[i] = withCapabilities(s)
	}
	joined, err := sessions[0].Join(t.Context(), "m/jobs", driver.Contender{ID: "aaaaaaaaaaaaaaaa", Mode: "x"})
	if err != nil {
		t.Fatal(err)
	}
	return svc, links, sessions, joined
}

func TestOnceHarmsOneRequestOfItsKind(t *testing.T) {
	svc, _, sessions, _ := kit(t)
	svc.OnRequest(memory.Once(memory.OpRenew, memory.Fate{Err: driver.ErrRefused}))
	if _, err := sessions[0].List(t.Context(), "m/jobs", 0); err != nil {
		t.Errorf("another kind: %v", err)
	}
	for i, want := range []error{driver.ErrRefused, nil, nil} {
		if err := sessions[i%2].Renew(t.Context()); !errors.Is(err, want) {
			t.Errorf("renewal %d: %v, want %v", i, err, want)
		}
	}
}

func TestClientsSessionsAreExpired(t *testing.T) {
	svc, links, sessions, _ := kit(t)
	more, err := links[0].Open(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if !links[0].Expire() {
		t.Error("Expire = false")
	}
	for _, s := range []session{sessions[0], withCapabilities(more)} {
		if err := s.Renew(t.Context()); !errors.Is(err, driver.ErrSessionLost) {
			t.Errorf("Renew = %v", err)
		}
	}
	if err := sessions[1].Renew(t.Context()); err != nil || svc.Stats().Entries != 0 {
		t.Errorf("the other client: %v; %d entries", err, svc.Stats().Entries)
	}
	if links[0].Expire() {
		t.Error("Expire again = true")
	}
}

func TestGrantIsRemovedByItsToken(t *testing.T) {
	svc, _, sessions, joined := kit(t)
	gone := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() { gone <- sessions[1].Watch(ctx, "m/jobs", joined.Place) }()
	if svc.RemoveGrant(joined.Token+1) || svc.Stats().Entries != 1 {
		t.Error("one that is not there was removed")
	}
	if !svc.RemoveGrant(joined.Token) {
		t.Error("RemoveGrant = false")
	}
	if err := <-gone; err != nil || svc.Stats().Entries != 0 {
		t.Errorf("Watch = %v; %d entries", err, svc.Stats().Entries)
	}
	if err := sessions[0].Renew(t.Context()); err != nil {
		t.Errorf("the session went, too: %v", err)
	}
}

func TestStatsSinceAreOfTheTimeBetween(t *testing.T) {
	svc, _, sessions, _ := kit(t)
	before := svc.Stats()
	for range 3 {
		if err := sessions[0].Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := svc.Stats().Since(before)
	if want := map[memory.Op]int{memory.OpRenew: 3}; !maps.Equal(got.Requests, want) || got.Total() != 3 || got.Sessions != 2 || got.Entries != 1 {
		t.Errorf("%+v", got)
	}
	if again := before.Since(before); again.Total() != 0 || before.Total() != 3 {
		t.Errorf("%+v of %+v", again, before)
	}
}

func TestTallyKeepsWhatItIsTold(t *testing.T) {
	var tally memory.Tally
	for _, kind := range []event.Kind{event.Joined, event.Lost, event.Joined} {
		tally.Observe(event.Event{Kind: kind})
	}
	if n := tally.Count(event.Joined); n != 2 || tally.Count(event.Granted) != 0 || len(tally.Events()) != 3 {
		t.Errorf("%d joined of %v", n, tally.Events())
	}
}
