package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/baton-go/baton/internal/engine"
)

// TestDescribeNamesOneStep, the one that the user knows. Maybe is set if it is
// set in any step.
func TestDescribeNamesOneStep(t *testing.T) {
	refused := fmt.Errorf("%w: no permission", engine.ErrRefused)
	step := func(err error, maybe bool) error {
		return &engine.Error{Op: "convert", Name: "rwlock/x", Err: err, Maybe: maybe}
	}
	for _, err := range []error{step(refused, true), step(step(refused, false), true), step(step(step(refused, true), false), false)} {
		got := engine.Describe(context.Background(), "unlock", "x", err)
		if want := `baton: unlock "x": refused by the service: no permission (may have been applied)`; got.Error() != want {
			t.Errorf("%v, want %s", got, want)
		}
		if !errors.Is(got, engine.ErrRefused) || !engine.MayHaveApplied(got) {
			t.Errorf("%#v", got)
		}
	}
	// A user's own text and the cause of a context are kept.
	said := fmt.Errorf("mine: %w", step(refused, false))
	if got := engine.Describe(context.Background(), "unlock", "x", step(said, false)); !errors.Is(got, said) {
		t.Errorf("%v", got)
	}
}
