package engine_test

import (
	"context"
	"io"
	"testing"

	"github.com/baton-go/baton/internal/engine"
)

// curious is a context, as that of a hold, to ask which for its error can take
// long.
type curious struct {
	context.Context
	asked *int
}

func (c curious) Err() error {
	*c.asked++
	return c.Context.Err()
}

// TestLivingContextIsNotAskedForItsCause: an observer that puts reasons into
// classes must not wait.
func TestLivingContextIsNotAskedForItsCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := 0
	if c := (curious{ctx, &asked}); engine.IsCause(c, io.EOF) || asked != 0 {
		t.Errorf("asked %d times", asked)
	}
	cancel(io.EOF)
	if c := (curious{ctx, &asked}); !engine.IsCause(c, io.EOF) || engine.IsCause(c, context.Canceled) {
		t.Error("the cause of one that has ended is not known")
	}
}
