// Package engines_test compares Baton's mutex on all services, and the locks of
// others, in one run: the table of docs/choosing.md.
package engines_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/etcd"
	_ "github.com/baton-go/baton/coordinator/redis"
	batonsql "github.com/baton-go/baton/coordinator/sql"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/redisserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/sqlserver"
)

func TestMain(m *testing.M) { servers.Main(m) }

var silent = coordinator.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

// hold returns how long a lock is held in a handoff, so that the others wait
// when it is released: at random, since a client that polls every 10 ms from
// the beginning of a hold would meet the end of one that lasts as long.
func hold() time.Duration { return 10*time.Millisecond + rand.N(10*time.Millisecond) }

// subject is a row of the table, with its results of each round.
type subject struct {
	name                        string
	lock                        locker
	noWait                      bool
	pair, two, sixteen, clients []float64 // µs, ms, ms, pairs a second
}

// BenchmarkEngines prints the table. An operation is a round over all rows, on
// servers that run all the time and do not wait for their disks. A cell has
// the median of the rounds:
//
//   - the median time in which one client locks and unlocks a free name;
//   - the median time from the start of a release to the return of the next
//     client's Lock, with 2 and 16 contenders that hold for 10 to
//     20 ms and contend again as soon as another holds;
//   - the pairs a second of 64 clients, each on a name of its own.
//
// Each client has connections and a session of its own.
func BenchmarkEngines(b *testing.B) {
	all := subjects(b)
	rounds := 0
	for b.Loop() {
		rounds++
		for _, s := range all {
			if err := s.round(b.Context(), fmt.Sprint("bench", rounds)); err != nil {
				b.Fatalf("%s: %v", s.name, err)
			}
		}
	}
	fmt.Printf("\n%d rounds, %s/%s, %d cores, %s\n\n%s", // b.Log would cut it off
		rounds, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), table(all))
}

func subjects(b *testing.B) []*subject {
	pg, maria := servers.NewSQL(b, sqlserver.PostgreSQL), servers.NewSQL(b, sqlserver.MariaDB)
	migrate(b, pg, batonsql.Postgres)
	migrate(b, maria, batonsql.MySQL)
	redis, err := redisserver.Start(b.Context(), redisserver.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = redis.Close() })
	return []*subject{
		{name: "**Baton** on etcd", lock: baton("etcd://" + servers.Etcd(b).Endpoints()[0] + "/bench")},
		{name: "**Baton** on ZooKeeper", lock: baton("zk://" + servers.ZooKeeper(b).Endpoints()[0] + "/bench")},
		{name: "**Baton** on PostgreSQL", lock: baton(pg.URL(pg.Addr()))},
		{name: "`pg_advisory_lock`", lock: byConnection(pg,
			"SELECT pg_advisory_lock(hashtext('%s'))", "SELECT pg_advisory_unlock(hashtext('%s'))")},
		{name: "**Baton** on MariaDB", lock: baton(maria.URL(maria.Addr()))},
		{name: "`GET_LOCK`", lock: byConnection(maria, "SELECT GET_LOCK('%s', 60)", "SELECT RELEASE_LOCK('%s')")},
		{name: "**Baton** on Redis", lock: baton("redis://" + redis.Addr() + "/bench")},
		{name: "bsm/redislock", lock: onRedis(redis, bsm)},
		{name: "go-redsync/redsync", lock: onRedis(redis, redsync4)},
		{name: "`SET NX`, `DEL`", lock: onRedis(redis, bare), noWait: true},
	}
}

func migrate(b *testing.B, s *sqlserver.Server, dialect batonsql.Dialect) {
	db, err := s.Open()
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if dialect == batonsql.MySQL {
		db.SetMaxOpenConns(1) // for USE
		if _, err := db.Exec("USE " + sqlserver.Database); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := batonsql.Migrate(b.Context(), db, dialect); err != nil {
		b.Fatal(err)
	}
}

// round measures all cells of a row.
func (s *subject) round(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cells := []struct {
		results *[]float64
		clients int
		measure func(ctx context.Context, all []locking) (float64, error)
	}{
		{&s.pair, 1, onePair}, {&s.two, 2, handoffs}, {&s.sixteen, 16, handoffs}, {&s.clients, 64, ownNames},
	}
	for i, c := range cells {
		if s.noWait && (i == 1 || i == 2) {
			continue
		}
		result, err := s.cell(ctx, fmt.Sprint(name, "-", i), c.clients, i == 3, c.measure)
		if err != nil {
			return fmt.Errorf("%d clients: %w", c.clients, err)
		}
		*c.results = append(*c.results, result)
	}
	return nil
}

// cell measures with new clients, on one name or on one each. They have locked
// once before, which opens their sessions.
func (s *subject) cell(ctx context.Context, name string, clients int, own bool,
	measure func(ctx context.Context, all []locking) (float64, error),
) (result float64, err error) {
	var all []locking
	for i := range clients {
		mine := name
		if own {
			mine = fmt.Sprint(name, "-", i)
		}
		l, end, err := s.lock(ctx, mine)
		if end != nil {
			defer func() { err = errors.Join(err, end()) }()
		}
		if err == nil {
			err = l.pair(ctx)
		}
		if err != nil {
			return 0, err
		}
		all = append(all, l)
	}
	return measure(ctx, all)
}

// onePair returns the median time of a pair in µs.
func onePair(ctx context.Context, all []locking) (float64, error) {
	var took []time.Duration
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		began := time.Now()
		if err := all[0].pair(ctx); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	return float64(median(took)) / float64(time.Microsecond), nil
}

// ownNames returns the pairs a second of all clients.
func ownNames(ctx context.Context, all []locking) (float64, error) {
	const lasts = 1500 * time.Millisecond
	var wg sync.WaitGroup
	counts, errs := make([]int, len(all)), make([]error, len(all))
	began := time.Now()
	for i, l := range all {
		wg.Go(func() {
			for errs[i] == nil && time.Since(began) < lasts {
				errs[i] = l.pair(ctx)
				counts[i]++
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / time.Since(began).Seconds(), errors.Join(errs...)
}

// handoffs returns the median time of a handoff in ms.
func handoffs(ctx context.Context, all []locking) (float64, error) {
	t := &turns{end: time.Now().Add(2 * time.Second), taken: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, l := range all {
		wg.Go(func() {
			if err := t.run(ctx, l); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return float64(median(t.took)) / float64(time.Millisecond), context.Cause(ctx)
}

// turns are the handoffs of a name.
type turns struct {
	end      time.Time
	mu       sync.Mutex
	released time.Time     // when the latest release began
	taken    chan struct{} // closed and replaced when a client has acquired
	took     []time.Duration
}

// run acquires, holds and releases until the end. A client that has released
// contends again when another holds: one that polls would otherwise take its
// own lock again and again.
func (t *turns) run(ctx context.Context, lock locking) error {
	for {
		release, err := lock(ctx)
		if err != nil {
			return err
		}
		t.mu.Lock()
		now := time.Now()
		if !t.released.IsZero() {
			t.took = append(t.took, now.Sub(t.released))
		}
		close(t.taken)
		t.taken = make(chan struct{})
		next := t.taken
		t.mu.Unlock()
		await.For(ctx, hold())
		t.mu.Lock()
		t.released = time.Now()
		t.mu.Unlock()
		if err := release(ctx); err != nil {
			return err
		}
		if now.After(t.end) {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func median[T int64 | float64 | time.Duration](all []T) T {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func table(all []*subject) string {
	var text strings.Builder
	text.WriteString("| | lock and unlock | handoff, 2 contenders | handoff, 16 | 64 clients, own names, pairs/s |\n|---|--:|--:|--:|--:|\n")
	for _, s := range all {
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", s.name, rounded(s.pair, 1000, " ms"),
			rounded(s.two, 1, " ms"), rounded(s.sixteen, 1, " ms"), rounded(s.clients, 1, ""))
	}
	return text.String()
}

// rounded returns the median of the rounds with two digits.
func rounded(rounds []float64, per float64, unit string) string {
	if len(rounds) == 0 {
		return "–"
	}
	value := median(rounds) / per
	scale := math.Pow(10, math.Floor(math.Log10(value))-1)
	digits := strconv.FormatFloat(math.Round(value/scale)*scale, 'f', max(0, -int(math.Round(math.Log10(scale)))), 64)
	if len(digits) > 3 && !strings.Contains(digits, ".") {
		digits = digits[:len(digits)-3] + "," + digits[len(digits)-3:]
	}
	return digits + unit
}
