package integration_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
)

// pausesTime returns how long each subject of the pause benchmark runs:
// BATON_PAUSES, or a short time. asked reports that it was set: then all
// subjects run, and the figures are printed.
func pausesTime(t *testing.T) (d time.Duration, asked bool) {
	s, asked := os.LookupEnv("BATON_PAUSES")
	if !asked || s == "" {
		return 12 * time.Second, false
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 5*time.Second || d > time.Hour {
		t.Fatalf("BATON_PAUSES=%q is not a time between 5s and 1h", s)
	}
	return d, true
}

// pauseLength is how long a holder is stopped: longer than its session lives.
const pauseLength = 2500 * time.Millisecond

// leastWrites is the minimum number of writes of a valid run.
const leastWrites = 10

// subject is one way to protect the register.
type subject struct {
	what, library string
	looks, fenced bool
}

// subjects returns the subjects of a service. The first must lose no update.
func (s site) subjects() []subject {
	own, looks := "etcd", "Session.Done"
	name := "etcd's concurrency.Mutex"
	if s.service == "zk" {
		own, looks, name = "go-zookeeper", "Conn.State", "go-zookeeper's Lock"
	}
	return []subject{
		{what: "Baton, the register checks the token", library: "baton", fenced: true},
		{what: "Baton, checks its context before it writes", library: "baton", looks: true},
		{what: "Baton, does neither", library: "baton"},
		{what: name + ", checks " + looks, library: own, looks: true},
		{what: name + ", does not check", library: own},
	}
}

// pauseResult is the outcome of one subject.
type pauseResult struct {
	subject
	counts
	pauses, lost int
}

// TestPausedHoldersLoseNoUpdateIfTheTokenIsChecked tests promise P3. Five
// processes add to a register under a lock, and the holder is repeatedly
// stopped for longer than its session lives. No lock can prevent it from
// finishing the write that it had begun; the token check does.
//
// When the figures are requested, the test also measures subjects without the
// check.
func TestPausedHoldersLoseNoUpdateIfTheTokenIsChecked(t *testing.T) {
	d, asked := pausesTime(t)
	eachTrio(t, func(t *testing.T, start func() *ensemble) {
		t.Parallel() // both services mostly wait
		cluster := start()
		subjects := cluster.subjects()
		if !asked {
			subjects = subjects[:1]
		}
		var results []pauseResult
		for _, s := range subjects {
			t.Run(s.what, func(t *testing.T) {
				results = append(results, cluster.measurePauses(t, s, d, !asked))
			})
		}
		if t.Failed() {
			return
		}
		text := pausesReport(cluster.version(), d, results)
		if asked {
			fmt.Println(text)
		} else {
			t.Log("\n" + text)
		}
		for _, r := range results {
			if r.fenced && (r.lost != 0 || r.Stale != 0) {
				t.Errorf("lost updates behind the fence: %+v", r)
			}
			if r.pauses == 0 || r.Writes < leastWrites {
				t.Errorf("too little happened: %+v", r)
			}
		}
		// Each pause lasted until another process had read, so the register had
		// to refuse the stopped process.
		if !asked && results[0].Refused == 0 {
			t.Errorf("the register refused nothing: the test shows nothing: %+v", results[0])
		}
	})
}

// measurePauses runs five processes of a subject and stops their holders. If
// thorough, each pause lasts until another process has acquired the lock.
func (s site) measurePauses(t *testing.T, sub subject, d time.Duration, thorough bool) pauseResult {
	register := newSharedRegister(t, sub.fenced)
	where, looks := strings.Join(s.endpoints, ","), "blind"
	if sub.library == "baton" {
		where = s.url(pausesTTL)
	}
	if sub.looks {
		looks = "looks"
	}
	name := servers.Name(t)
	var workers []*proc.Child
	for i := range 5 {
		workers = append(workers, proc.Start(t, "update", sub.library, where, name,
			register.listener.Addr().String(), strconv.Itoa(i), looks))
	}
	pauses := stopHolders(t, register, workers, d, thorough, func(pauses int) bool {
		c := register.counts()
		return pauses > 0 && c.Writes >= leastWrites && (c.Refused > 0 || !thorough)
	})
	for i, w := range workers {
		if !w.Running() {
			t.Errorf("worker %d has ended", i)
		}
	}
	register.close()
	for _, w := range workers {
		w.Kill()
	}
	return pauseResult{sub, register.counts(), pauses, register.lost()}
}

// stopHolders repeatedly stops the process that is between its read and its
// write, and returns how often. If that was not enough within d, it continues
// for some time.
func stopHolders(t *testing.T, r *sharedRegister, workers []*proc.Child, d time.Duration, thorough bool, enough func(pauses int) bool) (pauses int) {
	began := time.Now()
	for time.Since(began) < d || !enough(pauses) && time.Since(began) < d+time.Minute {
		await.For(t.Context(), 200*time.Millisecond+rand.N(600*time.Millisecond))
		client, cycle := awaitHolder(t, r)
		await.For(t.Context(), rand.N(45*time.Millisecond)) // anywhere in its critical section
		if err := workers[client].Pause(); err != nil {
			t.Fatal(err)
		}
		await.For(t.Context(), 5*time.Millisecond) // its sent requests arrive
		if now, last, _ := r.holder(); now == client && last == cycle {
			pauses++
			await.For(t.Context(), pauseLength)
			if thorough {
				awaitRead(t, r, cycle)
			}
		}
		if err := workers[client].Resume(); err != nil {
			t.Fatal(err)
		}
	}
	await.For(t.Context(), time.Second) // until the effects of the last pause are over
	return pauses
}

// awaitHolder waits until a process is between read and write.
func awaitHolder(t *testing.T, r *sharedRegister) (client, cycle int) {
	for {
		client, cycle, changed := r.holder()
		if client >= 0 {
			return client, cycle
		}
		await.Receive(t, "a process between its read and its write", changed)
	}
}

// awaitRead waits until a process has read after the given cycle.
func awaitRead(t *testing.T, r *sharedRegister, after int) {
	for {
		_, cycle, changed := r.holder()
		if cycle > after {
			return
		}
		await.Receive(t, "a read of another process", changed)
	}
}

func pausesReport(what string, d time.Duration, results []pauseResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, three nodes; 5 processes, %v each, TTL %v, the holder stopped for %v at a time, on %s %s/%s, %d cores\n\n",
		what, d, pausesTTL, pauseLength, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	fmt.Fprintf(&b, "%-52s%8s%8s%8s%9s%8s%8s%8s\n", "", "writes", "pauses", "noticed", "refused", "stale", "lost", "%")
	for _, r := range results {
		fmt.Fprintf(&b, "%-52s%8d%8d%8d%9d%8d%8d%8.2f\n", r.what, r.Writes, r.pauses, r.Told, r.Refused, r.Stale, r.lost,
			100*float64(r.lost)/float64(max(1, r.Writes)))
	}
	b.WriteString("\nnoticed: the check showed the loss, and the holder did not write. refused: by the register, for the token. stale:\n" +
		"acknowledged writes over a value that the writer had not read. lost: acknowledged updates that the register does not\n" +
		"contain in the end; %: of the writes. An update is a read, up to 40 ms of thinking, the check if there is one, up to\n" +
		"10 ms of preparing the write, and the write.\n")
	return b.String()
}
