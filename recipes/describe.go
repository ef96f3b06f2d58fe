package recipes

import (
	"context"

	"github.com/baton-go/baton/internal/engine"
)

// Describe gives err the operation and the name that a recipe's user knows, in
// place of those of the step that failed. It returns nil and the cause of ctx
// untouched. That cause is also returned for a step that changes nothing and was
// ended by it: a waiter reads the queue now and then, and its caller cannot know
// when.
func Describe(ctx context.Context, op, name string, err error) error {
	return engine.Describe(ctx, op, name, err)
}
