package partition

import (
	"time"

	"github.com/baton-go/baton/internal/engine"
)

// Option changes a default of a Partition.
type Option func(*options)

type options struct {
	identity string
	weight   int
	most     int
	drain    time.Duration
	settle   time.Duration
	onError  func(error)
	health   *Health
}

// WithIdentity sets the name of the member in Assignments and listings. The
// default, and that for "", is the client's identity.
func WithIdentity(id string) Option { return func(o *options) { o.identity = id } }

// WithWeight sets the member's share in relation to others, 1 (the default) to
// MaxWeight. A member of weight 2 holds twice as many shards as one of weight
// 1.
func WithWeight(weight int) Option { return func(o *options) { o.weight = weight } }

// WithMaxShards sets the most shards that the member takes, 0 or more. Shards
// beyond the sum of all members' maxima have no holder. The default is all.
func WithMaxShards(k int) Option { return func(o *options) { o.most = k } }

// WithDrain sets how long work may take to return after its context has ended:
// 10 s by default. After that the shard is released, and Run leaves with
// ErrOverrun. After a lost session another member can hold the shard a tenth of
// the TTL after the end of the context, whatever the drain.
func WithDrain(d time.Duration) Option { return func(o *options) { o.drain = d } }

// WithSettle makes a member take its shards slowly: none for d after it has
// joined, then one, and after each further d twice as many, up to its share. So
// a process that crashes again and again soon after its start takes none down,
// and one that crashes when it works takes one down. The default is 0: a member
// takes its share when it joins.
//
// Each crash of a member that has taken shards, but has not settled, multiplies
// the first d of the members that join afterwards by 4, up to 16, until one has
// settled. So with 30 s a process that crashes again and again costs no shard
// more than two TTLs in ten minutes.
//
// It is d of each membership: after a lost session Run begins again. While no
// member has settled, as at the first start, all take their shares at once, and
// shards that no other member takes are not left free. Until the member has
// settled the others have more than their share: see WithMaxShards.
func WithSettle(d time.Duration) Option { return func(o *options) { o.settle = d } }

// WithOnError makes Run call f, one call at a time, with each error after which
// Run goes on: of work, of a shard's queue, or a lost membership. f runs beside
// the member, in a goroutine of its own; Run waits for it before it returns. If
// f is slow and 100 errors wait for it, others are only logged. A panic of f
// ends the process.
func WithOnError(f func(error)) Option { return func(o *options) { o.onError = f } }

// WithHealth makes h report on the partition. The default, and nil, is none.
func WithHealth(h *Health) Option { return func(o *options) { o.health = h } }

// check returns an ErrInvalid for a number of shards or an option that breaks
// its rule.
func (o *options) check(name string, shards int) error {
	switch {
	case shards < 1 || shards > MaxShards:
		return engine.Invalid("partition %q with %d shards; want 1 to %d", name, shards, MaxShards)
	case o.weight < 1 || o.weight > MaxWeight:
		return engine.Invalid("weight %d in partition %q; want 1 to %d", o.weight, name, MaxWeight)
	case o.most < 0:
		return engine.Invalid("at most %d shards of partition %q; want 0 or more", o.most, name)
	case o.drain <= 0:
		return engine.Invalid("drain of %v in partition %q; want more than 0", o.drain, name)
	case o.settle < 0 || o.settle > 0 && o.settle < time.Millisecond: // a unit was forgotten
		return engine.Invalid("settling for %v in partition %q; want 0 for none, or at least 1ms",
			o.settle, name)
	case o.onError == nil:
		return engine.Invalid("nil function for errors in partition %q", name)
	}
	return nil
}
