package partition_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/group"
	"github.com/baton-go/baton/recipes/partition"
)

// ttl is the default of a client.
const ttl = 10 * time.Second

// fleet is some processes that run one partition, in virtual time. It checks
// that no shard has two live holders, and that tokens rise.
type fleet struct {
	*testing.T
	svc    *memory.Service
	shards int
	all    []*process

	refuse atomic.Bool // all writes of records
	past   *past       // not nil: the servers of all clients are behind

	mu      sync.Mutex
	holders map[int]holder
	tokens  map[int]coordinator.Token
	gap     time.Duration // the longest that a shard without a holder was
}

type holder struct {
	ctx   context.Context // of the work; nil after it has returned
	token coordinator.Token
	by    *process
	begun time.Time
	ended time.Time
}

// works reports whether the work may still run.
func (h holder) works() bool { return h.ctx != nil && h.ctx.Err() == nil }

// process is one call of Run.
type process struct {
	name   string
	client *coordinator.Client
	link   *memory.Driver
	p      *partition.Partition
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	// When an operator ends a session, its names are free at once, and the
	// holder is notified afterwards: holds that began until then are not
	// checked.
	expired time.Time
}

func run(t *testing.T, shards int, f func(f *fleet), opts ...memory.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fl := &fleet{T: t, svc: memory.NewService(opts...), shards: shards,
			holders: make(map[int]holder), tokens: make(map[int]coordinator.Token)}
		t.Cleanup(func() {
			// After t.Fatal no other line closes the clients, and what they run
			// would be left in the bubble.
			if t.Failed() {
				fl.svc.OnRequest(nil)
				fl.svc.Start()
				for _, p := range fl.all {
					p.link.Heal()
					p.cancel()
					_ = p.client.Close(context.Background())
				}
				time.Sleep(10 * time.Minute) // for goroutines of the test that end by then
			}
		})
		f(fl)
		for _, p := range fl.all {
			p.link.Heal()
			p.cancel()
		}
		for _, p := range fl.all {
			<-p.done
			if err := p.client.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		time.Sleep(ttl) // the end of sessions that opened after a cut
		synctest.Wait()
		if s := fl.svc.Stats(); s.Entries+s.Watches+s.Sessions > 0 {
			t.Errorf("left at the service: %+v", s)
		}
	})
}

// start starts a process. Its work holds each shard until the context ends.
func (f *fleet) start(opts ...partition.Option) *process {
	f.Helper()
	return f.startWith(f.shards, func(ctx context.Context, _ int, _ coordinator.Token) error {
		<-ctx.Done()
		return nil
	}, opts...)
}

// startWith starts a process whose work gets the number and the token.
func (f *fleet) startWith(
	shards int, work func(ctx context.Context, shard int, token coordinator.Token) error,
	opts ...partition.Option,
) *process {
	f.Helper()
	p := &process{name: fmt.Sprintf("p%d", len(f.all)), link: f.svc.Driver(), done: make(chan struct{})}
	p.link.Delay(time.Millisecond, time.Millisecond)
	var d driver.Driver = p.link
	if f.past != nil {
		d = lag{d, f.past}
	}
	var err error
	p.client, err = coordinator.New(refusing{d, &f.refuse}, coordinator.WithIdentity(p.name),
		coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		f.Fatal(err)
	}
	if p.p, err = partition.New(p.client, "jobs", shards, opts...); err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.Context())
	p.cancel = cancel
	f.all = append(f.all, p)
	go func() {
		defer close(p.done)
		p.err = p.p.Run(ctx, func(ctx context.Context, s *partition.Shard) error {
			shard, token := s.Number(), s.Token()
			f.begin(ctx, shard, token, p)
			defer f.end(shard, token)
			return work(ctx, shard, token)
		})
	}()
	return p
}

func (f *fleet) begin(ctx context.Context, shard int, token coordinator.Token, p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.holders[shard]
	if token < h.token && !time.Now().After(p.expired) {
		return // it was in flight when the session ended
	}
	if h.works() && h.begun.After(h.by.expired) {
		f.Errorf("shard %d: %s with %d, while %s holds with %d", shard, p.name, token, h.by.name, h.token)
	}
	if token < f.tokens[shard] {
		f.Errorf("shard %d: token %d after %d", shard, token, f.tokens[shard])
	}
	if h.by != nil && h.ctx == nil {
		f.gap = max(f.gap, time.Since(h.ended))
	}
	f.holders[shard], f.tokens[shard] = holder{ctx: ctx, token: token, by: p, begun: time.Now()}, token
}

// expire ends the session of a process at the service.
func (f *fleet) expire(p *process) {
	f.mu.Lock()
	p.expired = time.Now().Add(500 * time.Millisecond) // more than the delay of a link
	f.mu.Unlock()
	p.link.Heal()
	p.link.Expire()
}

func (f *fleet) end(shard int, token coordinator.Token) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.holders[shard]; h.token == token {
		f.holders[shard] = holder{token: token, by: h.by, ended: time.Now()}
	}
}

// owners returns the process that works on each shard now.
func (f *fleet) owners() map[int]*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[int]*process)
	for s, h := range f.holders {
		if h.works() {
			all[s] = h.by
		}
	}
	return all
}

// held returns how many shards each process works on.
func (f *fleet) held() map[*process]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := make(map[*process]int, len(f.all))
	for _, h := range f.holders {
		if h.works() {
			n[h.by]++
		}
	}
	return n
}

// full reports whether each shard has a holder.
func (f *fleet) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.shards {
		if !f.holders[s].works() {
			return false
		}
	}
	return true
}

// settled reports whether each shard has a holder among these processes, and
// their numbers differ by at most one.
func (f *fleet) settled(among ...*process) bool {
	if !f.full() {
		return false // what most of the many calls find
	}
	held, least, most, sum := f.held(), f.shards, 0, 0
	for _, p := range among {
		least, most, sum = min(least, held[p]), max(most, held[p]), sum+held[p]
	}
	return sum == f.shards && most <= least+1
}

// settle waits until the shards are settled, and returns how long that took.
func (f *fleet) settle(within time.Duration, among ...*process) time.Duration {
	f.Helper()
	began := time.Now()
	for !f.settled(among...) {
		if time.Since(began) > within {
			held := make(map[string]int)
			for p, n := range f.held() {
				held[p.name] = n
			}
			f.Fatalf("not settled after %v: %v", within, held)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

// moved returns how many shards have another holder than before.
func (f *fleet) moved(before map[int]*process) int {
	n := 0
	for s, p := range f.owners() {
		if before[s] != p {
			n++
		}
	}
	return n
}

func (f *fleet) startAll(n int, opts ...partition.Option) []*process {
	f.Helper()
	var all []*process
	for range n {
		all = append(all, f.start(opts...))
	}
	f.settle(5*time.Second, all...)
	time.Sleep(2 * time.Second) // until holders watch their own entries
	synctest.Wait()
	return all
}

// observe observes the members on a client whose network is good, and returns a
// function that stops that and returns the sorted names that it has seen last.
func (f *fleet) observe() (stop func() []string) {
	f.Helper()
	c, err := coordinator.New(f.svc.Driver())
	if err != nil {
		f.Fatal(err)
	}
	g, err := group.New(c, "partition/jobs")
	if err != nil {
		f.Fatal(err)
	}
	var names []string
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for members, err := range g.Observe(ctx) {
			if err != nil {
				return
			}
			names = nil
			for _, m := range members {
				names = append(names, m.Identity)
			}
		}
	}()
	return func() []string {
		cancel()
		<-done
		if err := c.Close(f.Context()); err != nil {
			f.Errorf("close: %v", err)
		}
		slices.Sort(names)
		return names
	}
}

// refusing is a service without space for records.
type refusing struct {
	driver.Driver
	on *atomic.Bool
}

func (d refusing) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, ttl)
	return refusingSession{s, d.on}, err
}

type refusingSession struct {
	driver.Session
	on *atomic.Bool
}

func (s refusingSession) SetRecord(
	ctx context.Context, q driver.Queue, value []byte, known driver.Version,
) (driver.Version, error) {
	if s.on.Load() {
		return 0, driver.Wrap(driver.ErrRefused, errors.New("no space"))
	}
	return s.Session.SetRecord(ctx, q, value, known)
}
