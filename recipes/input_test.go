package recipes_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes"
	"github.com/baton-go/baton/recipes/group"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// TestBadInputIsRefusedAtConstruction by each recipe, with the value and the
// rule in the error, and without a request.
func TestBadInputIsRefusedAtConstruction(t *testing.T) {
	svc := memory.NewService()
	client, err := coordinator.New(svc.Driver(), quiet)
	check(t, err)
	defer client.Close(t.Context())
	type newFunc func(c *coordinator.Client, name string, opts ...recipes.Option) error
	for what, create := range map[string]newFunc{
		"mutex": func(c *coordinator.Client, name string, opts ...recipes.Option) error {
			_, err := mutex.New(c, name, opts...)
			return err
		},
		"rwlock": func(c *coordinator.Client, name string, opts ...recipes.Option) error {
			_, err := rwlock.New(c, name, opts...)
			return err
		},
		"semaphore": func(c *coordinator.Client, name string, opts ...recipes.Option) error {
			_, err := semaphore.New(c, name, 1, opts...)
			return err
		},
		"election": func(c *coordinator.Client, name string, opts ...recipes.Option) error {
			_, err := election.New(c, name, opts...)
			return err
		},
	} {
		for _, c := range []struct {
			err  error
			says string
		}{
			{create(nil, "n"), "nil client"},
			{create(client, ""), "name is empty"},
			{create(client, "a\nb"), `"a\nb"`},
			{create(client, "a//b"), `"a//b"`},
			{create(client, strings.Repeat("n", 1000)), "1000"},
			{create(client, "n", nil), "nil option"},
			{create(client, "n", recipes.WithPayload(make([]byte, 4097))), "4097 bytes"},
			{create(client, "n", recipes.WithIdentity("a\x00")), "control"},
			{create(client, "n", recipes.WithIdentity(strings.Repeat("x", 256))),
				"256 bytes; 1 to "},
		} {
			if !errors.Is(c.err, coordinator.ErrInvalid) ||
				!strings.Contains(c.err.Error(), c.says) ||
				strings.Count(c.err.Error(), "baton: ") != 1 ||
				strings.Count(c.err.Error(), "invalid") != 1 {
				t.Errorf("%s: New = %v, want ErrInvalid with %q", what, c.err, c.says)
			}
		}
	}
	if n := svc.Stats().Total(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestElectionsAndGroupsRefuseALongestHold: Run would end for good after it.
func TestElectionsAndGroupsRefuseALongestHold(t *testing.T) {
	client, err := coordinator.New(memory.NewService().Driver(), quiet)
	check(t, err)
	defer client.Close(t.Context())
	longest := recipes.WithMaxHold(time.Minute)
	_, ofElection := election.New(client, "n", longest)
	_, ofGroup := group.New(client, "n", longest)
	for _, err := range []error{ofElection, ofGroup} {
		if !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(err.Error(), "1m0s") {
			t.Errorf("error %v", err)
		}
	}
}
