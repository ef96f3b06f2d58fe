package integration_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/history"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/recipes/partition"
)

func init() { proc.Register("partition", partitionWorker) }

// spell is an event of the work on a shard, a line of a file that processes
// share.
type spell struct {
	At    int64 // by history.Now
	Who   string
	Shard int
	Token int64
	End   bool // the work returns
}

func spellFile(dir string) string { return filepath.Join(dir, "spells") }

// partitionWorker is a member of a partition until it receives a message: url,
// who, name, directory, shards.
func partitionWorker(ctx context.Context, io *proc.IO, args []string) error {
	shards, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	client, err := coordinator.Open(args[0], silent, coordinator.WithIdentity(args[1]))
	if err != nil {
		return err
	}
	p, err := partition.New(client, args[2], shards)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(spellFile(args[3]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	running, stop := context.WithCancelCause(ctx)
	ended := errors.New("told to end")
	go func() {
		var word string
		if io.Recv(ctx, &word) == nil {
			stop(ended)
		}
	}()
	note := func(s spell) {
		s.At, s.Who = history.Now(), args[1]
		line, err := json.Marshal(s)
		if err == nil {
			_, err = f.Write(append(line, '\n')) // one write, so lines do not mix
		}
		if err != nil {
			panic(err)
		}
	}
	err = p.Run(running, func(ctx context.Context, s *partition.Shard) error {
		shard, token := s.Number(), s.Token()
		note(spell{Shard: shard, Token: int64(token)})
		number := tally{args[3], strconv.Itoa(shard)}
		add := func() {
			if value, ok := number.read(args[1], int64(token)); ok {
				number.write(args[1], int64(token), value+1)
			}
		}
		add()
		<-ctx.Done()
		add() // with a token that is too old, if the process was stopped
		note(spell{Shard: shard, Token: int64(token), End: true})
		return nil
	})
	if !errors.Is(err, ended) {
		return fmt.Errorf("run: %w", err)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(client.Close(bounded), io.Send("ended"))
}

// slowness is by how much a duration may exceed its bar before a test fails:
// with forty runnable processes on two cores, a shard was free for twice its
// bar. The log says which exceeded it at all.
const slowness = 5

// timing is a duration, and what it should be at most.
type timing struct {
	what      string
	took, bar time.Duration
}

// shardFleet is some processes that share a partition.
type shardFleet struct {
	*testing.T
	site    site
	ttl     time.Duration
	name    string
	dir     string
	shards  int
	started int
	gone    map[string]int64 // since when a process holds nothing: killed or stopped
	timings []timing
	parsed  int     // bytes of the file
	events  []spell // in them
}

// timed notes a duration, and fails if it is far beyond its bar.
func (f *shardFleet) timed(what string, took, bar time.Duration) {
	f.Helper()
	f.timings = append(f.timings, timing{what, took, bar})
	if took > slowness*bar {
		f.Errorf("%s: %v, want %v, and never more than %v", what, took, bar, slowness*bar)
	}
}

// report logs the durations, and how many are within their bars.
func (f *shardFleet) report() {
	f.Helper()
	within := 0
	for _, t := range f.timings {
		note := ""
		if t.took <= t.bar {
			within++
		} else {
			note = ", exceeded"
		}
		f.Logf("%s: %v (bar %v%s)", t.what, t.took.Round(time.Millisecond), t.bar, note)
	}
	f.Logf("%d of %d durations are within their bars", within, len(f.timings))
}

func (f *shardFleet) start() worker {
	f.Helper()
	f.started++
	w := worker{who: fmt.Sprintf("process-%d", f.started)}
	w.Child = proc.Start(f.T, "partition", f.site.url(f.ttl), w.who, f.name, f.dir, strconv.Itoa(f.shards))
	return w
}

// spells returns all events in order. It parses each line once: the processes
// need the processors.
func (f *shardFleet) spells() []spell {
	f.Helper()
	b, err := os.ReadFile(spellFile(f.dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.Fatal(err)
	}
	b = b[f.parsed : bytes.LastIndexByte(b, '\n')+1] // a process may be writing the last line
	f.parsed += len(b)
	for line := range bytes.Lines(b) {
		var s spell
		if err := json.Unmarshal(line, &s); err != nil {
			f.Fatal(err)
		}
		f.events = append(f.events, s)
	}
	slices.SortStableFunc(f.events, func(a, b spell) int { return cmp.Compare(a.At, b.At) })
	return f.events
}

// holders returns the process that works on each shard.
func (f *shardFleet) holders() map[int]string {
	latest := make(map[int]spell)
	for _, s := range f.spells() {
		if s.Token >= latest[s.Shard].Token {
			latest[s.Shard] = s
		}
	}
	holders := make(map[int]string)
	for shard, s := range latest {
		if _, gone := f.gone[s.Who]; !gone && !s.End {
			holders[shard] = s.Who
		}
	}
	return holders
}

// settle waits until the processes hold all shards evenly, and notes how long
// that took.
func (f *shardFleet) settle(what string, bar time.Duration, among []worker) {
	f.Helper()
	began, hangs := time.Now(), await.Hang(f)
	for {
		held, least, most := make(map[string]int), f.shards, 0
		for _, who := range f.holders() {
			held[who]++
		}
		sum := 0
		for _, w := range among {
			n := held[w.who]
			least, most, sum = min(least, n), max(most, n), sum+n
		}
		if sum == f.shards && most <= least+1 {
			f.timed(what, time.Since(began), bar)
			return
		}
		if time.Now().After(hangs) {
			f.Fatalf("%s: not settled: %v", what, held)
		}
		await.For(f.Context(), 20*time.Millisecond)
	}
}

// moves fails if more shards than allowed have another holder than before.
func (f *shardFleet) moves(what string, before map[int]string, most int) {
	f.Helper()
	moved := 0
	for shard, who := range f.holders() {
		if before[shard] != who {
			moved++
		}
	}
	if moved > most {
		f.Errorf("%s: %d shards moved, want at most %d", what, moved, most)
	}
}

func count(holders map[int]string, who string) (n int) {
	for _, h := range holders {
		if h == who {
			n++
		}
	}
	return n
}

func (f *shardFleet) end(w worker) {
	f.Helper()
	w.Send("end")
	var word string
	w.Recv(&word)
}

// check fails if two processes worked on a shard at the same time, and returns
// the longest time after some moment that a shard was free. A process that was
// killed or stopped does not count from then on.
func (f *shardFleet) check(since int64) (gap time.Duration) {
	f.Helper()
	open, free := make(map[int]spell), make(map[int]int64)
	for _, s := range f.spells() {
		last := open[s.Shard]
		switch at, gone := f.gone[last.Who]; {
		case s.End && s.Token == last.Token:
			delete(open, s.Shard)
			free[s.Shard] = s.At
			continue
		case s.End:
			continue // after a stop; its end was forced
		case last.Who != "" && (!gone || s.At < at):
			f.Errorf("shard %d: %s began with token %d while %s held with %d", s.Shard, s.Who, s.Token, last.Who, last.Token)
		case s.Token < last.Token:
			f.Errorf("shard %d: token %d after %d", s.Shard, s.Token, last.Token)
		}
		if end := free[s.Shard]; last.Who == "" && end > since {
			gap = max(gap, time.Duration(s.At-end))
		}
		open[s.Shard] = s
	}
	return gap
}

// TestShardsUnderKillsStopsAndRestarts: eight processes share 64 shards. They
// are killed, stopped for longer than the TTL, added, leave, and are restarted
// one after the other. No shard is worked on twice, and few shards move. The
// shards of the dead alone are free for long: the log has the durations.
func TestShardsUnderKillsStopsAndRestarts(t *testing.T) {
	const (
		ttl, processes, shards = 6 * time.Second, 8, 64
		planned, death, free   = 2 * time.Second, ttl + 2*time.Second, time.Second // bars
	)
	together(t, func(t *testing.T, s site) {
		f := &shardFleet{T: t, site: s, ttl: ttl, name: fresh(t)("shards"), dir: t.TempDir(), shards: shards,
			gone: make(map[string]int64)}
		defer f.report()
		var all []worker
		for range processes {
			all = append(all, f.start())
		}
		f.settle("start", death, all)
		f.dies(&all, 2, death)
		f.joins(&all, planned)
		f.stops(&all, 4, death, planned)
		f.joins(&all, planned)

		began := history.Now()
		before, leaver := f.holders(), all[0]
		f.end(leaver)
		all = slices.Delete(all, 0, 1)
		f.settle("leave", planned, all)
		f.moves("leave", before, count(before, leaver.who))
		f.joins(&all, planned)
		for i, w := range all {
			f.end(w)
			all[i] = f.start()
			f.settle(fmt.Sprintf("restart %d", i+1), planned, all)
		}
		// It would be the TTL, more than allowed, if a shard waited for that.
		f.timed("longest time that a shard was free in the rolling restart", f.check(began), free)
		for _, w := range all {
			f.end(w)
		}
		h := history.New()
		for shard := range shards {
			tally{f.dir, strconv.Itoa(shard)}.record(t, h)
		}
		h.Check(t)
	})
}

// joins starts another process.
func (f *shardFleet) joins(all *[]worker, bar time.Duration) {
	f.Helper()
	before := f.holders()
	*all = append(*all, f.start())
	f.settle("join", bar, *all)
	f.moves("join", before, (f.shards+len(*all)-1)/len(*all))
}

// dies kills a process.
func (f *shardFleet) dies(all *[]worker, i int, bar time.Duration) {
	f.Helper()
	before, killed := f.holders(), (*all)[i]
	f.gone[killed.who] = history.Now()
	killed.Kill()
	*all = slices.Delete(*all, i, i+1)
	f.settle("kill", bar, *all)
	f.moves("kill", before, count(before, killed.who))
}

// stops stops a process until the others have its shards. Then it goes on,
// joins again, and leaves.
func (f *shardFleet) stops(all *[]worker, i int, death, planned time.Duration) {
	f.Helper()
	before, stopped := f.holders(), (*all)[i]
	f.gone[stopped.who] = history.Now()
	if err := stopped.Pause(); err != nil {
		f.Fatal(err)
	}
	*all = slices.Delete(*all, i, i+1)
	f.settle("stop", death, *all)
	f.moves("stop", before, count(before, stopped.who))
	if err := stopped.Resume(); err != nil {
		f.Fatal(err)
	}
	await.For(f.Context(), time.Second) // until it has noted the end of its work
	f.end(stopped)
	f.settle("leave of the stopped", planned, *all)
}
