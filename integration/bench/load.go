package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// form is what contenders do.
type form string

const (
	pairs   form = "pair"    // one contender acquires and releases
	turns   form = "turns"   // all contend for one name: each releases at once and queues again
	names   form = "names"   // goroutines acquire and release their own names
	fleet   form = "fleet"   // each contender acquires and releases one of many names at random
	fresh   form = "fresh"   // each contender acquires and releases new names
	readers form = "readers" // most contenders read one name, and one writes now and then
	permits form = "permits" // contenders acquire and release permits, of which there are fewer than contenders
)

// load is a form with its numbers.
type load struct {
	form       form
	contenders int           // goroutines
	names      int           // for names and fleet
	permits    int           // for permits
	clients    int           // connections, each with a session; 0: see maxConnections
	ttl        time.Duration // of the sessions; 0: see defaultTTL
}

// maxConnections bounds the connections, each with a session, that the
// contenders of a subject share, unless the load sets their number.
const maxConnections = 8

func (l load) sessionTTL() time.Duration { return cmp.Or(l.ttl, defaultTTL) }

func (l load) connections() int {
	if l.clients > 0 {
		return l.clients
	}
	return min(l.contenders, maxConnections)
}

// play is one execution of a load.
type play struct {
	name  string // new for each
	warm  int    // grants before the measured ones; not for many names
	turns int    // measured grants
	rec   *recorder
	// settled waits until so many more waiters than before are queued and
	// watch: see field.settle.
	settled func(ctx context.Context, waiters int) error
}

// times has the times of one play.
type times struct {
	elapsed time.Duration
	turns   int
	// each is the time of each grant: from grant to grant if there is one
	// queue, else from the acquire to the end of the release.
	each []time.Duration
}

// player is a subject that is ready to play a load.
type player interface {
	play(ctx context.Context, p *play) (times, error)
	// process is its process ID, 0 for this process.
	process() int
	close()
}

// party is a subject that acquires and releases: the connections of all its
// contenders.
type party interface {
	// contender returns the i-th contender for a name. It makes no request.
	contender(i int, name string) (contender, error)
	close()
}

// contender acquires and releases one name repeatedly.
type contender interface {
	acquire(ctx context.Context) error
	release(ctx context.Context) error
}

// contention plays any load with the contenders of a party.
type contention struct {
	party
	load
}

func (c contention) process() int { return 0 }

func (c contention) play(ctx context.Context, p *play) (times, error) {
	switch c.form {
	case pairs:
		return c.pairs(ctx, p)
	case turns:
		return c.turns(ctx, p)
	case names:
		return c.manyNames(ctx, p)
	case fleet, fresh:
		return c.fleet(ctx, p)
	case permits:
		return c.permitted(ctx, p)
	case readers:
		return c.readers(ctx, p)
	}
	return times{}, fmt.Errorf("bench: unknown form: %s", c.form)
}

func (c contention) all(name string) ([]contender, error) {
	all := make([]contender, c.contenders)
	for i := range all {
		var err error
		if all[i], err = c.contender(i, name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func both(ctx context.Context, c contender) error {
	if err := c.acquire(ctx); err != nil {
		return err
	}
	return c.release(ctx)
}

func (c contention) pairs(ctx context.Context, p *play) (times, error) {
	one, err := c.contender(0, p.name)
	if err != nil {
		return times{}, err
	}
	for range p.warm {
		if err := both(ctx, one); err != nil {
			return times{}, err
		}
	}
	t := times{turns: p.turns, each: make([]time.Duration, p.turns)}
	p.rec.begin()
	began := time.Now()
	for i := range t.each {
		start := time.Now()
		if err := both(ctx, one); err != nil {
			return times{}, err
		}
		t.each[i] = time.Since(start)
	}
	t.elapsed = time.Since(began)
	p.rec.end()
	return t, nil
}

// group runs goroutines until all have ended or one fails.
type group struct {
	sync.WaitGroup
	once   sync.Once
	failed chan struct{}
	err    error // set before failed is closed
	cancel context.CancelFunc
}

func newGroup(ctx context.Context) (*group, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	return &group{cancel: cancel, failed: make(chan struct{})}, ctx
}

func (g *group) run(f func() error) {
	g.Go(func() {
		if err := f(); err != nil {
			g.fail(err)
		}
	})
}

func (g *group) fail(err error) {
	g.once.Do(func() { g.err = err; close(g.failed); g.cancel() })
}

// wait waits for all. Some peers do not support contexts: after a failure the
// remaining goroutines are not waited for.
func (g *group) wait() error {
	done := make(chan struct{})
	go func() { g.Wait(); close(done) }()
	select {
	case <-done:
	case <-g.failed:
		select {
		case <-done:
		case <-time.After(5 * time.Second):
		}
	}
	g.cancel()
	return g.err
}

// begin makes the contenders of a play, the first of which holds. All of them
// use the group and its context.
func (c contention) begin(ctx context.Context, p *play) (all []contender, g *group, bound context.Context, err error) {
	if all, err = c.all(p.name); err != nil {
		return nil, nil, nil, err
	}
	g, bound = newGroup(ctx)
	if err = all[0].acquire(bound); err != nil {
		g.cancel()
		return nil, nil, nil, err
	}
	return all, g, bound, nil
}

// grantTimes are the times of the grants of one name, in order.
type grantTimes struct {
	count  atomic.Int64
	stamps []time.Time
}

func newGrantTimes(n int) *grantTimes { return &grantTimes{stamps: make([]time.Time, n)} }

// grant records a grant and returns its number. It drops grants after the last
// measured one.
func (l *grantTimes) grant() int {
	k := int(l.count.Add(1) - 1)
	if k < len(l.stamps) {
		l.stamps[k] = time.Now()
	}
	return k
}

// times returns the times between consecutive grants.
func (l *grantTimes) times(from, to int) times {
	t := times{turns: to - from, elapsed: l.stamps[to].Sub(l.stamps[from])}
	for k := from; k < to; k++ {
		t.each = append(t.each, l.stamps[k+1].Sub(l.stamps[k]))
	}
	return t
}

// warmTurns is the number of grants before the measured ones, so that sessions
// are open, caches are warm, and each contender was granted once: some recipes
// make more requests before they know that the queue is contended.
func (l load) warmTurns() int { return max(15, l.contenders) }

// course records the grants of a play, a part of which is measured.
type course struct {
	*grantTimes
	from, to int
	rec      *recorder
	over     atomic.Bool
}

func newCourse(p *play) *course {
	return &course{grantTimes: newGrantTimes(p.warm + p.turns + 1), from: p.warm, to: p.warm + p.turns, rec: p.rec}
}

// grant is called by the holder, and reports whether this was the last measured
// grant.
func (c *course) grant() (last bool) {
	switch k := c.grantTimes.grant(); k {
	case c.from:
		c.rec.begin()
		c.stamps[k] = time.Now()
	case c.to:
		c.rec.end()
		c.over.Store(true)
	}
	return c.over.Load()
}

func (c *course) result() times { return c.times(c.from, c.to) }

func (c contention) turns(ctx context.Context, p *play) (times, error) {
	all, g, ctx, err := c.begin(ctx, p)
	if err != nil {
		return times{}, err
	}
	course := newCourse(p)
	// A contender that is granted after the end releases and stops, so that the
	// queue drains.
	rounds := func(one contender) error {
		for {
			if err := one.acquire(ctx); err != nil {
				return err
			}
			over := course.grant()
			if err := one.release(ctx); err != nil || over {
				return err
			}
		}
	}
	for _, one := range all[1:] {
		g.run(func() error { return rounds(one) })
	}
	if err := p.settled(ctx, len(all)-1); err != nil {
		g.fail(err)
		return times{}, g.wait()
	}
	course.grant()
	if err := all[0].release(ctx); err != nil {
		g.fail(err)
	}
	g.run(func() error { return rounds(all[0]) })
	if err := g.wait(); err != nil {
		return times{}, err
	}
	return course.result(), nil
}

// manyNames gives each goroutine its own names, all of which are acquired once
// before the clock starts.
func (c contention) manyNames(ctx context.Context, p *play) (times, error) {
	own := make([][]contender, c.contenders)
	for n := range c.names {
		i := n % c.contenders
		one, err := c.contender(i, fmt.Sprintf("%s-%d", p.name, n))
		if err != nil {
			return times{}, err
		}
		own[i] = append(own[i], one)
	}
	g, warm := newGroup(ctx)
	for _, mine := range own {
		g.run(func() error {
			for _, one := range mine {
				if err := both(warm, one); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.wait(); err != nil {
		return times{}, err
	}
	return c.shared(ctx, p, func(i, k, _ int) (contender, error) {
		return own[i][k%len(own[i])], nil
	})
}

// fleet makes each contender acquire shared or new names, as the processes of a
// fleet do: rarely the same name twice in a row.
func (c contention) fleet(ctx context.Context, p *play) (times, error) {
	g, warm := newGroup(ctx)
	for i := range c.contenders {
		g.run(func() error {
			for n := i; n < max(c.names, c.contenders); n += c.contenders {
				one, err := c.contender(i, fmt.Sprintf("%s-%d", p.name, n))
				if err == nil {
					err = both(warm, one)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.wait(); err != nil {
		return times{}, err
	}
	return c.shared(ctx, p, func(i, _, drawn int) (contender, error) {
		n := c.contenders + drawn // no name of the warm-up
		if c.form == fleet {
			n = rand.IntN(c.names)
		}
		return c.contender(i, fmt.Sprintf("%s-%d", p.name, n))
	})
}

// shared lets all contenders draw from one number of grants, so that at the end
// none of them works alone. next returns contender i's k-th name, the drawn-th
// of all.
func (c contention) shared(
	ctx context.Context, p *play, next func(i, k, drawn int) (contender, error),
) (times, error) {
	var drawn atomic.Int64
	each := make([][]time.Duration, c.contenders)
	g, ctx := newGroup(ctx)
	p.rec.begin()
	began := time.Now()
	for i := range each {
		g.run(func() error {
			for k := 0; ; k++ {
				n := int(drawn.Add(1))
				if n > p.turns {
					return nil
				}
				start := time.Now()
				one, err := next(i, k, n)
				if err == nil {
					err = both(ctx, one)
				}
				if err != nil {
					return err
				}
				each[i] = append(each[i], time.Since(start))
			}
		})
	}
	err := g.wait()
	t := times{elapsed: time.Since(began), turns: p.turns}
	p.rec.end()
	t.each = slices.Concat(each...)
	return t, err
}

// permitted has several holders at a time, so a grant's time is that of its own
// acquire and release.
func (c contention) permitted(ctx context.Context, p *play) (times, error) {
	all, err := c.all(p.name)
	if err != nil {
		return times{}, err
	}
	g, ctx := newGroup(ctx)
	course := newCourse(p)
	each := make([][]time.Duration, len(all))
	for i, one := range all {
		g.run(func() error {
			for {
				start := time.Now()
				if err := one.acquire(ctx); err != nil {
					return err
				}
				over := course.grant()
				if err := one.release(ctx); err != nil || over {
					return err
				}
				each[i] = append(each[i], time.Since(start))
			}
		})
	}
	if err := g.wait(); err != nil {
		return times{}, err
	}
	t := course.result()
	t.each = slices.Concat(each...)
	return t, nil
}
