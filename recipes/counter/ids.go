package counter

import (
	"context"
	"fmt"

	"github.com/baton-go/baton/coordinator"
)

// MaxBlock is the size of the largest block of [IDs].
const MaxBlock = 1 << 32

// IDs hands out numbers that no other call gets, in any process: 1, 2, 3 and so
// on. It takes them from a [Counter] in blocks, and needs no request for the
// other numbers of a block. It is safe for concurrent use.
//
// Numbers of one IDs rise. Those of a block are lost when the process ends. So
// numbers have gaps, and do not show the order of calls in different processes.
//
// A block is used only if the service has confirmed it. A block whose reply was
// lost is never used, nor handed out again. Numbers come again after an
// operator has changed or deleted the record, or restored an older backup, and
// on a service that can lose a confirmed write: Redis, and a database whose
// replica is promoted without the last commits, or which does not write each
// commit to disk.
type IDs struct {
	counter *Counter
	size    int64

	// held by the goroutine that takes a number
	block chan block
}

// block is the unused numbers of a block.
type block struct{ next, left int64 }

// NewIDs returns the allocator of a name. Its numbers are not those of the
// counter of the same name. size is how many numbers it takes at once, from 1
// to [MaxBlock]; processes may use different sizes. It does no I/O. The error
// is coordinator.ErrInvalid.
func NewIDs(c *coordinator.Client, name string, size int64) (*IDs, error) {
	if size < 1 || size > MaxBlock {
		return nil, fmt.Errorf("baton: %w: blocks of %d numbers for %q: want 1 to %d",
			coordinator.ErrInvalid, size, name, int64(MaxBlock))
	}
	counter, err := open(c, "ids", name)
	if err != nil {
		return nil, err
	}
	ids := &IDs{counter: counter, size: size, block: make(chan block, 1)}
	ids.block <- block{}
	return ids, nil
}

// Name returns the allocator's name.
func (i *IDs) Name() string { return i.counter.Name() }

// Next returns the next number. It waits only while this IDs takes a block. The
// errors are those of [Counter.Add]; call again after any of them. If
// coordinator.MayHaveApplied reports true, the numbers of a block may be lost.
func (i *IDs) Next(ctx context.Context) (int64, error) {
	var b block
	select {
	case b = <-i.block:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { i.block <- b }()
	if b.left == 0 {
		last, err := i.counter.Add(ctx, i.size)
		if err != nil {
			return 0, err
		}
		b = block{last - i.size + 1, i.size}
	}
	id := b.next
	b = block{id + 1, b.left - 1}
	return id, nil
}
