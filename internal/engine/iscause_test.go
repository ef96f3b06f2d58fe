package engine_test

import (
	"context"
	"io"
	"testing"

	"github.com/baton-go/baton/internal/engine"
)

// curious is a context whose Err can take long, like that of a hold.
type curious struct {
	context.Context
	asked *int
}

func (c curious) Err() error {
	*c.asked++
	return c.Context.Err()
}

// TestIsCauseDoesNotCallErrOfALiveContext: an observer that classifies errors
// must not wait.
func TestIsCauseDoesNotCallErrOfALiveContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := 0
	if c := (curious{ctx, &asked}); engine.IsCause(c, io.EOF) || asked != 0 {
		t.Errorf("Err was called %d times", asked)
	}
	cancel(io.EOF)
	if c := (curious{ctx, &asked}); !engine.IsCause(c, io.EOF) || engine.IsCause(c, context.Canceled) {
		t.Error("the cause of a context that has ended is not recognized")
	}
}
