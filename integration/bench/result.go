package bench

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	curatorjava "github.com/baton-go/baton/integration/internal/curator"
)

// Result has all figures of one run.
type Result struct {
	Machine Machine `json:"machine"`
	Peers   string  `json:"peers"` // with their versions, if known
	// Complete reports that all cases ran at full size.
	Complete bool              `json:"complete"`
	Rounds   int               `json:"rounds"`
	Took     time.Duration     `json:"took_ns"`
	Servers  map[string]string `json:"servers"` // version by place
	Cases    []CaseResult      `json:"cases"`
	Waiters  []WaitersResult   `json:"waiters"`
	Idle     []IdleResult      `json:"idle,omitempty"`
	Kept     []KeptResult      `json:"kept,omitempty"`
}

// Machine describes the machine of the run.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Go    string `json:"go"`
}

func newResult(o Options) *Result {
	return &Result{
		Peers: peers(), Rounds: o.Rounds, Complete: o.Divide <= 1 && o.Rounds >= 5 && o.Cases == nil && o.Subjects == nil,
		Machine: Machine{CPU: cpuModel(), Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()},
		Servers: map[string]string{},
	}
}

// peers returns the versions of the other libraries.
func peers() string {
	all := []string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			switch m.Path {
			case "go.etcd.io/etcd/client/v3":
				all = append(all, "etcd's concurrency "+m.Version)
			case "github.com/go-zookeeper/zk":
				all = append(all, "go-zookeeper "+m.Version)
			}
		}
	}
	// One of the names of Debian's jar contains the version.
	if found, _ := filepath.Glob(filepath.Join(curatorjava.Jars, "curator-recipes-*.jar")); len(found) > 0 {
		all = append(all, strings.TrimSuffix(strings.Replace(filepath.Base(found[0]), "curator-recipes-", "Curator ", 1), ".jar"))
	}
	return strings.Join(all, ", ")
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// figure returns the time of a sample that counts: for a single contender the
// median, which a brief load of the machine does not change; for several
// contenders the whole time divided by the grants, which includes all waiting.
func (r *CaseResult) figure(s Sample) float64 {
	if r.Form == string(pairs) {
		return s.P50
	}
	return s.Time
}

// judge computes medians and ratios.
func (r *CaseResult) judge() {
	for i := range r.Subjects {
		r.Subjects[i].Median = medianSample(r.Subjects[i].Rounds)
	}
	floor, peer := r.best(Floor), r.best(Peer)
	for i := range r.Subjects {
		s := &r.Subjects[i]
		if floor != nil {
			s.OverFloor = r.ratio(s.Rounds, floor.Rounds)
		}
		if s.comparable() && peer != nil {
			s.PeerOver = r.ratio(peer.Rounds, s.Rounds)
		}
	}
}

// comparable reports whether the peers have the same recipe. Baton's other
// recipes are compared only with the floor.
func (s *SubjectResult) comparable() bool {
	return s.Name == "Baton mutex" || s.Name == "Baton semaphore"
}

// best returns the fastest subject with a role, or nil.
func (r *CaseResult) best(role Role) *SubjectResult {
	var best *SubjectResult
	for i := range r.Subjects {
		if s := &r.Subjects[i]; s.Role == role && (best == nil || r.figure(s.Median) < r.figure(best.Median)) {
			best = s
		}
	}
	return best
}

// ratio returns the median of the ratios of the rounds. If one of the two took
// part in few rounds, each of these is compared with all rounds of the other
// until the next.
func (r *CaseResult) ratio(of, to []Sample) float64 {
	few := of
	if len(to) < len(of) {
		few = to
	}
	var all []float64
	for i, s := range few {
		next := math.MaxInt
		if i+1 < len(few) {
			next = few[i+1].Round
		}
		all = append(all, r.during(of, s.Round, next)/r.during(to, s.Round, next))
	}
	return median(all)
}

// during returns the figure of several rounds, from one until before another.
func (r *CaseResult) during(all []Sample, from, next int) float64 {
	in := slices.DeleteFunc(slices.Clone(all), func(s Sample) bool { return s.Round < from || s.Round >= next })
	if r.Form == string(pairs) {
		return medianSample(in).P50
	}
	return mean(in, func(s Sample) float64 { return s.Time })
}

func medianSample(all []Sample) Sample {
	of := func(f func(Sample) float64) float64 {
		var values []float64
		for _, s := range all {
			values = append(values, f(s))
		}
		return median(values)
	}
	return Sample{
		Turns:      int(of(func(s Sample) float64 { return float64(s.Turns) })),
		Time:       of(func(s Sample) float64 { return s.Time }),
		P50:        of(func(s Sample) float64 { return s.P50 }),
		P99:        of(func(s Sample) float64 { return s.P99 }),
		ServerTime: mean(all, func(s Sample) float64 { return s.ServerTime }),
		ClientTime: mean(all, func(s Sample) float64 { return s.ClientTime }),
		Allocs:     of(func(s Sample) float64 { return s.Allocs }),
		AllocBytes: of(func(s Sample) float64 { return s.AllocBytes }),
	}
}

// mean is over the grants of all rounds. The clock of processor time is too
// coarse for a round, and has no outliers.
func mean(all []Sample, f func(Sample) float64) float64 {
	sum, turns := 0.0, 0
	for _, s := range all {
		sum += f(s) * float64(s.Turns)
		turns += s.Turns
	}
	return sum / max(1, float64(turns))
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}

// line formats the subject on one line, for the progress output.
func (s SubjectResult) line() string {
	m, c := s.Median, s.Counts
	text := fmt.Sprintf("%-24s %8.0f µs  p50 %6.0f p99 %7.0f  %5.2f × floor", s.Name, m.Time/1e3, m.P50/1e3, m.P99/1e3, s.OverFloor)
	if s.PeerOver > 0 {
		text += fmt.Sprintf("  peer %5.2f ×", s.PeerOver)
	} else {
		text += "              "
	}
	return text + fmt.Sprintf("  req %5.2f ev %4.2f in %6.0f out %5.0f  cpu server %5.0f client %5.0f µs  allocs %5.0f  %s (n %d)",
		c.Requests, c.Events, c.In, c.Out, m.ServerTime/1e3, m.ClientTime/1e3, m.Allocs, ops(c.Ops), m.Turns)
}

func ops(all map[string]float64) string {
	var names []string
	for op, n := range all {
		names = append(names, fmt.Sprintf("%s %.2f", op, n))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
