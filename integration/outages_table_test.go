package integration_test

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/netns"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
)

// outageRequest is what make outages measures.
type outageRequest struct {
	ttls    []time.Duration
	holders int
	// rounds is how often each failover is counted; 0 for the table.
	rounds int
	only   *regexp.Regexp // of "site/kind"
}

// requestedOutages reads the variables of make outages. Without BATON_OUTAGES,
// the TTLs, nothing is requested.
func requestedOutages(t *testing.T) (q outageRequest, requested bool) {
	t.Helper()
	ttls := os.Getenv("BATON_OUTAGES")
	if ttls == "" {
		return q, false
	}
	for text := range strings.SplitSeq(ttls, ",") {
		ttl, err := time.ParseDuration(text)
		if err != nil || ttl < 4*time.Second || ttl > 30*time.Second {
			t.Fatalf("BATON_OUTAGES=%q has a TTL that is not between 4s and 30s: %q", ttls, text)
		}
		q.ttls = append(q.ttls, ttl)
	}
	number := func(name string, otherwise, least, most int) int {
		text := cmp.Or(os.Getenv(name), strconv.Itoa(otherwise))
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			t.Fatalf("%s=%q is not a number from %d to %d", name, text, least, most)
		}
		return n
	}
	q.holders = number("BATON_OUTAGE_HOLDERS", 60, 1, 1000)
	q.rounds = number("BATON_OUTAGE_ROUNDS", 0, 0, 1000)
	only, err := regexp.Compile(os.Getenv("BATON_OUTAGE_ONLY"))
	if err != nil {
		t.Fatalf("BATON_OUTAGE_ONLY: %v", err)
	}
	q.only = only
	return q, true
}

// outageSites are the services of the table.
var outageSites = []struct {
	service string
	nodes   int
}{{"etcd", 1}, {"etcd", 3}, {"zookeeper", 1}, {"zookeeper", 3}}

// measure prints what holds survive, site by site: only one thing happens at a
// time.
func (q outageRequest) measure(t *testing.T, network *netns.Network, out io.Writer) {
	seed := rand.Uint64()
	fmt.Fprintf(out, "%d holders, seed %d, on %s %s/%s, %d cores\n", q.holders, seed, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	for _, ttl := range q.ttls {
		for i, site := range outageSites {
			t.Run(fmt.Sprintf("%v/%s-%d", ttl, site.service, site.nodes), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				if q.rounds > 0 && site.nodes == 1 {
					return // no failover
				}
				var s *outageSite
				for _, c := range q.cells(site.nodes) {
					if !q.only.MatchString(fmt.Sprintf("%s-%d/%s", site.service, site.nodes, c.what)) {
						continue
					}
					if s == nil {
						s = newOutageSite(t, network, 0, site.nodes, site.service, ttl)
					}
					began := time.Now()
					fmt.Fprintf(out, "TTL %v, %s, %d node(s), %s: %s (%v)\n", ttl, s.version(), site.nodes, c.what, c.measure(s, r), time.Since(began).Round(time.Second))
				}
			})
		}
	}
}

// outageCell is a cell of the table.
type outageCell struct {
	what    string
	measure func(*outageSite, *rand.Rand) string
}

// cells returns the cells of a TTL and a number of nodes.
func (q outageRequest) cells(nodes int) (cells []outageCell) {
	if q.rounds > 0 {
		for _, kind := range []outageKind{outKilled, outRolling} {
			cells = append(cells, outageCell{string(kind), func(s *outageSite, r *rand.Rand) string {
				return failovers(s.failOver(kind, q.holders, q.rounds, r))
			}})
		}
		return cells
	}
	for _, kind := range []outageKind{outSilent, outDark, outRefused, outKilled, outStopped} {
		if kind == outDark && nodes == 1 {
			continue
		}
		cells = append(cells, outageCell{string(kind), func(s *outageSite, r *rand.Rand) string { return s.longest(kind, q.holders, r) }})
	}
	once := func(kind outageKind, lasts func(*outageSite) time.Duration) outageCell {
		return outageCell{string(kind), func(s *outageSite, r *rand.Rand) string {
			away := s.leaderless(s.t)
			o := s.suffer(outage{kind, lasts(s), q.holders}, r)
			return fmt.Sprintf("%s over %v; without a leader for %v", o.text(), o.lasted.Round(100*time.Millisecond), away().Round(10*time.Millisecond))
		}}
	}
	return append(cells,
		once(outRolling, func(*outageSite) time.Duration { return 0 }),
		once(outLoss, func(s *outageSite) time.Duration { return 6 * s.ttl }),
		outageCell{"next grant after a crash", func(s *outageSite, r *rand.Rand) string { return s.crashes(20, r) }})
}

// failovers adds up the rounds of a failover.
func failovers(all []outcome) string {
	lost, holders := 0, 0
	var away []time.Duration
	for _, o := range all {
		lost += o.holders - o.kept
		holders = o.holders
		away = append(away, o.lasts)
	}
	slices.Sort(away)
	return fmt.Sprintf("%d rounds with %d holders: %d holds lost; without a leader for %v in the median, %v at most", len(all), holders, lost,
		percentile(away, 50).Round(10*time.Millisecond), away[len(away)-1].Round(10*time.Millisecond))
}

// The lengths of outages are tried in steps of this part of the TTL. The answer
// is confirmed by further outages of the same length.
const (
	outageStepsPerTTL = 20
	confirmations     = 2
)

// longest finds the longest outage that all holders survive, by bisection. It
// assumes that they survive every shorter one.
func (s *outageSite) longest(kind outageKind, holders int, r *rand.Rand) string {
	s.t.Helper()
	var served time.Duration // until the service was back, in the last outage that all survived
	survive := func(steps int) bool {
		o := s.suffer(outage{kind, s.ttl * time.Duration(steps) / outageStepsPerTTL, holders}, r)
		s.t.Logf("%s, TTL %v: %v", s.name, s.ttl, o)
		if o.all() {
			served = o.lasted
		}
		return o.all()
	}
	const most = 3 * outageStepsPerTTL / 2
	if len(s.hosts) > 1 && (kind == outKilled || kind == outStopped) && survive(most) { // the others go on
		return fmt.Sprintf("%.2f of the TTL or longer", float64(most)/outageStepsPerTTL)
	}
	kept, lost := 0, outageStepsPerTTL // no client can keep its hold for longer
	for lost-kept > 1 {
		if middle := (kept + lost + 1) / 2; survive(middle) {
			kept = middle
		} else {
			lost = middle
		}
	}
	for confirmed := 0; kept > 0 && confirmed < confirmations; confirmed++ {
		if !survive(kept) {
			kept, confirmed = kept-1, -1
		}
	}
	return fmt.Sprintf("%.2f of the TTL; the service was back after %v", float64(kept)/outageStepsPerTTL, served.Round(10*time.Millisecond))
}

// crashes kills n holders at random phases of their renewals, and returns how
// long their successors waited.
func (s *outageSite) crashes(n int, r *rand.Rand) string {
	s.t.Helper()
	type crash struct {
		holder *proc.Child
		got    <-chan grant
		killed time.Time
	}
	all, waiting := make([]crash, n), s.open(longTTL)
	for i := range all {
		name := servers.Name(s.t)
		all[i].holder = proc.Start(s.t, "hold", s.clientURL(s.ttl), name)
		var h held
		all[i].holder.Recv(&h)
		m := newMutex(s.t, waiting, name)
		all[i].got = granted(s.t.Context(), m)
		awaitQueue(s.t, m, 2)
	}
	await.For(s.t.Context(), random(r, s.ttl/4, s.ttl/2))
	for i := range all {
		all[i].killed = time.Now()
		all[i].holder.Kill()
		await.For(s.t.Context(), random(r, 0, s.ttl/20))
	}
	var waits []time.Duration
	for _, c := range all {
		g := <-c.got // the test's context bounds it
		if g.err != nil {
			s.t.Fatal(g.err)
		}
		waits = append(waits, g.at.Sub(c.killed))
		unlock(s.t, g.lock)
	}
	slices.Sort(waits)
	return fmt.Sprintf("%v to %v, %d times", waits[0].Round(10*time.Millisecond), waits[n-1].Round(10*time.Millisecond), n)
}
