package bench

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// want bounds a subject's requests per grant. Few grants are counted, so single
// requests show: the creation of a parent, a watch of a hold that lasted
// because the machine is slow.
type want struct{ least, most float64 }

func about(n float64) want { return want{n - 0.5, n + 0.9} }

// requests returns the expected requests per grant. Of two contenders often
// only one waits, so their number depends on which is faster.
func requests(c CaseResult, subject string) want {
	if c.Form == string(turns) && c.Contenders == 2 {
		return want{2, 8}
	}
	switch c.Form + " " + subject {
	case "turns bare relay":
		return about(3)
	case "turns Baton mutex":
		return want{2, 6.5}
	case "readers Baton rwlock":
		return want{2, 12} // each change of the queue is read again by those that wait
	case "readers Baton rwlock shared reads":
		return want{0, 3} // the quick run has few reads
	case "permits Baton semaphore":
		return want{2, 9}
	case "turns etcd concurrency.Mutex":
		return about(6)
	case "turns go-zookeeper Lock", "turns Curator InterProcessMutex":
		return about(5)
	case "names Baton mutex":
		return want{2, 3.1}
	case "fleet Baton mutex", "fresh Baton mutex":
		return want{2, 4}
	case "fleet etcd concurrency.Mutex", "fleet go-zookeeper Lock":
		return want{1.9, 4} // some names are contended
	case "pair Curator InterProcessSemaphoreV2":
		return about(7)
	case "permits Curator InterProcessSemaphoreV2":
		return want{7, 12}
	case "pair go-zookeeper Lock", "pair Curator InterProcessMutex", "names go-zookeeper Lock":
		return about(3)
	case "fresh go-zookeeper Lock":
		return about(7) // the parents are created after a failed create
	}
	return about(2)
}

// All cases of make bench run at a small size. The test checks that they work
// and how many requests they make, not how fast they are.
func TestQuickRunHasAllCasesAndTheirCounts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	o := Options{Rounds: 1, Sample: time.Millisecond, Divide: 16, Progress: io.Discard}
	if testing.Verbose() {
		o.Progress = t.Output()
	}
	r, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, place := range places {
		for _, c := range contests(place) {
			names = append(names, c.name)
		}
	}
	var ran []string
	for _, c := range r.Cases {
		ran = append(ran, c.Name)
		for _, s := range c.Subjects {
			checkSubject(t, c, s)
		}
	}
	if !slices.Equal(ran, names) {
		t.Errorf("ran %v, want %v", ran, names)
	}
	if len(r.Waiters) != 4 {
		t.Errorf("%d results of waiters, want 4", len(r.Waiters))
	}
	for _, w := range r.Waiters {
		// So few waiters may need less heap than other, temporary objects.
		if w.Heap == 0 || w.Goroutines < 0.99 || w.Role == Baton && !w.InOrder {
			t.Errorf("waiters: %+v", w)
		}
	}
	if r.Complete {
		t.Error("a quick run counts as a complete one, whose figures are written to the docs")
	}
	checkDocs(t, r)
}

// The test checks that messages are counted. A client sends a renewal or a ping
// every few seconds, and none is idle that sends more than a few a second.
func TestIdleClientsAreMeasuredByRequest(t *testing.T) {
	o := Options{Rounds: 1, Divide: 20, Progress: io.Discard, Cases: regexp.MustCompile("^idle/")}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Idle) != 2 {
		t.Fatalf("%d results of idle clients, want 2", len(r.Idle))
	}
	for _, i := range r.Idle {
		if perClient := i.Requests / float64(i.Clients); i.Clients != idleClients/20 || perClient < 0.1 || perClient > 4 {
			t.Errorf("idle clients: %+v", i)
		}
	}
}

func checkSubject(t *testing.T, c CaseResult, s SubjectResult) {
	t.Helper()
	if len(s.Rounds) != 1 || s.Median.Turns < 1 || s.Median.Time <= 0 || s.Median.P99 < s.Median.P50 {
		t.Errorf("%s: %s: not measured: %+v", c.Name, s.Name, s)
	}
	w, n := requests(c, s.Name), s.Counts
	if n.Requests < w.least || n.Requests > w.most {
		t.Errorf("%s: %s: %.2f requests per grant, want %.1f to %.1f: %s", c.Name, s.Name, n.Requests, w.least, w.most, ops(n.Ops))
	}
	if n.In <= 0 || n.Out <= 0 {
		t.Errorf("%s: %s: %.0f bytes in, %.0f out", c.Name, s.Name, n.In, n.Out)
	}
}

// checkDocs writes the docs of a result and checks that they are complete and
// well-formed.
func checkDocs(t *testing.T, r *Result) {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "docs"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "docs/benchmarks.md"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.WriteDocs(root); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "docs/benchmarks.md"} {
		b, err := os.ReadFile(filepath.Join(root, name))
		text := string(b)
		if err != nil || !strings.HasPrefix(text, "before\n"+beginMark) || !strings.HasSuffix(text, endMark+"\nafter\n") ||
			strings.Contains(text, "\nold\n") || !strings.Contains(text, "| mutex: handoff, 16 contenders |") {
			t.Errorf("%s: %v:\n%s", name, err, text)
		}
	}
	for name := range r.pictures() {
		checkSVG(t, filepath.Join(root, "docs", "bench", name))
	}
	again, err := Load(filepath.Join(root, "docs", "bench", "bench.json"))
	if err != nil || again.page() != r.page() {
		t.Errorf("the JSON yields a different page: %v", err)
	}
}

func checkSVG(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	marks := 0
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if e, ok := token.(xml.StartElement); ok && (e.Name.Local == "circle" || e.Name.Local == "rect") {
			marks++
		}
		if text, ok := token.(xml.CharData); ok && (strings.Contains(string(text), "NaN") || strings.Contains(string(text), "Inf")) {
			t.Errorf("%s: %q", path, text)
		}
	}
	if marks < 8 {
		t.Errorf("%s has only %d marks", path, marks)
	}
}

func TestRatiosAreTakenInsideRounds(t *testing.T) {
	rounds := func(times ...float64) (all []Sample) {
		for i, v := range times {
			if v != 0 {
				all = append(all, Sample{Round: i, Turns: 1, Time: v, P50: 100})
			}
		}
		return all
	}
	// The machine was three times slower for all subjects in the second round.
	// One peer takes part in two of the rounds; its first is compared with both
	// of Baton's rounds until its second.
	c := CaseResult{Subjects: []SubjectResult{
		{Name: "floor", Role: Floor, Rounds: rounds(100, 300, 110)},
		{Name: "Baton mutex", Role: Baton, Rounds: rounds(120, 360, 132)},
		{Name: "slow peer", Role: Peer, Rounds: rounds(500, 1500, 550)},
		{Name: "peer", Role: Peer, Rounds: rounds(480, 0, 264)},
	}}
	c.judge()
	baton := c.Subjects[1]
	if math.Abs(baton.OverFloor-1.2) > 1e-9 || math.Abs(baton.PeerOver-2) > 1e-9 || baton.Median.Time != 132 {
		t.Errorf("%+v", baton)
	}
	if peer := c.Subjects[3]; peer.PeerOver != 0 || math.Abs(peer.OverFloor-2.4) > 1e-9 {
		t.Errorf("%+v", peer)
	}
	c.Form = string(pairs) // for a single contender the medians count
	if c.judge(); c.Subjects[1].OverFloor != 1 {
		t.Errorf("%+v", c.Subjects[1])
	}
}

func TestBarsAreComparedWithTheFigures(t *testing.T) {
	rounds := func(ns float64) []Sample { return []Sample{{Turns: 1, Time: ns}} }
	r := &Result{Complete: true, Took: 19 * time.Minute, Cases: []CaseResult{{
		Name: "turns/zookeeper/2", Subjects: []SubjectResult{
			{Name: "Baton mutex", Role: Baton, OverFloor: 1.4, Counts: Counts{Requests: 4}, Rounds: rounds(100)},
			{Name: "go-zookeeper Lock", Role: Peer, Rounds: rounds(99)},
		},
	}, {
		Name: "fleet/etcd", Subjects: []SubjectResult{{Name: "Baton mutex", Role: Baton, PeerOver: 1.01}},
	}}}
	got := map[string]bool{}
	for _, b := range r.Bars() {
		got[b.What] = b.Met
	}
	want := map[string]bool{
		"handoff on zookeeper, 2 contenders":                                    true,
		"handoff on zookeeper, 2 contenders, against go-zookeeper's Lock":       false,
		"handoff on zookeeper, 2 contenders, requests per grant with the watch": true,
		"64 clients, names at random on etcd, pairs/s":                          true,
		"the whole run": false,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestProcessTimeIncreases(t *testing.T) {
	for deadline := time.Now().Add(time.Minute); processTime(os.Getpid()) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no processor time measured after a minute of work")
		}
	}
}

func TestFiguresHaveThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 2: "2", 0.123: "0.12", 12.34: "12.3", 123.4: "123", 1234.5: "1,234", 1234567: "1,234,567"} {
		if got := figure(v); got != want {
			t.Errorf("figure(%v) = %s, want %s", v, got, want)
		}
	}
}
