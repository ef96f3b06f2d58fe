package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/netns"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/stall"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/mutex"
)

// The kinds of outages. An outage affects all members of the service, unless
// its name says otherwise.
type outageKind string

const (
	outSilent  outageKind = "silent"                         // all packets of clients are swallowed
	outDark    outageKind = "silent, also between members"   // so that they elect a leader afterwards
	outRefused outageKind = "refused"                        // clients' connections are reset and refused
	outKilled  outageKind = "leader killed"                  // and started again at the end
	outStopped outageKind = "leader stopped"                 // SIGSTOP; SIGCONT at the end
	outRolling outageKind = "rolling restart of all members" // killed and started, one after the other
	outLoss    outageKind = "packet loss of 20 %"
)

// outageSite is a service on hosts of its own.
type outageSite struct {
	*ensemble
	t       *testing.T
	name    string // etcd, etcd-3, zookeeper, zookeeper-3
	network *netns.Network
	hosts   []int
	ttl     time.Duration
	load    *workload // nil if nothing contends beside the holders
}

// ticksPerTTL relates ZooKeeper's tick to the TTL: 1 s at a TTL of 10 s.
const ticksPerTTL = 10

// newOutageSite starts a service of some nodes on hosts of the network, from
// the host first on, with settings for sessions of a TTL.
func newOutageSite(t *testing.T, network *netns.Network, first, nodes int, service string, ttl time.Duration) *outageSite {
	t.Helper()
	s := &outageSite{t: t, name: service, network: network, ttl: ttl}
	if nodes > 1 {
		s.name = fmt.Sprintf("%s-%d", service, nodes)
	}
	for i := range nodes {
		s.hosts = append(s.hosts, first+i)
	}
	hosts := network.Hosts()[first : first+nodes]
	wrap := func(node int, cmd *exec.Cmd) { network.Wrap(first+node, cmd) }
	if service == "etcd" {
		// etcd's own timing: the tests' elections are shorter.
		s.ensemble = ownEtcd(t, etcdserver.Options{Nodes: nodes, Hosts: hosts, Wrap: wrap, Args: []string{
			"--heartbeat-interval=100", "--election-timeout=1000",
		}})
	} else {
		s.ensemble = ownZooKeeper(t, zkserver.Options{
			Nodes: nodes, Hosts: hosts, Wrap: wrap, TickTime: ttl / ticksPerTTL,
			// In about one of 25 elections ZooKeeper 3.8.0's new leader refuses
			// a follower's acknowledgement ("NEWLEADER ACK from sid … is from a
			// different epoch") and waits for initLimit ticks until the next
			// election. No session of this TTL can survive 20 ticks.
			Config: []string{"initLimit=4"},
		})
	}
	return s
}

// clientURL tells the client ZooKeeper's tick.
func (s *outageSite) clientURL(ttl time.Duration) string {
	url := s.url(ttl)
	if s.zk != nil {
		url += fmt.Sprintf("&tick=%v", s.ttl/ticksPerTTL)
	}
	return url
}

func (s *outageSite) open(ttl time.Duration) *coordinator.Client {
	s.t.Helper()
	c, err := coordinator.Open(s.clientURL(ttl), silent)
	if err != nil {
		s.t.Fatal(err)
	}
	closeAtEnd(s.t, c)
	return c
}

// outage is one outage, and the number of clients that hold a lock each.
type outage struct {
	kind    outageKind
	lasts   time.Duration
	holders int
}

func (o outage) String() string {
	return fmt.Sprintf("%s, %v", o.kind, o.lasts.Round(time.Millisecond))
}

// outcome is what happened to the holders.
type outcome struct {
	outage
	lasted time.Duration // until the last server was started or reached again
	kept   int
	// given has the holds that the service gave away while their clients
	// reported them as kept.
	given []string
	// first is when the first hold was lost, from the begin of the outage.
	first time.Duration
	// stood is for how long this process was stopped, from the begin of the
	// outage until all holds were renewed or lost.
	stood time.Duration
}

func (o outcome) all() bool { return o.kept == o.holders }

func (o outcome) String() string { return fmt.Sprintf("%v: %s", o.outage, o.text()) }

// text says it without the outage.
func (o outcome) text() string {
	text := fmt.Sprintf("kept %d of %d", o.kept, o.holders)
	if !o.all() {
		text += fmt.Sprintf(", the first was lost after %v", o.first.Round(time.Millisecond))
	}
	if o.lasted > o.lasts+200*time.Millisecond { // a server took time to start
		text += fmt.Sprintf("; over after %v", o.lasted.Round(time.Millisecond))
	}
	if o.stood > 0 {
		text += fmt.Sprintf("; this process stood still for %v", o.stood.Round(time.Millisecond))
	}
	return text
}

// outageHolder is a client with a session, which holds a lock of its own.
type outageHolder struct {
	t      testing.TB
	name   string
	client *coordinator.Client
	lock   *mutex.Lock

	mu   sync.Mutex
	lost time.Time
}

// suffer makes holders, lets the outage happen at a random phase of their
// renewals, and counts the holds that are kept.
func (s *outageSite) suffer(o outage, r *rand.Rand) outcome {
	s.t.Helper()
	holders := s.takeAll(o.holders, r)
	defer closeAll(holders)
	await.For(s.t.Context(), random(r, s.ttl/4, s.ttl/2)) // everyone has sent a renewal
	for _, h := range holders {
		if err := h.lock.Err(); err != nil {
			s.t.Fatalf("lost before the outage: %v", err)
		}
	}
	still := watchStalls()
	defer still.End()
	began := time.Now()
	s.strike(o)
	return s.assess(o, holders, began, still)
}

// assess determines what happened to the holders.
func (s *outageSite) assess(o outage, holders []*outageHolder, began time.Time, still *stall.Record) outcome {
	s.t.Helper()
	result := outcome{outage: o, lasted: time.Since(began)}
	awaitRenewals(holders)
	result.stood = still.Between(began, time.Now())
	s.count(&result, holders, began)
	if len(result.given) > 0 {
		s.t.Errorf("%s: holds that were reported as kept, and whose entries are not the first: %s", s.name, strings.Join(result.given, ", "))
	}
	return result
}

// takeAll opens the clients at random moments of a quarter of the TTL, so that
// they renew at different moments.
func (s *outageSite) takeAll(n int, r *rand.Rand) []*outageHolder {
	s.t.Helper()
	holders, errs := make([]*outageHolder, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range holders {
		h := &outageHolder{t: s.t, name: servers.Name(s.t)}
		holders[i] = h
		moment := random(r, 0, s.ttl/4)
		wg.Go(func() {
			await.For(s.t.Context(), moment)
			errs[i] = h.take(s.clientURL(s.ttl))
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		closeAll(holders)
		s.t.Fatal(err)
	}
	return holders
}

func (h *outageHolder) take(url string) error {
	ctx, cancel := context.WithDeadline(context.Background(), await.Hang(h.t))
	defer cancel()
	var err error
	if h.client, err = coordinator.Open(url, silent); err != nil {
		return err
	}
	m, err := mutex.New(h.client, h.name)
	if err != nil {
		return err
	}
	if h.lock, err = m.Lock(ctx); err != nil {
		return err
	}
	context.AfterFunc(h.lock.Context(), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.lost = time.Now()
	})
	return nil
}

func closeAll(holders []*outageHolder) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, h := range holders {
		if h.client != nil {
			wg.Go(func() { _ = h.client.Close(ctx) }) // an open session ends by itself
		}
	}
	wg.Wait()
}

func random(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// strike begins an outage and ends it.
func (s *outageSite) strike(o outage) {
	s.t.Helper()
	switch o.kind {
	case outSilent:
		s.interrupt(s.network.Hide, o.lasts)
	case outDark:
		s.interrupt(s.network.Swallow, o.lasts)
	case outRefused:
		s.interrupt(s.network.Refuse, o.lasts)
	case outLoss:
		s.interrupt(func(hosts ...int) { s.network.Lose(20, hosts...) }, o.lasts)
	case outKilled:
		leader := s.leader(s.t)
		s.members[leader].Kill()
		await.For(s.t.Context(), o.lasts)
		s.progress("without its leader")
		s.start(s.t, leader)
	case outStopped:
		leader := s.leader(s.t)
		s.pause(s.t, leader)
		await.For(s.t.Context(), o.lasts)
		s.resume(s.t, leader)
	case outRolling:
		for i := range s.members {
			s.members[i].Kill()
			s.progress("without a member")
			s.start(s.t, i)
			s.progress("with all members")
		}
	}
}

// interrupt applies a fault of the network to all members.
func (s *outageSite) interrupt(fault func(hosts ...int), lasts time.Duration) {
	fault(s.hosts...)
	await.For(s.t.Context(), lasts)
	s.network.Restore(s.hosts...)
}

// progress waits until locks are granted again, if any are contended for: an
// operator waits, too, before the next member is restarted.
func (s *outageSite) progress(what string) {
	s.t.Helper()
	if s.load != nil {
		s.load.progresses(what)
	}
}

// awaitRenewals waits until each hold was renewed after the outage, or is lost:
// its own deadline ends it.
func awaitRenewals(holders []*outageHolder) {
	before := make([]time.Time, len(holders))
	for i, h := range holders {
		before[i] = h.lock.Deadline()
	}
	for i, h := range holders {
		for h.lock.Err() == nil && !h.lock.Deadline().After(before[i]) {
			await.For(h.lock.Context(), 5*time.Millisecond)
		}
	}
}

// count counts the holds that are kept, and compares them with the queues.
func (s *outageSite) count(result *outcome, holders []*outageHolder, began time.Time) {
	s.t.Helper()
	probe := s.open(longTTL) // after the outage: with a new connection
	defer func() { _ = probe.Close(context.Background()) }()
	for _, h := range holders {
		// In this order: a hold that is reported as kept after the queue was
		// read must have been in it.
		there, err := h.isFirst(probe)
		if err != nil {
			s.t.Errorf("%v: the queue of %s: %v", result.outage, h.name, err)
		}
		if h.lock.Err() == nil {
			result.kept++
			if err == nil && !there {
				result.given = append(result.given, h.name)
			}
			continue
		}
		<-h.lock.Context().Done()
		await.Until(s.t, "the loss is recorded", func() bool { return !h.lostAt().IsZero() })
		if after := h.lostAt().Sub(began); result.first == 0 || after < result.first {
			result.first = after
		}
	}
}

func (h *outageHolder) lostAt() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// isFirst reports whether the hold's entry is the first in its queue.
func (h *outageHolder) isFirst(probe *coordinator.Client) (bool, error) {
	ctx, cancel := context.WithDeadline(context.Background(), await.Hang(h.t))
	defer cancel()
	m, err := mutex.New(probe, h.name)
	if err != nil {
		return false, err
	}
	list, err := m.Contenders(ctx)
	if err != nil {
		return false, err
	}
	return len(list) > 0 && list[0].Token == h.lock.Token(), nil
}

// mostOutage is the length of a silent outage or refusal that all holds
// survive at any phase of their renewals, at the default TTL, when ZooKeeper's
// tick is known.
func (s *outageSite) mostOutage() time.Duration {
	if s.etcd != nil {
		return s.ttl * 75 / 100
	}
	return s.ttl * 55 / 100
}

// mustSurvive repeats an outage until all holds survive it. A machine that is
// busy at the wrong moment costs a hold, so one failure shows nothing; no
// attempt may give a kept hold away.
func (s *outageSite) mustSurvive(o outage, r *rand.Rand) {
	s.t.Helper()
	const attempts = 3
	for range attempts {
		result := s.suffer(o, r)
		s.t.Logf("%s, TTL %v: %v", s.name, s.ttl, result)
		if result.all() {
			return
		}
	}
	s.t.Errorf("%s, TTL %v: not all holds survived in any of %d attempts: %v", s.name, s.ttl, attempts, o)
}

// failOver repeats a fault of the servers under load, with the same holders. It
// replaces those that lost their locks.
func (s *outageSite) failOver(kind outageKind, n, rounds int, r *rand.Rand) (all []outcome) {
	s.t.Helper()
	holders := s.takeAll(n, r)
	defer func() { closeAll(holders) }()
	s.load = s.workload(s.t, 3, s.ttl)
	defer func() { s.load.finish(); s.load = nil }()
	still := watchStalls()
	defer still.End()
	for range rounds {
		s.progress("before the fault")
		await.For(s.t.Context(), random(r, 0, s.ttl/4))
		began, away := time.Now(), s.leaderless(s.t)
		s.strike(outage{kind: kind, holders: n})
		result := s.assess(outage{kind: kind, holders: n, lasts: away()}, holders, began, still)
		s.t.Logf("%s, TTL %v, by the time without a leader: %v", s.name, s.ttl, result)
		all = append(all, result)
		holders = s.replace(holders, r)
	}
	return all
}

// replace closes the clients that lost their locks, and opens others.
func (s *outageSite) replace(holders []*outageHolder, r *rand.Rand) []*outageHolder {
	s.t.Helper()
	var kept, lost []*outageHolder
	for _, h := range holders {
		if h.lock.Err() == nil {
			kept = append(kept, h)
		} else {
			lost = append(lost, h)
		}
	}
	closeAll(lost)
	return append(kept, s.takeAll(len(lost), r)...)
}

// eachOutageSite runs a test on one node of each service in parallel.
func eachOutageSite(t *testing.T, network *netns.Network, nodes int, ttl time.Duration, test func(s *outageSite, r *rand.Rand)) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	t.Run(fmt.Sprint(nodes), func(t *testing.T) {
		for i, service := range []string{"etcd", "zookeeper"} {
			t.Run(service, func(t *testing.T) {
				t.Parallel()
				test(newOutageSite(t, network, i*nodes, nodes, service, ttl), rand.New(rand.NewPCG(seed, uint64(i))))
			})
		}
	})
}

// All packets are swallowed, at a random phase of the renewals of many clients.
// make test-all tests other kinds of outages, and make outages finds the
// longest of each kind.
func TestHoldsSurviveASilentOutageOfMostOfTheTTL(t *testing.T) {
	t.Parallel()
	if !netns.Enter(t) {
		return
	}
	network := netns.New(t, 3)
	network.CanFilter()
	if q, requested := requestedOutages(t); requested {
		q.measure(t, network, netns.Outside())
		return
	}
	eachOutageSite(t, network, 1, 6*time.Second, func(s *outageSite, r *rand.Rand) {
		// To connect again takes a larger part of a short TTL.
		s.mustSurvive(outage{outSilent, s.mostOutage() * 9 / 10, 20}, r)
	})
}
