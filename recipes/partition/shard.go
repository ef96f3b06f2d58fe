package partition

import (
	"context"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/recipes"
)

// Shard is the handle of a shard that this member holds, safe for concurrent
// use. Work cannot release it, since the plan says who holds a shard: work that
// returns early is called again.
type Shard struct {
	hold      *recipes.Hold
	number    int
	partition *Partition
}

// Number is from 0 to one less than the number of shards.
func (s *Shard) Number() int { return s.number }

// Token returns the fencing token. It is greater than those of all earlier
// holders of the shard, unless the service lost its data or a backup was
// restored. Tokens of different shards cannot be compared.
func (s *Shard) Token() coordinator.Token { return s.hold.Token() }

// Sequencer returns the token with the name and service of the shard, for
// another process to check: see package coordinator/fence. The first call of a
// session asks the service. If the hold is over, the error is that of Err. It
// is ErrInvalid in another layout.
func (s *Shard) Sequencer(ctx context.Context) (fence.Sequencer, error) {
	q, err := s.hold.Sequencer(ctx)
	return q, recipes.Describe(ctx, "sequencer", s.partition.name, err)
}

// Context ends when the shard is released or lost, in the second case before
// another member can hold it, unless an operator ended the hold. It does not
// end when the shard moves, as the context of work does: until work has
// returned, or the bound of WithDrain has passed, the shard is held.
func (s *Shard) Context() context.Context { return s.hold.Context() }

// Err returns nil while the shard is held, and then why it ended. It compares
// the deadline with the clock, so it reports a loss right after a pause. If the
// machine may have slept it asks the service, for up to two seconds; without an
// answer the shard counts as lost.
func (s *Shard) Err() error { return s.hold.Err() }

// Session returns the ID of the session that holds.
func (s *Shard) Session() string { return s.hold.Session() }

// Deadline returns the time at which the session counts as lost if no renewal
// is acknowledged before it.
func (s *Shard) Deadline() time.Time { return s.hold.Deadline() }
