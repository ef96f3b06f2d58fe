package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/history"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/recipes/counter"
)

func init() { proc.Register("counter", counterWorker) }

// counted is what a call of a worker did, one line of its file.
type counted struct {
	kind       string // add, get, id, maybe (an add), failed
	begin, end int64
	value      int64
}

// TestCounterUnderKillsAndPartitions: 64 goroutines in eight processes add 1,
// read, and take numbers, while processes are killed and replaced and networks
// are cut silently, delayed and reset. The sum is exact: each value from 1 to
// the last was returned to one call, except at most one for each call of
// unknown outcome and two for each kill; no order of calls contradicts their
// times; no number comes twice.
func TestCounterUnderKillsAndPartitions(t *testing.T) {
	const ttl, processes = 4 * time.Second, 8
	together(t, func(t *testing.T, s site) {
		name, dir, seed := fresh(t)("counter"), t.TempDir(), rand.Uint64()
		t.Logf("seed %d", seed)
		r, started, killed := rand.New(rand.NewPCG(seed, 0)), 0, 0
		start := func() networked {
			started++
			return startNetworked(t, s, ttl, "counter", fmt.Sprintf("process-%d", started), name, dir)
		}
		var workers []networked
		for range processes {
			workers = append(workers, start())
		}
		for end := time.Now().Add(chaosTime(t)); time.Now().Before(end); {
			i := r.IntN(processes)
			disturbNetwork(r, workers[(i+1+r.IntN(processes-1))%processes].proxy)
			await.For(t.Context(), time.Second)
			workers[i].Kill()
			killed++
			workers[i] = start()
		}
		healNetworks(workers)
		endAll(t, workers)
		c, err := counter.New(s.client(t, ttl), name)
		if err != nil {
			t.Fatal(err)
		}
		last, err := c.Get(await.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		judgeCounts(t, readCounts(t, dir), last, killed)
	})
}

// readCounts reads the files of all processes. The last line of a killed one
// may be incomplete.
func readCounts(t *testing.T, dir string) (all []counted) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.counts"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var c counted
			if n, _ := fmt.Sscanf(lines.Text(), "%s %d %d %d .", &c.kind, &c.begin, &c.end, &c.value); n == 4 {
				all = append(all, c)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	return all
}

// judgeCounts checks all calls. A Counter sends one write at a time. So at most
// two writes of a killed process are unknown: the one that it had sent, and the
// one before, if its goroutine had not recorded it yet.
func judgeCounts(t *testing.T, all []counted, last int64, killed int) {
	t.Helper()
	ids, values, kinds := map[int64]bool{}, map[int64]bool{}, map[string]int{}
	var seen []counted
	for _, c := range all {
		kinds[c.kind]++
		switch c.kind {
		case "id":
			if ids[c.value] || c.value < 1 {
				t.Errorf("number %d twice", c.value)
			}
			ids[c.value] = true
		case "add":
			if values[c.value] || c.value < 1 || c.value > last {
				t.Errorf("sum %d twice, or above the last %d", c.value, last)
			}
			values[c.value] = true
			seen = append(seen, c)
		case "get":
			seen = append(seen, c)
		}
	}
	missing := int(last) - len(values)
	t.Logf("value %d; %d sums of unknown calls; %v, %d kills", last, missing, kinds, killed)
	if missing < 0 || missing > kinds["maybe"]+2*killed {
		t.Errorf("%d sums are missing after %d calls of unknown outcome and %d kills", missing, kinds["maybe"], killed)
	}
	if kinds["add"] < 100 || kinds["id"] < 100 || kinds["get"] < 20 {
		t.Errorf("only %v", kinds)
	}
	slices.SortFunc(seen, func(a, b counted) int { return int(a.value - b.value) })
	for i, first := len(seen)-1, int64(math.MaxInt64); i >= 0; {
		j := i
		for ; j >= 0 && seen[j].value == seen[i].value; j-- {
			if seen[j].begin > first {
				t.Errorf("%+v began after a call with a greater value had ended at %d", seen[j], first)
			}
		}
		for ; i > j; i-- {
			first = min(first, seen[i].end)
		}
	}
}

// counterWorker counts until it receives a message, and then until each
// goroutine has succeeded once more: url, who, name, directory.
func counterWorker(ctx context.Context, io *proc.IO, args []string) error {
	client, err := coordinator.Open(args[0], silent, coordinator.WithIdentity(args[1]))
	if err != nil {
		return err
	}
	c, err := counter.New(client, args[2])
	if err != nil {
		return err
	}
	ids, err := counter.NewIDs(client, args[2], 5)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(args[3], args[1]+".counts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := io.Send("ready"); err != nil {
		return err
	}
	ending := toldToEnd(ctx, io)
	wrong := ""
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := countAll(ctx, c, ids, f, ending); err != nil {
				mu.Lock()
				defer mu.Unlock()
				wrong = err.Error()
			}
		})
	}
	wg.Wait()
	err = io.Send(wrong)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, client.Close(bounded))
}

func countAll(
	ctx context.Context, c *counter.Counter, ids *counter.IDs, f *os.File, ending <-chan struct{},
) error {
	for {
		bound := time.Duration(50+rand.IntN(5000)) * time.Millisecond
		last := false
		select {
		case <-ending:
			bound, last = healedPatience, true
		default:
		}
		call := func(kind string, do func(context.Context) (int64, error)) (counted, error) {
			ctx, cancel := context.WithTimeout(ctx, bound)
			defer cancel()
			did := counted{kind: kind, begin: history.Now()}
			var err error
			did.value, err = do(ctx)
			did.end = history.Now()
			switch {
			case kind == "add" && coordinator.MayHaveApplied(err):
				did.kind = "maybe"
			case err != nil:
				did.kind = "failed-" + kind
			}
			return did, err
		}
		var failed error
		for _, kind := range []string{"add", "get", "id"} {
			do := map[string]func(context.Context) (int64, error){
				"add": func(ctx context.Context) (int64, error) { return c.Add(ctx, 1) }, "get": c.Get, "id": ids.Next,
			}[kind]
			did, err := call(kind, do)
			if _, written := fmt.Fprintf(f, "%s %d %d %d .\n", did.kind, did.begin, did.end, did.value); written != nil {
				return written
			}
			if err != nil {
				failed = fmt.Errorf("%s: %w", kind, err)
			}
		}
		if last || ctx.Err() != nil {
			return failed
		}
	}
}
