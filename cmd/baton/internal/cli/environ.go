package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// environ is the command's environment. It is baton's own, with what the hold is.
func (r *run) environ(ctx context.Context, c *coordinator.Client, g *grant) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	seq, err := g.Sequencer(ctx)
	if err != nil {
		return nil, err
	}
	outer := slices.DeleteFunc(r.Environ(), func(v string) bool { // which this hold may have nothing in place of
		return strings.HasPrefix(v, "BATON_PERMITS=") || strings.HasPrefix(v, "BATON_SLOTS=") || strings.HasPrefix(v, "BATON_VALUE=")
	})
	return append(append(outer,
		"BATON_URL="+r.service(),
		"BATON_KIND="+r.recipe.kind,
		"BATON_NAME="+r.name,
		"BATON_IDENTITY="+c.Identity(),
		"BATON_SESSION="+g.Session(),
		"BATON_TOKEN="+g.Token().String(),
		"BATON_SEQUENCER="+seq.String(),
		"BATON_DEADLINE="+g.Deadline().Format(time.RFC3339Nano),
	), g.env...), nil
}
