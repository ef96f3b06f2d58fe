package bench

import (
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
	pairs   form = "pair"    // one contender takes and gives back
	turns   form = "turns"   // all contend for one name: each gives back at once and queues again
	names   form = "names"   // goroutines take and give back names of their own
	fleet   form = "fleet"   // each contender takes one of many names at random, and gives it back
	fresh   form = "fresh"   // each contender takes names that nobody has used before
	permits form = "permits" // contenders take and give back permits, of which there are fewer than contenders
)

// load is a form with its numbers.
type load struct {
	form       form
	contenders int // goroutines
	names      int // for names and fleet
	permits    int // for permits
	clients    int // connections, each with a session; 0: see maxConnections
}

// maxConnections bounds the connections, each with a session, that the
// contenders of a subject share, unless the load says how many there are.
const maxConnections = 8

func (l load) connections() int {
	if l.clients > 0 {
		return l.clients
	}
	return min(l.contenders, maxConnections)
}

// play is one go at a load.
type play struct {
	name  string // new for each
	warm  int    // how many turns go before those that are measured; not for many names
	turns int    // how many to measure
	rec   *recorder
	// settled waits until so many more waiters than before are in the queue and
	// watch: see field.settle.
	settled func(ctx context.Context, waiters int) error
}

// times is what one play took.
type times struct {
	elapsed time.Duration
	turns   int
	// each is the time of each turn: from grant to grant where there is one
	// queue, else from before the taking to after the giving back.
	each []time.Duration
}

// player is a subject that is ready to play a load.
type player interface {
	play(ctx context.Context, p *play) (times, error)
	// process is where it runs, 0 for here.
	process() int
	close()
}

// party is a subject that takes and gives back: the connections of all its
// contenders.
type party interface {
	// contender is the i-th for a name. It makes no request.
	contender(i int, name string) (contender, error)
	close()
}

// contender takes one name and gives it back, again and again.
type contender interface {
	take(ctx context.Context) error
	give(ctx context.Context) error
}

// crowd plays any load with the contenders of a party.
type crowd struct {
	party
	load
}

func (c crowd) process() int { return 0 }

func (c crowd) play(ctx context.Context, p *play) (times, error) {
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
	}
	return times{}, fmt.Errorf("bench: no such form: %s", c.form)
}

func (c crowd) all(name string) ([]contender, error) {
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
	if err := c.take(ctx); err != nil {
		return err
	}
	return c.give(ctx)
}

func (c crowd) pairs(ctx context.Context, p *play) (times, error) {
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

// group runs goroutines until all are done or one fails.
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

// wait waits for all. Some peers know no context: those that are left after a
// failure are not waited for.
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

// begin makes the contenders of a play, the first of which holds. The group and
// its context are for what all of them do.
func (c crowd) begin(ctx context.Context, p *play) (all []contender, g *group, bound context.Context, err error) {
	if all, err = c.all(p.name); err != nil {
		return nil, nil, nil, err
	}
	g, bound = newGroup(ctx)
	if err = all[0].take(bound); err != nil {
		g.cancel()
		return nil, nil, nil, err
	}
	return all, g, bound, nil
}

// queue is the order of grants of one name.
type queue struct {
	count  atomic.Int64
	stamps []time.Time
}

func newQueue(n int) *queue { return &queue{stamps: make([]time.Time, n)} }

// turn writes down that it was granted, and returns the number of the grant.
// One after the other has the turn, and whoever comes late finds no more room.
func (l *queue) turn() int {
	k := int(l.count.Add(1) - 1)
	if k < len(l.stamps) {
		l.stamps[k] = time.Now()
	}
	return k
}

// times are those from one grant to a later one.
func (l *queue) times(from, to int) times {
	t := times{turns: to - from, elapsed: l.stamps[to].Sub(l.stamps[from])}
	for k := from; k < to; k++ {
		t.each = append(t.each, l.stamps[k+1].Sub(l.stamps[k]))
	}
	return t
}

// warmTurns go before those that are measured, so that sessions are open,
// caches are warm, and each contender has had its turn: those that form a queue
// do not know yet that it will be one, and some ask for more than once they do.
func (l load) warmTurns() int { return max(15, l.contenders) }

// course is a play of turns: a queue with a part of it that is measured.
type course struct {
	*queue
	from, to int
	rec      *recorder
	over     atomic.Bool
}

func newCourse(p *play) *course {
	return &course{queue: newQueue(p.warm + p.turns + 1), from: p.warm, to: p.warm + p.turns, rec: p.rec}
}

// turn is called by whoever holds, and tells whether that was the last one that
// is measured.
func (c *course) turn() (last bool) {
	switch k := c.queue.turn(); k {
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

func (c crowd) turns(ctx context.Context, p *play) (times, error) {
	all, g, ctx, err := c.begin(ctx, p)
	if err != nil {
		return times{}, err
	}
	course := newCourse(p)
	// Whoever is granted when it is over gives back and stays away, so that the
	// queue drains.
	rounds := func(one contender) error {
		for {
			if err := one.take(ctx); err != nil {
				return err
			}
			over := course.turn()
			if err := one.give(ctx); err != nil || over {
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
	course.turn()
	if err := all[0].give(ctx); err != nil {
		g.fail(err)
	}
	g.run(func() error { return rounds(all[0]) })
	if err := g.wait(); err != nil {
		return times{}, err
	}
	return course.result(), nil
}

// manyNames gives each goroutine names of its own, all of which have been taken
// once before the clock starts.
func (c crowd) manyNames(ctx context.Context, p *play) (times, error) {
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

// fleet has each contender take names that others use too, or that are new, as
// the processes of a fleet do: seldom the same name twice in a row.
func (c crowd) fleet(ctx context.Context, p *play) (times, error) {
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

// shared has all contenders draw from one number of turns, so that at the end
// none of them works alone. next is the contender of i's k-th turn, which is
// the drawn-th of all.
func (c crowd) shared(
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

// permitted has several holders at a time, so a turn's time is what its own
// taking and giving back took.
func (c crowd) permitted(ctx context.Context, p *play) (times, error) {
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
				if err := one.take(ctx); err != nil {
					return err
				}
				over := course.turn()
				if err := one.give(ctx); err != nil || over {
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
