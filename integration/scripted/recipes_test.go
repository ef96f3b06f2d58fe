package scripted_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/ways"
	"github.com/baton-go/baton/recipes/barrier"
	"github.com/baton-go/baton/recipes/group"
	"github.com/baton-go/baton/recipes/partition"
	"github.com/baton-go/baton/rwlock"
)

// There is always a reader that reads. A writer waits for those queued before
// it, and those behind it wait for the writer.
func TestWriterIsNotStarvedByAStreamOfReaders(t *testing.T) {
	each(t, func(w *world) {
		ctx, stop := context.WithCancel(w.Context())
		var mu sync.Mutex
		reading, writer := 0, coordinator.Token(0)
		var all sync.WaitGroup
		for i := range 4 {
			c := w.client()
			all.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				for ctx.Err() == nil {
					h, err := ways.Read.Ask(ctx, c.Client, "a")
					if err != nil {
						return
					}
					mu.Lock()
					if reading++; writer != 0 && h.Token > writer {
						w.Errorf("reader %d overtook writer %d", h.Token, writer)
					}
					mu.Unlock()
					time.Sleep(40 * time.Millisecond)
					mu.Lock()
					reading--
					mu.Unlock()
					w.must("release", h.Release(w.Context()), nil)
				}
			})
		}
		c := w.client()
		for range 5 {
			time.Sleep(300 * time.Millisecond)
			began := time.Now()
			p := c.start(ctx, ways.Write, "a")
			for !p.over() {
				for _, e := range w.queued(ways.Write, "a") {
					if strings.HasPrefix(e.Mode, "w") {
						mu.Lock()
						writer = e.Token
						mu.Unlock()
					}
				}
				time.Sleep(5 * time.Millisecond)
			}
			h := p.granted()
			mu.Lock()
			if writer = 0; reading != 0 {
				w.Errorf("%d readers hold beside the writer", reading)
			}
			mu.Unlock()
			if took := h.at.Sub(began); took > time.Second {
				w.Errorf("the writer waited for %v", took)
			}
			w.release(h)
		}
		stop()
		all.Wait()
	})
}

// A writer keeps its token when it becomes a reader, which admits the readers
// behind it and no writer. If the reply is lost, and then the session, the
// reader learns it before a writer is admitted.
func TestDowngradeAdmitsReadersAndNoWriter(t *testing.T) {
	each(t, func(w *world) {
		for _, lost := range []bool{false, true} {
			c, other, name := w.client(), w.client(), fmt.Sprint("a", lost)
			l, err := rwlock.New(c.Client, name)
			w.ok(err)
			write, err := l.Lock(w.Context())
			w.ok(err)
			reader, writer := other.begin(ways.Read, name, 2), other.begin(ways.Write, name, 3)
			read, err := l.RLock(write.Context())
			w.ok(err)
			if settle(); reader.over() || read.Token() != write.Token() {
				w.Errorf("beside the writer: token %d, another reader %v", read.Token(), reader.over())
			}
			if lost {
				c.link.HoldReplies()
				ctx, cancel := context.WithTimeout(w.Context(), time.Second)
				if err := write.Unlock(ctx); !coordinator.MayHaveApplied(err) {
					w.Errorf("the Unlock whose reply is held: %v", err)
				}
				cancel()
				c.link.HoldRequests()
			} else {
				w.ok(write.Unlock(w.Context()))
			}
			w.release(reader.granted())
			if _, err := l.Lock(read.Context()); !errors.Is(err, rwlock.ErrUpgrade) {
				w.Errorf("an upgrade: %v", err)
			}
			if settle(); writer.over() {
				w.Error("a writer beside the reader")
			}
			h := w.held(ways.Hold{Token: read.Token(), Context: read.Context(), Err: read.Err})
			if !lost {
				w.ok(read.Unlock(w.Context()))
			}
			w.succeeds(ways.Read, h, writer.granted())
			c.link.Heal() // held requests may still arrive, and have no effect
			if settle(); lost {
				w.must("Unlock of the lost reader", read.Unlock(w.Context()), coordinator.ErrSessionLost)
			}
			if w.holds(ways.Write, name, 1); writer.hold.Err() != nil {
				w.Errorf("the next writer's hold ended: %v", writer.hold.Err())
			}
		}
	})
}

// The first waiter does not depend on the holder directly ahead of it.
func TestAnyPermitHoldersReleaseAdmitsTheFirstWaiter(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		for leaver := range ways.Permits {
			name := fmt.Sprint("a", leaver)
			var all []hold
			for range ways.Permits {
				all = append(all, c.take(ways.Permit, name))
			}
			first, second := other.begin(ways.Permit, name, ways.Permits+1), c.begin(ways.Permit, name, ways.Permits+2)
			settle()
			w.release(all[leaver])
			if h := first.granted(); second.over() {
				w.Errorf("leaver %d: one permit was released and two were granted", leaver)
			} else {
				w.release(h)
			}
			w.release(second.granted())
		}
	})
}

// run leads with Run, and appends its terms to all.
func (w *world) run(ctx context.Context, c *client, mu *sync.Mutex, all *[]hold) (ended chan error) {
	w.Helper()
	e, err := election.New(c.Client, "a")
	w.ok(err)
	ended = make(chan error, 1)
	go func() {
		ended <- e.Run(ctx, func(ctx context.Context, term *election.Term) error {
			h := w.held(ways.Hold{Token: term.Token(), Context: ctx, Err: term.Err})
			mu.Lock()
			*all = append(*all, h)
			mu.Unlock()
			<-ctx.Done()
			return nil
		})
	}()
	return ended
}

// A leader is cut off, then the service is away for longer than a TTL: each
// time the work ends before the next term begins, and Run leads again.
func TestRunEndsItsWorkBeforeTheNextLeads(t *testing.T) {
	each(t, func(w *world) {
		ctx, stop := context.WithCancel(w.Context())
		var mu sync.Mutex
		var terms []hold
		a, b := w.client(), w.client()
		first := w.run(ctx, a, &mu, &terms)
		settle()
		second := w.run(ctx, b, &mu, &terms)
		settle()
		a.link.Cut()
		time.Sleep(ttl + late)
		a.link.Heal()
		settle()
		w.holds(ways.Term, "a", 2) // the first one campaigns again
		w.Stop()
		time.Sleep(ttl + late)
		w.Start()
		time.Sleep(2*ttl + late) // the old entries have gone
		stop()
		for _, ended := range []chan error{first, second} {
			w.must("Run", <-ended, context.Canceled)
		}
		synctest.Wait()
		if len(terms) != 3 {
			w.Fatalf("%d terms", len(terms))
		}
		for i := range terms[1:] {
			w.mu.Lock()
			if end := *terms[i].ended; end.IsZero() || end.After(terms[i+1].at) || terms[i+1].Token <= terms[i].Token {
				w.Errorf("term %d ended at %v, term %d began at %v", terms[i].Token, end, terms[i+1].Token, terms[i+1].at)
			}
			w.mu.Unlock()
		}
	})
}

// The request to resign or its reply is lost, or no answer comes in time.
func TestResignFinishesDespiteNetworkFaults(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		e, err := election.New(c.Client, "a")
		w.ok(err)
		last := coordinator.Token(0)
		for what, breaks := range map[string]func(){
			"reply lost":     func() { w.once(c, leaves, memory.Fate{DropReply: true}) },
			"request lost":   func() { w.once(c, leaves, memory.Fate{DropRequest: true}) },
			"nothing passes": c.link.HoldRequests,
		} {
			term, err := e.Campaign(w.Context(), nil)
			w.ok(err)
			if term.Token() <= last {
				w.Errorf("%s: term %d after %d", what, term.Token(), last)
			}
			last = term.Token()
			breaks()
			ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
			err = term.Resign(ctx)
			if late := what == "nothing passes"; late != errors.Is(err, context.DeadlineExceeded) || late != coordinator.MayHaveApplied(err) {
				w.Errorf("%s: Resign = %v", what, err)
			}
			w.must("second Resign", term.Resign(ctx), coordinator.ErrNotHeld)
			cancel()
			c.link.Heal()
			settle()
			w.holds(ways.Term, "a", 0)
		}
		w.release(other.take(ways.Term, "a"))
	})
}

// While the observer is cut off, or has no connection, the leader proclaims,
// resigns and is succeeded, and etcd compacts those revisions.
func TestObserverSurvivesReconnectAndCompaction(t *testing.T) {
	each(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		far, near := w.client(coordinator.WithTTL(6*ttl)), w.client()
		observer, err := election.New(far.Client, "a")
		w.ok(err)
		e, err := election.New(near.Client, "a")
		w.ok(err)
		term, err := e.Campaign(ctx, []byte("first"))
		w.ok(err)
		var mu sync.Mutex
		last, newest := "", coordinator.Token(0)
		go func() {
			for l, err := range observer.Observe(ctx) {
				mu.Lock()
				if err == nil && l.Token != 0 && l.Token < newest {
					w.Errorf("term %d is shown after %d", l.Token, newest)
				}
				last, newest = string(l.Payload), max(newest, l.Token)
				mu.Unlock()
			}
		}()
		sees := func(want string) {
			w.Helper()
			settle()
			mu.Lock()
			defer mu.Unlock()
			if last != want {
				w.Errorf("it sees %q, want %q", last, want)
			}
		}
		sees("first")
		for i, away := range []func(){far.link.Cut, func() { far.link.Cut(); far.link.Reset() }} {
			away()
			for n := range 5 {
				w.ok(term.Proclaim(ctx, fmt.Appendf(nil, "proclaimed %d", n)))
			}
			w.ok(term.Resign(ctx))
			if term, err = e.Campaign(ctx, fmt.Appendf(nil, "next %d", i)); err != nil {
				w.Fatal(err)
			}
			w.compact()
			settle()
			far.link.Heal()
			sees(fmt.Sprint("next ", i))
			w.ok(term.Proclaim(ctx, []byte("changed")))
			sees("changed")
		}
	})
}

func (w *world) compact() {
	w.Helper()
	if s, ok := w.Service.(interface{ Compact() error }); ok {
		w.ok(s.Compact())
	}
}

// A barrier holds back other clients until it is removed, also when the client
// that set it has closed, and those that it held back pass although it is set
// again at once.
func TestBarrierHoldsBackOtherClients(t *testing.T) {
	each(t, func(w *world) {
		open := func(c *client) *barrier.Barrier {
			b, err := barrier.New(c.Client, "a")
			w.ok(err)
			return b
		}
		var all []*barrier.Barrier
		for range 5 {
			all = append(all, open(w.client()))
			w.ok(all[len(all)-1].Wait(w.Context())) // before the first Set
		}
		setter, remover := w.client(), open(w.client())
		w.ok(open(setter).Set(w.Context()))
		w.ok(setter.Close(w.Context()))
		for range 3 {
			passed := make(chan error, len(all))
			for _, b := range all {
				go func() { passed <- b.Wait(w.Context()) }()
			}
			if settle(); len(passed) > 0 {
				w.Errorf("%d passed a closed barrier", len(passed))
			}
			w.ok(remover.Remove(w.Context()))
			w.ok(remover.Set(w.Context()))
			if settle(); len(passed) != len(all) {
				w.Errorf("%d of %d passed", len(passed), len(all))
			}
		}
	})
}

// Members are observed as they join, change, leave and crash. A member that is
// cut off learns it before the group shows its end, and before another has its
// shards. When its network is back it has a share again, and one that runs is
// listed again.
func TestMembersAreObserved(t *testing.T) {
	each(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		var mu sync.Mutex
		var seen []string
		open := func(c *client) *group.Group {
			g, err := group.New(c.Client, "a")
			w.ok(err)
			return g
		}
		watched := open(w.client())
		go func() {
			for members, err := range watched.Observe(ctx) {
				if err == nil {
					var values []string
					for _, m := range members {
						values = append(values, string(m.Value))
					}
					mu.Lock()
					seen = slices.Sorted(slices.Values(values))
					mu.Unlock()
				}
			}
		}()
		sees := func(want ...string) {
			w.Helper()
			settle()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(seen, want) {
				w.Errorf("it sees %v, want %v", seen, want)
			}
		}
		m, err := open(w.client()).Join(ctx, []byte("a"))
		w.ok(err)
		sees("a")
		var others []*client
		var last *group.Member
		for range 3 {
			c := w.client()
			others = append(others, c)
			last, err = open(c).Join(ctx, []byte("z"))
			w.ok(err)
		}
		sees("a", "z", "z", "z")
		w.ok(m.Update(ctx, []byte("b")))
		sees("b", "z", "z", "z")
		w.ok(m.Leave(ctx))
		sees("z", "z", "z")
		for _, c := range others {
			c.link.Cut()
		}
		w.ok(watched.AwaitLeave(ctx, last.Token()))
		if err := last.Err(); !errors.Is(err, coordinator.ErrSessionLost) {
			w.Errorf("the member was not told before the group showed its end: %v", err)
		}
		sees()
		stays := w.client()
		run := make(chan error, 1)
		go func() { run <- open(stays).Run(ctx, []byte("stays"), nil) }()
		sees("stays")
		stays.link.Cut()
		time.Sleep(2*ttl + late)
		sees()
		stays.link.Heal()
		time.Sleep(ttl + late)
		sees("stays")
		cancel()
		if err := <-run; !errors.Is(err, context.Canceled) {
			w.Errorf("Run: %v", err)
		}
		settle()
		if all, err := watched.Members(w.Context()); err != nil || len(all) > 0 {
			w.Errorf("after Run: %+v, %v", all, err)
		}
	})
}

func TestPartitionedMemberLosesItsShardsInTime(t *testing.T) {
	each(t, func(w *world) {
		const shards = 8
		far, near := w.client(), w.client()
		var mu sync.Mutex
		holders, by := map[int]context.Context{}, map[int]*client{}
		ctx, stop := context.WithCancel(w.Context())
		var all sync.WaitGroup
		for _, c := range []*client{far, near} {
			p, err := partition.New(c.Client, "a", shards)
			w.ok(err)
			all.Go(func() {
				_ = p.Run(ctx, func(ctx context.Context, s *partition.Shard) error {
					shard := s.Number()
					mu.Lock()
					if before := holders[shard]; before != nil && before.Err() == nil {
						w.Errorf("shard %d has two holders", shard)
					}
					holders[shard], by[shard] = ctx, c
					mu.Unlock()
					<-ctx.Done()
					return nil
				})
			})
		}
		share := func(c *client, want int) {
			w.Helper()
			time.Sleep(2*ttl + late)
			mu.Lock()
			defer mu.Unlock()
			n := 0
			for shard, ctx := range holders {
				if by[shard] == c && ctx.Err() == nil {
					n++
				}
			}
			if n != want {
				w.Errorf("%d shards, want %d", n, want)
			}
		}
		share(far, shards/2)
		far.link.Cut()
		share(near, shards)
		far.link.Heal()
		share(far, shards/2)
		share(near, shards/2)
		stop()
		all.Wait()
	})
}

// A writer wants what a reader or a writer holds: they learn it, and give way.
func TestHoldersLearnThatTheyAreWanted(t *testing.T) {
	each(t, func(w *world) {
		c, other := w.client(), w.client()
		l, err := rwlock.New(c.Client, "a")
		w.ok(err)
		for _, do := range []func(context.Context, func(context.Context, *rwlock.Lock) error) error{l.RDo, l.Do} {
			w.ok(do(w.Context(), func(ctx context.Context, lock *rwlock.Lock) error {
				wanted := make(chan error, 1)
				go func() { wanted <- lock.Wanted(ctx) }()
				if settle(); len(wanted) > 0 {
					w.Error("it is told so, and nobody waits")
				}
				next := other.begin(ways.Write, "a", 2)
				if settle(); len(wanted) == 0 || <-wanted != nil || next.over() {
					w.Errorf("a writer waits: told %v, granted beside a holder: %v", len(wanted) > 0, next.over())
				}
				w.ok(lock.Unlock(ctx))
				w.release(next.granted())
				return nil
			}))
		}
	})
}
