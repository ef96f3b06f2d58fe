package partition_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/partition/internal/plan"
)

// longestGap is how long a shard may be without a holder in a planned handover.
const longestGap = 200 * time.Millisecond

// cost returns the requests of all clients since before, except renewals.
func (f *fleet) cost(before memory.Stats) int {
	since := f.svc.Stats().Since(before)
	delete(since.Requests, memory.OpRenew)
	return since.Total()
}

// TestMembersThatLeaveTogether cost requests linear in their number, and hand
// each shard over at once.
func TestMembersThatLeaveTogether(t *testing.T) {
	const stay = 10
	for _, n := range []int{10, 25, 50} {
		run(t, 2*(stay+n), func(f *fleet) {
			all := f.startAll(stay + n)
			leavers, rest := all[:n], all[n:]
			f.gap = 0
			before := f.svc.Stats()
			for i, p := range leavers {
				if p.cancel(); n == 25 && i%5 == 4 { // not all at the same instant
					time.Sleep(3 * time.Millisecond)
				}
			}
			f.settle(ttl, rest...)
			for _, p := range leavers {
				<-p.done
			}
			synctest.Wait()
			if got, most := f.cost(before), 30*(stay+n); got > most {
				t.Errorf("%d leave: %d requests, want at most %d", n, got, most)
			}
			if f.gap > longestGap {
				t.Errorf("%d leave: a shard was free for %v", n, f.gap)
			}
			time.Sleep(2 * time.Second)
			f.settle(0, rest...)
		})
	}
}

// TestHalfOfALargeFleetLeaves: 50 of 100 members, with 10 shards each, at a
// round trip of 1 ms. A request for each shard that is given up, and one for
// each that is taken, are most of the cost.
func TestHalfOfALargeFleetLeaves(t *testing.T) {
	run(t, 1000, func(f *fleet) {
		all := f.startAll(100)
		for _, p := range all {
			p.link.Delay(500*time.Microsecond, 500*time.Microsecond)
		}
		leavers, rest := all[:50], all[50:]
		f.gap = 0
		before := f.svc.Stats()
		for _, p := range leavers {
			p.cancel()
		}
		f.settle(ttl, rest...)
		for _, p := range leavers {
			<-p.done
		}
		synctest.Wait()
		if got, most := f.cost(before), 30*100; got > most {
			t.Errorf("%d requests, want at most %d", got, most)
		}
		if f.gap > longestGap {
			t.Errorf("a shard was free for %v", f.gap)
		}
	})
}

// TestPlannerThatDiesInItsTurn is waited for by the others, which leave at the
// same time, but not for long.
func TestPlannerThatDiesInItsTurn(t *testing.T) {
	for ms := time.Duration(0); ms < 40; ms++ {
		run(t, 18, func(f *fleet) {
			all := f.startAll(9)
			for _, p := range all[:6] {
				p.cancel()
			}
			time.Sleep(ms * time.Millisecond)
			victim := all[int(ms)%6]
			victim.link.Cut()
			time.Sleep(2 * time.Second)
			// for the plan the victim is alive, and has up to a fourth
			if held := f.held(); held[all[6]]+held[all[7]]+held[all[8]] < 18-5 {
				t.Errorf("after %d ms: %d shards have holders", ms, len(f.owners()))
			}
			f.settle(ttl, all[6:]...)
		})
	}
}

// TestMemberThatWaitsForItsTurnFollowsThePlan: two members die, and those that
// plan without them wait for one that does not go on. They take over from each
// other meanwhile, as a plan says.
func TestMemberThatWaitsForItsTurnFollowsThePlan(t *testing.T) {
	run(t, 8, func(f *fleet) {
		var all []*process
		for range 4 {
			all = append(all, f.start()) // one after the other, so that their order is known
			f.settle(time.Second, all...)
		}
		time.Sleep(2 * time.Second)
		const record = "partition/jobs"
		f.svc.AddForeign(record) // the one that does not go on
		const group = "group/partition%2Fjobs"
		members := f.svc.Snapshot(group)
		for _, i := range []int{0, 2} { // both die at the same instant, their holds later
			all[i].link.Cut()
			f.svc.Remove(group, members[i].Key)
		}
		time.Sleep(100 * time.Millisecond)
		if n := len(f.svc.Snapshot(record)); n != 3 {
			t.Fatalf("%d planners wait, want 2 besides the one", n)
		}
		var now plan.Plan
		err := json.Unmarshal(f.svc.Record(record).Value, &now)
		one, two := &now.Members[1], &now.Members[3]
		one.Shards, two.Shards = two.Shards, one.Shards
		now.Number++
		text, _ := json.Marshal(now)
		f.write(record, text, err)
		before := f.owners()
		time.Sleep(100 * time.Millisecond) // the wait is at least half a second
		if n := f.moved(before); n != 4 {
			t.Errorf("%d shards have moved, want 4", n)
		}
		f.settle(2*ttl, all[1], all[3])
		f.svc.Remove(record, f.svc.Snapshot(record)[0].Key)
	})
}

// write writes a record as another program would, if err is nil.
func (f *fleet) write(q driver.Queue, value []byte, err error) {
	f.Helper()
	var s driver.Session
	if err == nil {
		s, err = f.svc.Driver().Open(f.Context(), ttl)
	}
	if err == nil {
		_, err = s.SetRecord(f.Context(), q, value, f.svc.Record(q).Version)
	}
	if err == nil {
		err = s.Close(f.Context())
	}
	if err != nil {
		f.Fatal(err)
	}
}

// TestAllMembersAreReplacedTogether: as many join as leave, at the same time.
func TestAllMembersAreReplacedTogether(t *testing.T) {
	for _, n := range []int{10, 25, 50} {
		run(t, 2*n, func(f *fleet) {
			old := f.startAll(n)
			f.gap = 0
			before := f.svc.Stats()
			var young []*process
			for _, p := range old {
				p.cancel()
				young = append(young, f.start())
			}
			f.settle(ttl, young...)
			for _, p := range old {
				<-p.done
			}
			synctest.Wait()
			if got, most := f.cost(before), 25*2*n; got > most {
				t.Errorf("%d are replaced: %d requests, want at most %d", n, got, most)
			}
			if f.gap > longestGap {
				t.Errorf("%d are replaced: a shard was free for %v", n, f.gap)
			}
		})
	}
}
