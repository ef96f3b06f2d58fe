package partition

import "time"

// Option changes a default of a Partition.
type Option func(*options)

type options struct {
	identity string
	weight   int
	most     int
	drain    time.Duration
	onError  func(error)
}

// WithIdentity sets the name of the member in Assignments and listings. The
// default, and that for "", is the client's identity.
func WithIdentity(id string) Option { return func(o *options) { o.identity = id } }

// WithWeight sets the member's share in relation to others, 1 (the default) to
// MaxWeight. A member of weight 2 holds twice as many shards as one of weight
// 1.
func WithWeight(weight int) Option { return func(o *options) { o.weight = weight } }

// WithMaxShards sets the most shards that the member takes. If no member takes
// more, the other shards have no holder. The default is all.
func WithMaxShards(k int) Option { return func(o *options) { o.most = k } }

// WithDrain sets how long work may take to return after its context has ended:
// 10 s by default. After that the shard is released, and Run leaves with
// ErrOverrun. After a lost session another member can hold the shard a tenth of
// the TTL after the end of the context, whatever the drain.
func WithDrain(d time.Duration) Option { return func(o *options) { o.drain = d } }

// WithOnError makes Run call f, one call at a time, with each error after which
// Run goes on: of work, of a shard's queue, or a lost membership. Run waits for
// f.
func WithOnError(f func(error)) Option { return func(o *options) { o.onError = f } }
