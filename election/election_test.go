package election_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/recipes"
)

func TestLeaderCannotCampaignAgainstItself(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		term := a.campaign()
		before := a.svc.Stats().Total()
		for _, ctx := range []context.Context{term.Context(), context.WithoutCancel(term.Context())} {
			if _, err := a.e.Campaign(ctx, nil); !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(err.Error(), "Proclaim") {
				a.Errorf("Campaign with the term's context = %v", err)
			}
			if _, err := a.e.TryCampaign(ctx, nil); !errors.Is(err, coordinator.ErrInvalid) {
				a.Errorf("TryCampaign with the term's context = %v", err)
			}
		}
		if n := a.svc.Stats().Total() - before; n != 0 {
			a.Errorf("%d requests", n)
		}
		if _, err := b.e.TryCampaign(term.Context(), nil); !errors.Is(err, coordinator.ErrTaken) {
			a.Errorf("another client with the term's context: %v", err)
		}
		other, err := election.New(a.client, "other")
		if err != nil {
			a.Fatal(err)
		}
		second, err := other.Campaign(term.Context(), nil)
		if err != nil {
			a.Fatal(err)
		}
		if _, err := a.e.Campaign(second.Context(), nil); !errors.Is(err, coordinator.ErrInvalid) {
			a.Errorf("with the context of a term within: %v", err)
		}
		a.resign(second)
		a.resign(term)
		// The values of a term's context outlive the term; the refusal does not.
		again, err := a.e.Campaign(context.WithoutCancel(term.Context()), nil)
		if err != nil {
			a.Fatal(err)
		}
		a.resign(again)
	})
}

func TestLeaderShowsWhoLeads(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		a, b := p[0], p[1]
		if l, err := b.e.Leader(b.Context()); !errors.Is(err, election.ErrNoLeader) || !l.IsZero() {
			a.Errorf("nobody: %+v, %v", l, err)
		}
		began := time.Now()
		term := a.campaign()
		time.Sleep(time.Minute)
		c := b.stand(b.Context())
		l, err := b.e.Leader(b.Context())
		if err != nil || l.Identity != "a" || string(l.Value) != "a" || l.Token != term.Token() || l.IsZero() ||
			l.Session != term.Session() || !l.Since.Equal(began) {
			a.Errorf("%+v, %v", l, err)
		}
		a.resign(term)
		next := c.won(t)
		if l, err := a.e.Leader(a.Context()); err != nil || l.Identity != "b" || l.Token != next.Token() {
			a.Errorf("after the hand-over: %+v, %v", l, err)
		}
		b.resign(next)
		b.svc.AddForeign(queue)
		if l, err := a.e.Leader(a.Context()); err != nil || l.Identity != "" || l.IsZero() {
			a.Errorf("a foreign entry: %+v, %v", l, err)
		}
	})
}

func TestCandidatesAreListedLeaderFirst(t *testing.T) {
	parties(t, 3, func(t *testing.T, p ...party) {
		if list, err := p[0].e.Candidates(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("nobody: %v, %v", list, err)
		}
		term := p[1].campaign()
		var waiting []*candidate
		for _, q := range []party{p[2], p[0]} {
			waiting = append(waiting, q.stand(q.Context()))
		}
		list, err := p[0].e.Candidates(t.Context())
		if err != nil || len(list) != 3 {
			t.Fatalf("%v, %v", list, err)
		}
		for i, want := range []string{"b", "c", "a"} {
			if c := list[i]; c.Identity != want || string(c.Payload) != want || c.Holding != (i == 0) {
				t.Errorf("number %d is listed as %+v", i, c)
			}
		}
		p[1].resign(term)
		for i, c := range waiting {
			next := c.won(t)
			if next.Token() != list[i+1].Token {
				t.Errorf("token %d, was listed with %d", next.Token(), list[i+1].Token)
			}
			if err := next.Resign(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestBadInputIsRefusedAtConstruction(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		for rule, build := range map[string]func() (*election.Election, error){
			"nil client":    func() (*election.Election, error) { return election.New(nil, "jobs") },
			"name is empty": func() (*election.Election, error) { return election.New(a.client, "") },
			"\"a//b\"":      func() (*election.Election, error) { return election.New(a.client, "a//b") },
			"nil option":    func() (*election.Election, error) { return election.New(a.client, "jobs", nil) },
			"256 bytes; 1 to ": func() (*election.Election, error) {
				return election.New(a.client, "jobs", election.WithIdentity(strings.Repeat("x", 256)))
			},
		} {
			if _, err := build(); !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(err.Error(), rule) ||
				!strings.HasPrefix(err.Error(), "baton: new ") || strings.Count(err.Error(), "invalid") != 1 {
				a.Errorf("New = %v, want ErrInvalid with %q", err, rule)
			}
		}
		if _, err := a.e.Campaign(a.Context(), make([]byte, recipes.MaxPayload+1)); !errors.Is(err, coordinator.ErrInvalid) {
			a.Errorf("Campaign with a long value: %v", err)
		}
		named, err := election.New(a.client, "jobs", election.WithIdentity("somebody"))
		if err != nil {
			a.Fatal(err)
		}
		term, err := named.Campaign(a.Context(), nil)
		if err != nil {
			a.Fatal(err)
		}
		if l, err := a.e.Leader(a.Context()); err != nil || l.Identity != "somebody" || l.Value != nil || named.Name() != "jobs" {
			a.Errorf("%+v, %v", l, err)
		}
		a.resign(term)
	})
}

// blind is a context of a term in which an election does not find the term, as in the moment in which it is being resigned.
type blind struct{ context.Context }

func (b blind) Value(key any) any {
	if fmt.Sprintf("%T", key) == "election.termKey" {
		return nil
	}
	return b.Context.Value(key)
}

// TestTermIsNeverEnteredAgain: two handles of one term would be two leaders.
func TestTermIsNeverEnteredAgain(t *testing.T) {
	parties(t, 1, func(t *testing.T, p ...party) {
		a := p[0]
		term := a.campaign()
		if _, err := a.e.TryCampaign(blind{term.Context()}, nil); !errors.Is(err, coordinator.ErrTaken) {
			a.Errorf("TryCampaign = %v", err)
		}
		a.resign(term)
	})
}
