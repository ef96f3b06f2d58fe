package integration_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/recipes"
)

// replica is a Run of a client of its own.
type replica struct {
	e    *election.Election
	stop context.CancelFunc
}

// TestElectionAsOperatorsNeedIt: errors of work, progress, transfers,
// priorities and observers, once on each service. Two replicas never work.
func TestElectionAsOperatorsNeedIt(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	eachOne(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		var mu sync.Mutex
		var works string // the replica whose work runs
		var running sync.WaitGroup
		var failed sync.Once
		watcher := newElection(t, s.client(t, ttl), name)
		queued := func(identity string) {
			t.Helper()
			await.Until(t, identity+" to be a candidate", func() bool {
				all, err := watcher.Candidates(within(t, 10*time.Second))
				return err == nil && slices.ContainsFunc(all,
					func(c recipes.Contender) bool { return c.Identity == identity })
			})
		}
		start := func(identity string, opts ...election.RunOption) replica {
			e, err := election.New(s.client(t, ttl), name, election.WithIdentity(identity))
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			r := replica{e, stop}
			running.Go(func() {
				_ = r.e.Run(ctx, func(ctx context.Context, term *election.Term) (err error) {
					mu.Lock()
					if works != "" {
						t.Errorf("%s works while %s does", identity, works)
					}
					works = identity
					mu.Unlock()
					failed.Do(func() { err = errors.New("the first work fails") })
					if err == nil {
						<-ctx.Done()
					}
					mu.Lock()
					defer mu.Unlock()
					works = ""
					return err
				}, append(opts, election.WithSettle(time.Second))...)
			})
			queued(identity)
			return r
		}
		leads := func(identity string) {
			t.Helper()
			await.Until(t, identity+" to lead", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return works == identity
			})
		}
		a := start("a", election.WithPriority(0))
		leads("a") // in its second term
		var shown sync.Map
		watching, stop := context.WithCancel(t.Context())
		running.Go(func() {
			for leader, err := range watcher.Observe(watching) {
				if err == nil {
					shown.Store(leader.Identity, leader.Stale)
				}
			}
		})
		b := start("b")
		c := start("c")
		if err := a.e.Current().TransferTo(within(t, 10*time.Second), "c"); err != nil {
			t.Fatal(err)
		}
		leads("c")
		if c.e.Current() == nil || a.e.Current() != nil {
			t.Error("Current of the old leader, or of the new one")
		}
		for _, to := range []string{"b", "a"} { // by a process that is no candidate
			queued(to)
			if err := watcher.Transfer(within(t, 20*time.Second), to); err != nil {
				t.Fatal(err)
			}
			leads(to)
		}
		d := start("d", election.WithPriority(7), election.WithProgress(5*time.Second))
		leads("d")
		await.Until(t, "the observer to be shown d", func() bool { _, ok := shown.Load("d"); return ok })
		// It reports no progress, so another one leads.
		await.Until(t, "the stalled leader to be succeeded", func() bool { return d.e.Current() == nil })
		stop()
		for _, r := range []replica{a, b, c, d} {
			r.stop()
		}
		running.Wait()
	})
}
