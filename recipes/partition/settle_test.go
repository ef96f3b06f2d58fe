package partition_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/recipes/partition"
)

const settle = 30 * time.Second

// fewestHeld returns the smallest number of shards with a holder during d.
func (f *fleet) fewestHeld(d time.Duration) int {
	fewest := f.shards
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		fewest = min(fewest, len(f.owners()))
	}
	return fewest
}

// TestMemberThatCrashesAfterItsStartTakesNoShards, however often it comes back.
func TestMemberThatCrashesAfterItsStartTakesNoShards(t *testing.T) {
	run(t, 32, func(f *fleet) {
		f.startAll(4, partition.WithSettle(settle))
		time.Sleep(2 * settle)
		before := f.owners()
		for range 10 {
			bad := f.start(partition.WithSettle(settle))
			if n := f.fewestHeld(settle - time.Second); n != f.shards {
				t.Errorf("%d of %d shards have holders", n, f.shards)
			}
			bad.link.Cut()
			if n := f.fewestHeld(settle); n != f.shards {
				t.Errorf("%d of %d shards have holders after a crash", n, f.shards)
			}
		}
		if n := f.moved(before); n > 0 {
			t.Errorf("%d shards have moved", n)
		}
	})
}

// TestMemberThatCrashesWhenItWorksTakesOneShardDown at a time.
func TestMemberThatCrashesWhenItWorksTakesOneShardDown(t *testing.T) {
	run(t, 32, func(f *fleet) {
		f.startAll(4, partition.WithSettle(settle))
		time.Sleep(2 * settle)
		for range 5 {
			works := make(chan struct{}, f.shards)
			bad := f.startWith(f.shards, func(ctx context.Context, _ int, _ coordinator.Token) error {
				works <- struct{}{}
				<-ctx.Done()
				return nil
			}, partition.WithSettle(settle))
			<-works
			time.Sleep(time.Second)
			bad.link.Cut()
			if n := f.fewestHeld(settle); n != f.shards-1 {
				t.Errorf("%d of %d shards have holders", n, f.shards)
			}
		}
	})
}

// TestMemberTakesItsShareInSteps: none, 1, 2, 4, and then its share.
func TestMemberTakesItsShareInSteps(t *testing.T) {
	run(t, 32, func(f *fleet) {
		all := f.startAll(4, partition.WithSettle(settle)) // at once, since no member has settled
		time.Sleep(3 * settle)
		late := f.start(partition.WithSettle(settle))
		for _, want := range []int{0, 1, 2, 4, 6, 6, 6} {
			time.Sleep(settle / 2)
			if n := f.held()[late]; n != want || len(f.owners()) != f.shards {
				t.Errorf("%d shards, want %d; %d in all", n, want, len(f.owners()))
			}
			time.Sleep(settle / 2)
		}
		f.settle(0, append(all, late)...)
		if f.gap > longestGap {
			t.Errorf("a shard was free for %v", f.gap)
		}
		for _, p := range all { // those that have not settled take what nobody else takes
			p.cancel()
			<-p.done
		}
		two := f.start(partition.WithSettle(settle))
		time.Sleep(time.Second)
		late.cancel()
		f.settle(time.Second, two)
	})
}

// TestMemberThatCrashesAgainAndAgainCostsTwoTTLs in ten minutes, for each
// shard, however long it lives each time.
func TestMemberThatCrashesAgainAndAgainCostsTwoTTLs(t *testing.T) {
	for _, life := range []time.Duration{5 * time.Second, settle + 5*time.Second, 2*settle + 10*time.Second} {
		run(t, 32, func(f *fleet) {
			all := f.startAll(4, partition.WithSettle(settle))
			time.Sleep(10 * time.Minute)
			const step = 50 * time.Millisecond
			down := make([]time.Duration, f.shards)
			dead := make(map[*process]bool)
			bad, began := all[3], time.Now().Add(-life)
			for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(step) {
				switch since := time.Since(began); {
				case !dead[bad] && since >= life:
					bad.link.Cut() // its work runs on until its context ends, but that does not count
					dead[bad] = true
				case since > life+2*time.Second:
					bad, began = f.start(partition.WithSettle(settle)), time.Now()
				}
				owners := f.owners()
				for s := range down {
					if p := owners[s]; p == nil || dead[p] {
						down[s] += step
					}
				}
			}
			if worst := slices.Max(down); worst > 2*ttl+time.Second {
				t.Errorf("it lives for %v: a shard had no holder for %v", life, worst)
			}
		})
	}
}
