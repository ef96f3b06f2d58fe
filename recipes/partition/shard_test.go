package partition_test

import (
	"context"
	"errors"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/partition"
)

// TestWorkGetsAHandleOfItsShard: a gate accepts its sequencer while the shard
// is held, also after the end of the work's context; then the handle tells that
// the shard was released.
func TestWorkGetsAHandleOfItsShard(t *testing.T) {
	c, err := coordinator.New(memory.NewService().Driver())
	if err != nil {
		t.Fatal(err)
	}
	p, err := partition.New(c, "jobs", 3)
	if err != nil {
		t.Fatal(err)
	}
	gate := fence.NewGate(fence.Scope{Kind: "partition-shard", Name: "jobs/2"})
	ctx, cancel := context.WithCancel(t.Context())
	var kept *partition.Shard
	err = p.Run(ctx, func(ctx context.Context, s *partition.Shard) error {
		if s.Number() != 2 {
			<-ctx.Done()
			return nil
		}
		kept = s
		cancel()
		<-ctx.Done()
		seq, err := s.Sequencer(t.Context())
		if err == nil {
			err = gate.Check(t.Context(), seq)
		}
		if err != nil || s.Err() != nil || s.Context().Err() != nil || seq.Token != s.Token() {
			t.Errorf("the sequencer: %v; the shard: %v", err, s.Err())
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(kept.Err(), coordinator.ErrReleased) {
		t.Errorf("Run returned %v, the shard %v", err, kept.Err())
	}
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
