package integration_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/stall"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/mutex"
)

// partitions returns how many holders are cut off on each service:
// BATON_PARTITIONS, or a few. asked reports that it was set; then the figures
// are printed.
func partitions(t *testing.T) (runs int, asked bool) {
	s, asked := os.LookupEnv("BATON_PARTITIONS")
	if !asked || s == "" {
		return 10, false
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 100_000 {
		t.Fatalf("BATON_PARTITIONS=%q is not a number of runs, 1 to 100000", s)
	}
	return n, true
}

// eachTrio runs a test on a cluster of each service, which the test starts.
func eachTrio(t *testing.T, test func(t *testing.T, start func() *ensemble)) {
	t.Helper()
	t.Run("etcd-3", func(t *testing.T) { test(t, func() *ensemble { return ownEtcd(t, etcdserver.Options{Nodes: 3}) }) })
	t.Run("zookeeper-3", func(t *testing.T) { test(t, func() *ensemble { return ownZooKeeper(t, zkserver.Options{Nodes: 3}) }) })
}

// The ways in which a holder is cut off. Packets are lost; no connection is
// reset.
const (
	bothWays    = "both ways"
	onlyUp      = "only up"
	onlyDown    = "only down"
	lateReplies = "late replies, then both ways"
)

// When the network comes back.
const (
	healNever   = "never"
	healAtLoss  = "at the loss"
	healAtGrant = "after the grant"
)

// Faults of the cluster while its holders are cut off.
const (
	faultNone     = "none"
	faultLeader   = "leader killed"
	faultFollower = "follower killed"
)

// cutting describes how one holder is cut off.
type cutting struct {
	way, heal, fault string
	ttl              time.Duration
	delay            time.Duration // of replies, before the cut
	phase            time.Duration // from the start to the cut; renewals are sent every tenth of the TTL
}

// newCutting returns the i-th of a random series in which all ways are equally
// frequent.
func newCutting(r *rand.Rand, i int, fault string) cutting {
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(r.Int64N(int64(to-from))) }
	c := cutting{
		way:   []string{bothWays, onlyUp, onlyDown, lateReplies}[i%4],
		heal:  []string{healNever, healNever, healAtLoss, healAtGrant}[r.IntN(4)],
		fault: fault,
		ttl:   time.Duration(4+r.IntN(3)) * time.Second,
	}
	// In the first quarter of the TTL renewals are answered late. The second
	// quarter covers every phase.
	c.phase = between(c.ttl/4, c.ttl/2)
	if c.way == lateReplies {
		c.delay = between(c.ttl/20, c.ttl/4-c.ttl/50) // a renewal times out after a quarter
	}
	return c
}

func (c cutting) cut(p *netproxy.Proxy) {
	switch c.way {
	case onlyUp:
		p.CutUp()
	case onlyDown:
		p.CutDown()
	default:
		p.Cut()
	}
}

// cutResult is the observation of one holder that was cut off, in times of this
// process's monotonic clock.
type cutResult struct {
	cutting
	// deadline is the hold's own; told: its context ended; gone: the first
	// member reported the removal of its entry to the witness; granted: the
	// next contender's Lock returned.
	cut, deadline, told, gone, granted time.Time
	// Whether the context had ended by then. This is the promise itself, and
	// does not depend on when a goroutine was scheduled to read the clock.
	overAtGone, overAtGrant bool
}

func (r cutResult) late() bool { return !r.overAtGone || !r.overAtGrant }

// measured reports that the holder held when it was cut off.
func (r cutResult) measured() bool { return !r.cut.IsZero() && !r.told.Before(r.cut) }

// batch is a number of concurrent runs on names of their own.
type batch struct {
	*ensemble
	witness    witness
	log        coordinator.Option
	ready, cut sync.WaitGroup // count the runs that have reached this point
}

// TestPartitionedHolderIsNotifiedBeforeTheNextGrant tests promise P2 on real
// servers. Holders are cut off in random phases of their renewals, some while
// the cluster loses a member, some with a network that heals. The context of
// each has ended before the service removes its entry, and so before the next
// grant.
//
// Only a process that was not scheduled may be late, and the log says so. When
// the figures are requested, it may not be late either.
func TestPartitionedHolderIsNotifiedBeforeTheNextGrant(t *testing.T) {
	runs, asked := partitions(t)
	eachTrio(t, func(t *testing.T, start func() *ensemble) {
		if !asked {
			t.Parallel() // one after the other if figures are requested
		}
		seed := rand.Uint64()
		cluster, still := start(), watchStalls()
		results := cutAll(t, cluster, runs, seed, asked)
		still.End()
		text := partitionReport(fmt.Sprintf("%s, three nodes; %d runs, seed %d", cluster.version(), runs, seed), results, still)
		if asked {
			fmt.Println(text)
		} else {
			t.Log("\n" + text)
		}
		judge(t, results, still, asked)
	})
}

// judge fails the test for each holder that was notified late.
func judge(t *testing.T, results []cutResult, still *stall.Record, strict bool) {
	measured := 0
	for _, r := range results {
		if r.measured() {
			measured++
		}
		if !r.late() {
			continue
		}
		stood := still.Between(r.deadline, r.told)
		say := t.Errorf
		if !strict && stood > r.told.Sub(r.deadline)/2 {
			say = t.Logf // P2 excepts a stopped process
		}
		say("LATE: notified %v after its deadline, %v after the entry was gone, %v after the grant; the process stood still for %v of that: %+v",
			r.told.Sub(r.deadline), r.told.Sub(r.gone), r.told.Sub(r.granted), stood, r.cutting)
	}
	if measured < (len(results)+1)/2 {
		t.Errorf("only %d of %d holders still held when they were cut off", measured, len(results))
	}
}

// cutAll cuts holders off in batches.
func cutAll(t *testing.T, cluster *ensemble, runs int, seed uint64, asked bool) []cutResult {
	faults := []string{faultNone, faultLeader, faultNone, faultFollower, faultNone}
	size, log := 5, logTo(t)
	if asked {
		size, log = 20, silent
	}
	w, err := cluster.newWitness()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	r := rand.New(rand.NewPCG(seed, 1))
	var results []cutResult
	for i := 0; len(results) < runs && !t.Failed(); i++ {
		var plan []cutting
		for range min(size, runs-len(results)) {
			plan = append(plan, newCutting(r, len(plan)+len(results), faults[i%len(faults)]))
		}
		b := &batch{ensemble: cluster, witness: w, log: log}
		results = append(results, b.run(t, plan, rand.New(rand.NewPCG(seed, uint64(2+i))))...)
	}
	return results
}

// run runs a plan concurrently, and breaks the cluster, if the plan says so,
// when all holders are cut off.
func (b *batch) run(t *testing.T, plan []cutting, r *rand.Rand) []cutResult {
	ctx := await.Context(t)
	results := make([]cutResult, len(plan))
	b.ready.Add(len(plan))
	b.cut.Add(len(plan))
	var wg sync.WaitGroup
	for i, c := range plan {
		name, endpoints := servers.Name(t), shuffled(r, b.endpoints)
		wg.Go(func() {
			// After a failure the others must not wait for this run.
			ready, cut := sync.OnceFunc(b.ready.Done), sync.OnceFunc(b.cut.Done)
			defer cut()
			defer ready()
			h := &cutHolder{batch: b, name: name, result: cutResult{cutting: c}}
			if err := h.run(ctx, endpoints, ready, cut); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			results[i] = h.result
		})
	}
	killed := b.kill(t, plan[0].fault)
	wg.Wait()
	if killed != none {
		b.start(t, killed)
	}
	return results
}

// none is not a member of an ensemble.
const none = -1

// kill kills a member right after the last cut. It determines the member before
// the cuts, since that takes time.
func (b *batch) kill(t *testing.T, fault string) (victim int) {
	victim = none
	switch fault {
	case faultLeader:
		victim = b.leader(t)
	case faultFollower:
		victim = b.follower(t)
	}
	b.cut.Wait()
	if victim != none {
		b.members[victim].Kill()
	}
	return victim
}

func shuffled(r *rand.Rand, all []string) []string {
	var s []string
	for _, i := range r.Perm(len(all)) {
		s = append(s, all[i])
	}
	return s
}

// open opens a client. The caller closes it.
func (b *batch) open(ttl time.Duration, endpoints ...string) (*coordinator.Client, func(), error) {
	c, err := coordinator.Open(b.url(ttl, endpoints...), b.log)
	if err != nil {
		return nil, nil, err
	}
	return c, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = c.Close(ctx) // its network may be cut
	}, nil
}

// cutHolder is one holder that is cut off, and its waiting successor.
type cutHolder struct {
	*batch
	name   string
	result cutResult

	proxy     *netproxy.Proxy
	client    *coordinator.Client // the holder's
	hold      *mutex.Lock
	next      *mutex.Mutex // of its successor
	bystander *mutex.Lock  // another hold of the successor
	told      chan struct{}
	gone      chan struct{}
}

// successorTTL is long: the successor's session must survive the faults of the
// cluster.
const successorTTL = 20 * time.Second

func (h *cutHolder) run(ctx context.Context, endpoints []string, ready, cut func()) error {
	proxy, err := netproxy.New(endpoints)
	if err != nil {
		return err
	}
	defer proxy.Close()
	client, closeClient, err := h.open(h.result.ttl, proxy.Addr())
	if err != nil {
		return err
	}
	defer closeClient()
	successor, closeSuccessor, err := h.open(successorTTL, endpoints...)
	if err != nil {
		return err
	}
	defer closeSuccessor()
	h.proxy, h.client = proxy, client
	if err := h.take(ctx, successor); err != nil {
		return err
	}
	granted := make(chan error, 1)
	var next *mutex.Lock
	go func() {
		var err error
		next, err = h.next.Lock(ctx)
		h.result.granted, h.result.overAtGrant = time.Now(), over(h.hold)
		granted <- err
	}()
	if err := h.awaitQueue(ctx, 2); errors.Is(err, errNotMeasured) {
		ready()
		cut()
		return h.succeed(ctx, granted, &next)
	} else if err != nil {
		return err
	}
	proxy.Delay(netproxy.Down, h.result.delay)
	ready()
	h.ready.Wait()
	await.For(ctx, h.result.phase)
	h.result.cutting.cut(proxy)
	h.result.cut = time.Now()
	cut()
	return h.succeed(ctx, granted, &next)
}

// take acquires the lock for the holder, and watches its end from both sides.
func (h *cutHolder) take(ctx context.Context, successor *coordinator.Client) error {
	m, err := mutex.New(h.client, h.name)
	if err != nil {
		return err
	}
	if h.hold, err = m.Lock(ctx); err != nil {
		return err
	}
	h.told, h.gone = make(chan struct{}), make(chan struct{})
	context.AfterFunc(h.hold.Context(), func() {
		h.result.told = time.Now()
		close(h.told)
		if h.result.heal == healAtLoss {
			h.proxy.Heal()
		}
	})
	err = h.witness.watch(ctx, h.name, h.hold.Session(), func() {
		h.result.gone, h.result.overAtGone = time.Now(), over(h.hold)
		close(h.gone)
	})
	if err != nil {
		return err
	}
	if h.next, err = mutex.New(successor, h.name); err != nil {
		return err
	}
	other, err := mutex.New(successor, h.name+"-bystander")
	if err != nil {
		return err
	}
	h.bystander, err = other.Lock(ctx)
	return err
}

// over reports whether the hold's context has ended. Err would compare the
// clock, too.
func over(l *mutex.Lock) bool {
	select {
	case <-l.Context().Done():
		return true
	default:
		return false
	}
}

// errNotMeasured: the holder had lost its lock before it was cut off.
var errNotMeasured = errors.New("lost before the cut")

// awaitQueue waits until n contenders are queued.
func (h *cutHolder) awaitQueue(ctx context.Context, n int) error {
	for {
		list, err := h.next.Contenders(ctx)
		if err != nil || len(list) == n {
			return err
		}
		if h.hold.Err() != nil {
			return errNotMeasured
		}
		await.For(ctx, 10*time.Millisecond)
	}
}

// succeed waits for the next holder, and checks the state of the former holder.
func (h *cutHolder) succeed(ctx context.Context, granted <-chan error, next **mutex.Lock) error {
	if err := <-granted; err != nil {
		return fmt.Errorf("the next contender's Lock: %w", err)
	}
	for _, c := range []<-chan struct{}{h.told, h.gone} {
		select {
		case <-c:
		case <-ctx.Done():
			return fmt.Errorf("granted, but after a minute: holder notified %v, witness notified %v", over(h.hold), !h.result.gone.IsZero())
		}
	}
	h.result.deadline = h.hold.Deadline()
	if h.result.heal == healAtGrant {
		h.proxy.Heal()
	}
	err := h.aftermath(ctx, *next)
	return errors.Join(err, (*next).Unlock(ctx), h.bystander.Unlock(ctx))
}

// aftermath checks that the loss is final and that late requests have no effect
// on others.
func (h *cutHolder) aftermath(ctx context.Context, next *mutex.Lock) error {
	if h.result.heal != healNever {
		h.proxy.Delay(netproxy.Down, 0)
		// The held requests were sent before this one, and have arrived when it
		// is answered.
		m, err := mutex.New(h.client, h.name+"-again")
		if err != nil {
			return err
		}
		l, err := m.Lock(ctx)
		if err != nil {
			return fmt.Errorf("the holder's client, its network healed: %w", err)
		}
		if err := l.Unlock(ctx); err != nil {
			return fmt.Errorf("the holder's client, its network healed: %w", err)
		}
	}
	l := h.hold
	if !errors.Is(context.Cause(l.Context()), coordinator.ErrSessionLost) || !errors.Is(l.Err(), coordinator.ErrSessionLost) ||
		!l.Deadline().Equal(h.result.deadline) {
		return fmt.Errorf("the lost lock was revived: deadline moved by %v: %w",
			l.Deadline().Sub(h.result.deadline), cmp.Or(l.Err(), errors.New("no error")))
	}
	unlocking, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := l.Unlock(unlocking); !errors.Is(err, coordinator.ErrSessionLost) {
		return fmt.Errorf("the lost lock was unlocked: %w", cmp.Or(err, errors.New("no error")))
	}
	list, err := h.next.Contenders(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(next.Err(), h.bystander.Err()); err != nil {
		return fmt.Errorf("the next hold ended, or another one of its session: %w", err)
	}
	if len(list) != 1 || list[0].Token != next.Token() {
		return fmt.Errorf("the next holder has token %d, in the queue are %+v", next.Token(), list)
	}
	return nil
}
