package partition_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/partition"
)

// TestMembersJoinLeaveAndDie: the shards are spread evenly, move little, and
// settle in time.
func TestMembersJoinLeaveAndDie(t *testing.T) {
	run(t, 64, func(f *fleet) {
		all := f.startAll(8)
		before := f.owners()
		all = append(all, f.start())
		f.settle(2*time.Second, all...)
		if n := f.moved(before); n != 7 { // 64/9
			t.Errorf("a join moved %d shards", n)
		}
		if f.gap > 100*time.Millisecond {
			t.Errorf("a shard was free for %v during a join", f.gap)
		}

		before = f.owners()
		theirs := f.held()[all[2]]
		all[2].cancel()
		all = slices.Delete(all, 2, 3)
		f.settle(2*time.Second, all...)
		if n := f.moved(before); n != theirs {
			t.Errorf("a leave moved %d shards of %d", n, theirs)
		}
		if f.gap > 100*time.Millisecond {
			t.Errorf("a shard was free for %v during a leave", f.gap)
		}

		before = f.owners()
		theirs = f.held()[all[4]]
		all[4].link.Cut()
		all = slices.Delete(all, 4, 5)
		f.settle(ttl+2*time.Second, all...)
		if n := f.moved(before); n != theirs {
			t.Errorf("a death moved %d shards of %d", n, theirs)
		}
	})
}

// TestRollingRestart: no shard is long without a holder.
func TestRollingRestart(t *testing.T) {
	run(t, 64, func(f *fleet) {
		all := f.startAll(8)
		for i := range all {
			all[i].cancel()
			<-all[i].done
			all[i] = f.start()
			f.settle(2*time.Second, all...)
		}
		if f.gap > 100*time.Millisecond {
			t.Errorf("a shard was free for %v", f.gap)
		}
	})
}

// TestRestartOfAllAtOnce: all leave at the same time, and others join.
func TestRestartOfAllAtOnce(t *testing.T) {
	run(t, 16, func(f *fleet) {
		for _, p := range f.startAll(4) {
			p.cancel()
		}
		f.startAll(4)
	})
}

// TestDeathWakesTheAffectedAndOneMore counts the clients that are notified of
// anything when a member dies: one if it had no shard, and else that and those
// that take its shards.
func TestDeathWakesTheAffectedAndOneMore(t *testing.T) {
	run(t, 4, func(f *fleet) {
		all := f.startAll(16)
		for _, holds := range []int{0, 1} {
			before := f.owners()
			i := slices.IndexFunc(all, func(p *process) bool { return f.held()[p] == holds })
			victim := all[i]
			all = slices.Delete(all, i, i+1)
			stats := make(map[*process]memory.Stats)
			for _, p := range all {
				stats[p] = p.link.Stats()
			}
			victim.link.Cut()
			time.Sleep(ttl + 2*time.Second)
			f.settle(0, all...)
			woken := 0
			for _, p := range all {
				if p.link.Stats().Since(stats[p]).Wakeups > 0 {
					woken++
				}
			}
			if moved := f.moved(before); moved != holds || woken > moved+1 || woken == 0 {
				t.Errorf("a member with %d shards died: %d moved, %d members woken", holds, moved, woken)
			}
		}
	})
}

// TestMemberIsCheap: entries, watches and requests of 8 members with 8 shards
// each, as docs/requests.md says.
func TestMemberIsCheap(t *testing.T) {
	run(t, 64, func(f *fleet) {
		all := f.startAll(8)
		before := make(map[*process]memory.Stats)
		for _, p := range all {
			before[p] = p.link.Stats()
			if s := before[p]; s.Entries != 1+8 || s.Watches != 2+s.Entries {
				t.Errorf("%s has %d entries and %d watches", p.name, s.Entries, s.Watches)
			}
		}
		time.Sleep(time.Minute)
		for _, p := range all {
			since := p.link.Stats().Since(before[p])
			if delete(since.Requests, memory.OpRenew); since.Total() > 0 {
				t.Errorf("%s sends %v while nothing happens", p.name, since.Requests)
			}
		}
		whole := f.svc.Stats()
		before[all[3]] = all[3].link.Stats()
		all[3].cancel()
		<-all[3].done
		f.settle(2*time.Second, slices.Delete(slices.Clone(all), 3, 4)...)
		synctest.Wait()
		since := f.svc.Stats().Since(whole)
		delete(since.Requests, memory.OpRenew)
		own := all[3].link.Stats().Since(before[all[3]])
		delete(own.Requests, memory.OpRenew)
		t.Logf("a leave: %d requests of the leaver, %v; %d of all, %v",
			own.Total(), own.Requests, since.Total(), since.Requests)
		// Of the leaver: plan (read, list, 7 × 2 signals, write), 8 releases,
		// and leaving the group.
		if own.Total() > 3+14+8+1 || since.Total() > own.Total()+50 {
			t.Errorf("a leave: %d requests of the leaver, %d of all", own.Total(), since.Total())
		}
	})
}

// TestWeightsAndLimits: a member of weight 3 has three times the shards of one
// of weight 1; one that takes at most two has two.
func TestWeightsAndLimits(t *testing.T) {
	run(t, 22, func(f *fleet) {
		one, three := f.start(), f.start(partition.WithWeight(3))
		two := f.start(partition.WithMaxShards(2), partition.WithWeight(10))
		none := f.start(partition.WithMaxShards(0))
		time.Sleep(2 * time.Second)
		held := f.held()
		if held[one] != 5 || held[three] != 15 || held[two] != 2 || held[none] != 0 {
			t.Errorf("%d, %d, %d and %d shards", held[one], held[three], held[two], held[none])
		}
		one.cancel()
		three.cancel()
		time.Sleep(2 * time.Second)
		if len(f.owners()) != 2 || f.held()[two] != 2 {
			t.Errorf("%d shards have holders, %d of them the limited", len(f.owners()), f.held()[two])
		}
	})
}

// TestAssignmentsAreThePlan of the members that are alive.
func TestAssignmentsAreThePlan(t *testing.T) {
	run(t, 6, func(f *fleet) {
		all := f.startAll(2)
		owners := f.owners()
		got, err := all[0].p.Assignments(f.Context())
		if err != nil || len(got) != 6 {
			t.Fatal(got, err)
		}
		for i, a := range got {
			if a.Shard != i || a.Identity != owners[i].name || a.Member <= 0 {
				t.Errorf("%+v, held by %s", a, owners[i].name)
			}
		}
		all[0].cancel()
		all[1].cancel()
		<-all[0].done
		<-all[1].done
		got, err = all[0].p.Assignments(f.Context())
		if want := (partition.Assignment{Shard: 3}); err != nil || got[3] != want {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestShardIsDrainedBeforeItMoves: the next holder begins when the work has
// returned. The cause of the first end is ErrMoved.
func TestShardIsDrainedBeforeItMoves(t *testing.T) {
	run(t, 2, func(f *fleet) {
		var busy, moves atomic.Int32
		slow := func(ctx context.Context, _ int, _ coordinator.Token) error {
			if busy.Add(1) > 2 {
				t.Error("a shard is worked on twice")
			}
			<-ctx.Done()
			switch cause := context.Cause(ctx); {
			case errors.Is(cause, partition.ErrMoved):
				moves.Add(1)
			case !errors.Is(cause, context.Canceled):
				t.Errorf("work ended with %v", cause)
			}
			time.Sleep(5 * time.Second)
			busy.Add(-1)
			return nil
		}
		one := f.startWith(2, slow)
		f.settle(time.Second, one)
		two := f.startWith(2, slow)
		f.settle(6*time.Second, one, two)
		one.cancel()
		f.settle(6*time.Second, two)
		if f.gap > 100*time.Millisecond {
			t.Errorf("a shard was free for %v", f.gap)
		}
		<-one.done
		if n := moves.Load(); n != 1 {
			t.Errorf("%d contexts ended because of a move", n)
		}
		if !errors.Is(one.err, context.Canceled) || errors.Is(one.err, partition.ErrOverrun) {
			t.Errorf("Run: %v", one.err)
		}
	})
}

// TestLeaverHandsOverEachShardWhenItsWorkReturns, and not all after the last.
func TestLeaverHandsOverEachShardWhenItsWorkReturns(t *testing.T) {
	run(t, 2, func(f *fleet) {
		one := f.startWith(2, func(ctx context.Context, shard int, _ coordinator.Token) error {
			<-ctx.Done()
			time.Sleep(time.Duration(shard) * 5 * time.Second)
			return nil
		}, partition.WithWeight(partition.MaxWeight))
		f.settle(time.Second, one)
		two := f.start()
		time.Sleep(time.Second)
		one.cancel()
		time.Sleep(time.Second)
		if owners := f.owners(); owners[0] != two || owners[1] != nil {
			t.Errorf("held by %v", owners)
		}
		f.settle(5*time.Second, two)
	})
}

// TestDeathWhileItsWatcherLeaves: a member that drains its work does not plan
// any more, so another must notice the death.
func TestDeathWhileItsWatcherLeaves(t *testing.T) {
	run(t, 3, func(f *fleet) {
		one := f.start()
		f.settle(time.Second, one)
		two := f.startWith(3, func(ctx context.Context, _ int, _ coordinator.Token) error {
			<-ctx.Done()
			time.Sleep(50 * time.Second)
			return nil
		}, partition.WithDrain(time.Minute))
		f.settle(time.Second, one, two)
		three := f.start()
		f.settle(time.Second, one, two, three)
		time.Sleep(2 * time.Second)
		two.cancel()
		one.link.Cut()
		time.Sleep(ttl + 2*time.Second)
		if n := f.held()[three]; n != 2 {
			t.Errorf("the third member holds %d shards, want its own and that of the dead", n)
		}
		<-two.done
		f.settle(time.Second, three)
	})
}

// TestRemovedMemberJoinsAgain: an operator removes its entry in the group.
func TestRemovedMemberJoinsAgain(t *testing.T) {
	run(t, 8, func(f *fleet) {
		all := f.startAll(3)
		if !f.svc.Remove(members, f.svc.Snapshot(members)[1].Key) {
			t.Fatal("no member")
		}
		time.Sleep(time.Second)
		f.settle(0, all...)
		if n := len(f.svc.Snapshot(members)); n != 3 {
			t.Errorf("%d members", n)
		}
	})
}

// TestMembersWorkOnWithoutANewPlan: while the service refuses to write, members
// keep their shards, and the shards of the dead are free; then they settle.
func TestMembersWorkOnWithoutANewPlan(t *testing.T) {
	run(t, 9, func(f *fleet) {
		var reported atomic.Int32
		all := f.startAll(3, partition.WithOnError(func(err error) {
			if !errors.Is(err, coordinator.ErrRefused) {
				t.Errorf("reported %v", err)
			}
			reported.Add(1)
		}))
		f.refuse.Store(true)
		all[1].cancel()
		<-all[1].done
		rest := []*process{all[0], all[2]}
		late := f.start() // cannot join
		time.Sleep(time.Minute)
		held := f.held()
		if held[all[0]] != 3 || held[all[2]] != 3 || held[late] != 0 {
			t.Errorf("%d, %d and %d shards", held[all[0]], held[all[2]], held[late])
		}
		if n := reported.Load(); n < 3 || n > 20 {
			t.Errorf("%d errors in a minute", n)
		}
		f.refuse.Store(false)
		f.settle(20*time.Second, append(rest, late)...)
	})
}

// TestOverrunEndsRun: work that does not return is left behind, the shards
// move, and Run says so.
func TestOverrunEndsRun(t *testing.T) {
	run(t, 2, func(f *fleet) {
		stuck := make(chan struct{})
		free := sync.OnceFunc(func() { close(stuck) })
		defer free()
		one := f.startWith(2, func(context.Context, int, coordinator.Token) error {
			<-stuck
			return nil
		}, partition.WithDrain(3*time.Second))
		f.settle(time.Second, one)
		began := time.Now()
		two := f.start()
		<-one.done
		// the shard that moves, and then the other
		if took := time.Since(began); took < 6*time.Second || took > 7*time.Second {
			t.Errorf("returned after %v", took)
		}
		if !errors.Is(one.err, partition.ErrOverrun) || !strings.Contains(one.err.Error(), "within 3s") {
			t.Errorf("Run: %v", one.err)
		}
		f.settle(time.Second, two)
		free()
	})
}

// TestWorkThatReturnsIsCalledAgain with the same token, after pauses; errors
// are reported.
func TestWorkThatReturnsIsCalledAgain(t *testing.T) {
	run(t, 1, func(f *fleet) {
		var calls, errs atomic.Int32
		broken := errors.New("broken")
		one := f.startWith(1, func(_ context.Context, _ int, token coordinator.Token) error {
			if n := calls.Add(1); n%2 == 0 {
				return broken
			}
			return nil
		}, partition.WithOnError(func(err error) {
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), "shard 0") {
				t.Errorf("reported %v", err)
			}
			errs.Add(1)
		}))
		time.Sleep(time.Minute)
		if n := calls.Load(); n < 9 || n > 16 { // 0.1, 0.2, …, 6.4, 10 s ± 50 %
			t.Errorf("%d calls in a minute", n)
		}
		if e := errs.Load(); e != calls.Load()/2 {
			t.Errorf("%d errors of %d calls", e, calls.Load())
		}
		if n := one.link.Stats().Requests[memory.OpJoin]; n != 2 { // the group and the shard
			t.Errorf("%d joins", n)
		}
	})
}

// TestShardThatIsLostAgainAndAgain is acquired again after growing pauses.
func TestShardThatIsLostAgainAndAgain(t *testing.T) {
	const shard = driver.Queue("partition-shard/jobs%2F0")
	run(t, 1, func(f *fleet) {
		var reported atomic.Int32
		one := f.start(partition.WithOnError(func(err error) {
			if !errors.Is(err, coordinator.ErrRemoved) || !strings.Contains(err.Error(), "shard 0") {
				t.Errorf("reported %v", err)
			}
			reported.Add(1)
		}))
		for range 60 * 100 { // a minute
			for _, e := range f.svc.Snapshot(shard) {
				f.svc.Remove(shard, e.Key)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := one.link.Stats().Requests[memory.OpJoin] - 1; n < 9 || n > 16 { // as for work that returns
			t.Errorf("%d joins in a minute, %d errors", n, reported.Load())
		}
		f.settle(20*time.Second, one)
	})
}

// TestLostSessionIsReplaced: the contexts end with the loss, and the process
// joins again as another member.
func TestLostSessionIsReplaced(t *testing.T) {
	run(t, 8, func(f *fleet) {
		all := f.startAll(2, partition.WithOnError(func(err error) {
			if !errors.Is(err, coordinator.ErrSessionLost) {
				t.Errorf("reported %v", err)
			}
		}))
		before, err := all[1].p.Assignments(f.Context())
		if err != nil {
			t.Fatal(err)
		}
		f.expire(all[0])
		time.Sleep(time.Second)
		f.settle(0, all...)
		after, err := all[1].p.Assignments(f.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range after {
			if before[i].Identity == all[0].name && after[i].Member == before[i].Member {
				t.Errorf("shard %d is still assigned to %+v", i, after[i])
			}
		}
	})
}

// TestAnotherNumberOfShardsIsRefused, and disturbs nobody.
func TestAnotherNumberOfShardsIsRefused(t *testing.T) {
	run(t, 4, func(f *fleet) {
		all := f.startAll(2)
		wrong := f.startWith(5, func(context.Context, int, coordinator.Token) error { return nil })
		<-wrong.done
		if !errors.Is(wrong.err, coordinator.ErrInvalid) ||
			!strings.Contains(wrong.err.Error(), "5 shards; its members have 4") {
			t.Errorf("Run: %v", wrong.err)
		}
		all = append(all, f.start())
		f.settle(time.Second, all...)
		for _, p := range all {
			p.cancel()
			<-p.done
		}
		f.shards = 5
		f.startAll(1) // all members of the other number have left
	})
}

// TestDeletedPlanIsReplaced with the next change, and a foreign one reported.
func TestDeletedPlanIsReplaced(t *testing.T) {
	run(t, 8, func(f *fleet) {
		all := f.startAll(3)
		if !f.svc.RemoveRecord("partition/jobs") {
			t.Fatal("no plan")
		}
		all = append(all, f.start())
		f.settle(2*time.Second, all...)
	})
	run(t, 8, func(f *fleet) { // the seats of those that are left are the highest
		all := f.startAll(6)
		for _, p := range all[:3] {
			p.cancel()
			<-p.done
		}
		all = all[3:]
		f.settle(2*time.Second, all...)
		time.Sleep(2 * time.Second)
		if !f.svc.RemoveRecord("partition/jobs") {
			t.Fatal("no plan")
		}
		all = append(all, f.start())
		f.settle(2*time.Second, all...)
		all[0].link.Cut() // the others know whom to watch
		f.settle(ttl+2*time.Second, all[1:]...)
	})
	run(t, 12, func(f *fleet) { // the record of the last seat is refused at first
		all := f.startAll(2)
		var refused atomic.Bool
		f.svc.OnRequest(func(r memory.Request) memory.Fate {
			if r.Op != memory.OpSetRecord || r.Queue != "partition-signal/jobs%2F2" || refused.Swap(true) {
				return memory.Fate{}
			}
			return memory.Fate{Err: driver.ErrRefused}
		})
		all = append(all, f.start())
		f.settle(2*time.Second, all...)
		time.Sleep(2 * time.Second)
		f.svc.OnRequest(nil)
		if !refused.Load() || !f.svc.RemoveRecord("partition/jobs") {
			t.Fatal("no refusal, or no plan")
		}
		all = append(all, f.start())
		f.settle(2*time.Second, all...)
	})
	run(t, 8, func(f *fleet) {
		s, err := f.svc.Driver().Open(f.Context(), ttl)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.SetRecord(f.Context(), "partition/jobs", []byte("not a plan"), 0); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(f.Context()); err != nil {
			t.Fatal(err)
		}
		p := f.start()
		<-p.done
		if !errors.Is(p.err, coordinator.ErrInvalid) || !strings.Contains(p.err.Error(), `"not a plan"`) {
			t.Errorf("Run: %v", p.err)
		}
	})
}

// TestMembersWorkOnWithAForeignPlan: they keep their shards while the plan
// makes no sense, and settle after an operator has deleted it.
func TestMembersWorkOnWithAForeignPlan(t *testing.T) {
	run(t, 9, func(f *fleet) {
		all := f.startAll(3, partition.WithOnError(func(err error) {
			if !strings.Contains(err.Error(), `"garbage"`) && !errors.Is(err, coordinator.ErrSessionLost) {
				t.Errorf("reported %v", err)
			}
		}))
		s, err := f.svc.Driver().Open(f.Context(), ttl)
		if err != nil {
			t.Fatal(err)
		}
		const record = "partition/jobs"
		if _, err := s.SetRecord(f.Context(), record, []byte("garbage"), f.svc.Record(record).Version); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(f.Context()); err != nil {
			t.Fatal(err)
		}
		late := f.start()
		<-late.done
		if !errors.Is(late.err, coordinator.ErrInvalid) {
			t.Errorf("Run: %v", late.err)
		}
		all[1].link.Cut()
		time.Sleep(time.Minute)
		if held := f.held(); held[all[0]] != 3 || held[all[2]] != 3 {
			t.Errorf("%d and %d shards", held[all[0]], held[all[2]])
		}
		f.svc.RemoveRecord(record)
		f.settle(20*time.Second, all[0], all[2])
	})
}

// TestPlanOfAnotherPartitionCrashesNobody: they keep their shards if another
// program writes a plan of more shards with their tokens.
func TestPlanOfAnotherPartitionCrashesNobody(t *testing.T) {
	run(t, 9, func(f *fleet) {
		var reported atomic.Bool
		all := f.startAll(3, partition.WithOnError(func(err error) {
			reported.CompareAndSwap(false, strings.Contains(err.Error(), "9 shards; its members have 100"))
		}))
		const record = "partition/jobs"
		now := f.svc.Record(record)
		var forged map[string]any
		if err := json.Unmarshal(now.Value, &forged); err != nil {
			t.Fatal(err)
		}
		assigned, err := all[0].p.Assignments(f.Context())
		if err != nil {
			t.Fatal(err)
		}
		tokens := make(map[string]float64) // as in JSON
		for _, a := range assigned {
			tokens[a.Identity] = float64(a.Member)
		}
		forged["shards"] = 100
		forged["members"] = slices.DeleteFunc(forged["members"].([]any), func(m any) bool {
			return m.(map[string]any)["token"] == tokens[all[2].name] // which dies
		})
		for i, m := range forged["members"].([]any) {
			m.(map[string]any)["holds"] = []int{90 + i}
		}
		value, err := json.Marshal(forged)
		if err != nil {
			t.Fatal(err)
		}
		s, err := f.svc.Driver().Open(f.Context(), ttl)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.SetRecord(f.Context(), record, value, now.Version); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(f.Context()); err != nil {
			t.Fatal(err)
		}
		all[2].link.Cut()
		time.Sleep(time.Minute)
		if held := f.held(); held[all[0]] != 3 || held[all[1]] != 3 || !reported.Load() {
			t.Errorf("%d and %d shards; reported: %v", held[all[0]], held[all[1]], reported.Load())
		}
		f.svc.RemoveRecord(record)
		f.settle(20*time.Second, all[0], all[1])
	})
}

// TestInputIsChecked: the errors name the value and the rule.
func TestInputIsChecked(t *testing.T) {
	run(t, 1, func(f *fleet) {
		p := f.start()
		made := func(shards int, opts ...partition.Option) error {
			_, err := partition.New(p.client, "jobs", shards, opts...)
			return err
		}
		_, noClient := partition.New(nil, "jobs", 1)
		_, noName := partition.New(p.client, "", 1)
		_, long := partition.New(p.client, strings.Repeat("a", 250), 1)
		for what, err := range map[string]error{
			"nil client":          noClient,
			"name is empty":       noName,
			"at most 255":         long,
			"0 shards":            made(0),
			"1025 shards":         made(1025),
			"nil option":          made(1, nil),
			"weight 0":            made(1, partition.WithWeight(0)),
			"weight 1001":         made(1, partition.WithWeight(1001)),
			"at most -1 shards":   made(1, partition.WithMaxShards(-1)),
			"drain of 0s":         made(1, partition.WithDrain(0)),
			"settling for -1s":    made(1, partition.WithSettle(-time.Second)),
			"settling for 30ns":   made(1, partition.WithSettle(30)),
			"function for errors": made(1, partition.WithOnError(nil)),
			"nil work":            p.p.Run(f.Context(), nil),
		} {
			if !errors.Is(err, coordinator.ErrInvalid) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// TestWriterDiesAtAnyStep: a member that joins or leaves loses its connection
// after any number of milliseconds, so in each of its steps. The others settle.
func TestWriterDiesAtAnyStep(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		for ms := range time.Duration(60) {
			run(t, 12, func(f *fleet) {
				all := f.startAll(3)
				victim := all[0]
				if leaves {
					all = all[1:]
					victim.cancel()
				} else {
					victim = f.start()
				}
				time.Sleep(ms * time.Millisecond)
				victim.link.Cut()
				f.settle(ttl+2*time.Second, all...)
				time.Sleep(ttl + 2*time.Second) // the dead member may not be known yet
				f.settle(0, all...)
			})
		}
	}
}

// TestPartitionUnderFaults: random members join, leave, are cut off, lose their
// session or their connection, and are slow, drain long or settle; the plan is
// deleted; in every other world their servers are behind. When the faults are
// over, the shards settle, and an observer of the group has seen the members.
// BATON_SEEDS is the number of worlds.
func TestPartitionUnderFaults(t *testing.T) {
	seeds := uint64(30)
	if s := os.Getenv("BATON_SEEDS"); s != "" {
		var err error
		if seeds, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			run(t, 24, func(f *fleet) {
				if seed%2 == 1 {
					f.past = remember(f.svc, seed)
				}
				faults(f, rand.New(rand.NewPCG(seed, 1)))
			}, memory.WithFewHints(seed), memory.WithStaleViews(seed))
		})
	}
}

func faults(f *fleet, r *rand.Rand) {
	var alive []*process
	seen := f.observe()
	for range 40 {
		if len(alive) < 3 || len(alive) < 8 && r.IntN(3) == 0 {
			drain := time.Duration(r.IntN(3)) * time.Duration(r.IntN(4000)) * time.Millisecond
			alive = append(alive, f.startWith(f.shards, func(ctx context.Context, _ int, _ coordinator.Token) error {
				<-ctx.Done()
				time.Sleep(drain)
				return nil
			}, partition.WithSettle(time.Duration(max(0, r.IntN(4000)-2000))*time.Millisecond)))
		}
		i := r.IntN(len(alive))
		p := alive[i]
		switch r.IntN(9) {
		case 8:
			if r.IntN(4) == 0 {
				f.svc.RemoveRecord("partition/jobs")
			}
		case 0:
			p.cancel()
			alive = slices.Delete(alive, i, i+1)
		case 1:
			p.link.Cut()
		case 2:
			p.link.HoldReplies()
		case 3:
			p.link.HoldRequests()
		case 4:
			p.link.Reset()
		case 5:
			f.expire(p)
		case 6:
			p.link.Delay(time.Duration(r.IntN(200))*time.Millisecond, time.Duration(r.IntN(200))*time.Millisecond)
		case 7:
			p.link.Strand()
			p.link.Deliver()
		}
		time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
		if r.IntN(3) == 0 {
			f.all[r.IntN(len(f.all))].link.Heal()
		}
	}
	for _, p := range f.all {
		p.link.Heal()
		p.link.Delay(time.Millisecond, time.Millisecond)
	}
	// After crashes, settling for 2 s may take 16 × 2 s for the first shard.
	f.settle((30+15*2)*time.Second, alive...)
	time.Sleep(30 * time.Second)
	f.settle(0, alive...)
	var names []string
	for _, p := range alive {
		names = append(names, p.name)
	}
	slices.Sort(names)
	if got := seen(); !slices.Equal(got, names) {
		f.Errorf("an observer has seen %v last, want %v", got, names)
	}
}

// TestRunReturnsWhileTheServiceIsAway: the end of its context bounds it, also
// while it plans.
func TestRunReturnsWhileTheServiceIsAway(t *testing.T) {
	for _, planning := range []bool{false, true} {
		run(t, 4, func(f *fleet) {
			all := f.startAll(2)
			if planning {
				all[0].cancel() // then the other plans
				time.Sleep(time.Millisecond)
			}
			all[1].link.Cut()
			time.Sleep(time.Second)
			began := time.Now()
			all[1].cancel()
			<-all[1].done
			if took := time.Since(began); took > 4*time.Second+100*time.Millisecond {
				t.Errorf("returned after %v", took)
			}
			if !errors.Is(all[1].err, context.Canceled) {
				t.Errorf("Run: %v", all[1].err)
			}
		})
	}
}
