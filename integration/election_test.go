package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
)

func init() { proc.Register("elect", electWorker) }

// reign is a report of an electing worker: its work began or ended.
type reign struct {
	Token int64
	Began bool
	At    time.Time
}

// electWorker is one replica of a service with a leader: url, name, marker. The
// marker exists while work runs, so a second leader finds it. When the work has
// to end, it takes a moment to clean up.
func electWorker(ctx context.Context, io *proc.IO, args []string) error {
	c, err := coordinator.Open(args[0], silent)
	if err != nil {
		return err
	}
	e, err := election.New(c, args[1])
	if err != nil {
		return err
	}
	if err := io.Send("ready"); err != nil {
		return err
	}
	err = e.Run(ctx, func(ctx context.Context, t *election.Term) error {
		marker, err := os.OpenFile(args[2], os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return election.Stop(fmt.Errorf("two leaders at once: %w", err))
		}
		_ = marker.Close()
		err = io.Send(reign{Token: int64(t.Token()), Began: true, At: time.Now()})
		<-ctx.Done()
		await.For(context.WithoutCancel(ctx), 50*time.Millisecond)
		err = errors.Join(err, t.Err(), os.Remove(args[2])) // it still leads at the end
		return errors.Join(err, io.Send(reign{Token: int64(t.Token()), At: time.Now()}))
	})
	if !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return c.Close(context.WithoutCancel(ctx))
}

// Five replicas are restarted one after the other, each while it leads. Without
// a handover the gap would be the TTL, of which a slow machine's handover takes
// a small part.
func TestRollingRestartHandsOverWithoutOverlapOrGap(t *testing.T) {
	t.Parallel()
	const ttl, replicas = 30 * time.Second, 5
	each(t, func(t *testing.T, s site) {
		name, marker := servers.Name(t), filepath.Join(t.TempDir(), "leading")
		watcher := newElection(t, s.client(t, ttl), name)
		var mu sync.Mutex
		var all []reign
		var readers sync.WaitGroup
		start := func(n int) *proc.Child {
			w := proc.Start(t, "elect", s.url(ttl), name, marker)
			var ready string
			w.Recv(&ready)
			readers.Go(func() {
				for {
					var r reign
					if err := w.TryRecv(&r, time.Minute); err != nil {
						return
					}
					mu.Lock()
					all = append(all, r)
					mu.Unlock()
				}
			})
			await.Until(t, "the replica to be a candidate", func() bool {
				list, err := watcher.Candidates(within(t, 10*time.Second))
				return err == nil && len(list) == n
			})
			return w
		}
		var fleet []*proc.Child
		for i := range replicas {
			fleet = append(fleet, start(i+1))
		}
		began := func() (n int) {
			mu.Lock()
			defer mu.Unlock()
			for _, r := range all {
				if r.Began {
					n++
				}
			}
			return n
		}
		for i, w := range fleet {
			await.Until(t, "the next leader", func() bool { return began() == i+1 })
			if err := w.Interrupt(); err != nil { // SIGTERM, as an orchestrator sends it
				t.Fatal(err)
			}
			if err := w.Wait(); err != nil {
				t.Fatalf("replica %d ended with %v", i, err)
			}
			fleet[i] = start(replicas)
		}
		await.Until(t, "the first new replica to lead", func() bool { return began() == replicas+1 })
		for _, w := range fleet {
			_ = w.Interrupt()
			_ = w.Wait()
		}
		readers.Wait()
		longest := gaps(t, all)
		t.Logf("%d terms, longest gap %v", began(), longest.Round(time.Millisecond))
		if longest > ttl/2 {
			t.Errorf("a planned gap of %v", longest)
		}
	})
}

// gaps checks that terms do not overlap, and returns the longest time between
// two of them.
func gaps(t *testing.T, all []reign) (longest time.Duration) {
	t.Helper()
	sort.Slice(all, func(i, j int) bool {
		return all[i].Token < all[j].Token || all[i].Token == all[j].Token && all[i].Began && !all[j].Began
	})
	for i := 1; i < len(all); i++ {
		before, r := all[i-1], all[i]
		switch {
		case r.Began == before.Began, !r.Began && r.Token != before.Token:
			t.Fatalf("out of order: %+v after %+v", r, before)
		case !r.Began:
		case r.At.Before(before.At):
			t.Errorf("term %d began %v before the previous one had ended", r.Token, before.At.Sub(r.At))
		default:
			longest = max(longest, r.At.Sub(before.At))
		}
	}
	return longest
}
