package records_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/examples/internal/records"
)

type count struct {
	records.Guard
	N int
}

func TestNoChangeIsLost(t *testing.T) {
	s := records.Store(t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if err := records.Update(s, "a/b", func(c *count) error { c.N++; return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	history, err := records.History[count](s, "a/b")
	if err != nil || len(history) != 80 {
		t.Fatalf("%d versions, %v", len(history), err)
	}
	for i, c := range history {
		if c.N != i+1 {
			t.Errorf("version %d is %d", i+1, c.N)
		}
	}
	if other, err := records.Read[count](s, "a"); other.N != 0 || err != nil {
		t.Errorf("another record: %+v, %v", other, err)
	}
}

func TestFailedChangeWritesNothing(t *testing.T) {
	s, because := records.Store(t.TempDir()), errors.New("because")
	if err := records.Update(s, "a", func(c *count) error { c.N = 7; return because }); !errors.Is(err, because) {
		t.Error(err)
	}
	if c, err := records.Read[count](s, "a"); c.N != 0 || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestDamageIsTold(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "a.d"), 0o700), os.WriteFile(filepath.Join(dir, "a.d", "3.json"), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := records.Read[count](records.Store(dir), "a"); err == nil || !strings.Contains(err.Error(), "3.json") {
		t.Error(err)
	}
}

func TestLateAndForeignSequencersAreRefused(t *testing.T) {
	s := records.Store(t.TempDir())
	here := fence.Scope{Service: "0123456789abcdef0123456789abcdef", Kind: "mutex", Name: "a"}
	other := here
	other.Name = "b"
	var foreign *fence.ForeignError
	for _, c := range []struct {
		scope fence.Scope
		token coordinator.Token
		ok    func(error) bool
	}{
		{here, 5, func(err error) bool { return err == nil }},
		{here, 5, func(err error) bool { return err == nil }},
		{here, 9, func(err error) bool { return err == nil }},
		{here, 8, func(err error) bool { return errors.Is(err, fence.ErrStale) }},
		{other, 10, func(err error) bool { return errors.As(err, &foreign) }},
	} {
		shown := fence.Sequencer{Scope: c.scope, Token: c.token, Key: "k"}
		if err := records.Update(s, "a", func(r *count) error { return r.Admit(shown) }); !c.ok(err) {
			t.Errorf("token %d of %s: %v", c.token, c.scope.Name, err)
		}
	}
	if c, err := records.Read[count](s, "a"); err != nil || c.Latest.Token != 9 {
		t.Errorf("%+v, %v", c, err)
	}
}
