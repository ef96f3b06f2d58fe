package integration_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/history"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/recipes/doublebarrier"
)

func init() { proc.Register("double", doubleWorker) }

// TestDoubleBarrierUnderKillsAndPartitions: five processes enter and leave in
// rounds of three, while one after the other is killed and replaced and
// networks are cut, delayed and reset. No member leaves without an error before
// all three have called Leave; nothing hangs; at the end the queue is empty.
func TestDoubleBarrierUnderKillsAndPartitions(t *testing.T) {
	const ttl, processes = 4 * time.Second, 5
	together(t, func(t *testing.T, s site) {
		name, dir, seed := fresh(t)("phase"), t.TempDir(), rand.Uint64()
		t.Logf("seed %d", seed)
		r, started := rand.New(rand.NewPCG(seed, 0)), 0
		start := func() networked {
			started++
			return startNetworked(t, s, ttl, "double", fmt.Sprintf("process-%d", started), name, dir)
		}
		var workers []networked
		for range processes {
			workers = append(workers, start())
		}
		for end := time.Now().Add(2 * chaosTime(t)); time.Now().Before(end); {
			i := r.IntN(processes)
			disturbNetwork(r, workers[(i+1+r.IntN(processes-1))%processes].proxy)
			await.For(t.Context(), 2*time.Second)
			workers[i].Kill()
			workers[i] = start()
		}
		healNetworks(workers)
		await.For(t.Context(), 2*ttl)
		await.Until(t, "enough complete rounds", func() bool { return readRounds(t, dir).complete() >= leastRounds })
		endAll(t, workers)
		judgeRounds(t, dir)
		s.becomesEmpty(t, name)
	})
}

const doubleMembers, leastRounds = 3, 5

// rounds are the times of what happened in each round.
type rounds map[string]map[int64][]int64

// complete counts the rounds that all members have left.
func (r rounds) complete() (n int) {
	for _, left := range r["left"] {
		if len(left) == doubleMembers {
			n++
		}
	}
	return n
}

// readRounds reads the files of all processes.
func readRounds(t *testing.T, dir string) rounds {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.rounds"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	times := rounds{"entering": {}, "entered": {}, "leaving": {}, "left": {}, "lost": {}}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var what string
			var round, at int64
			if n, _ := fmt.Sscanf(lines.Text(), "%s %d %d .", &what, &round, &at); n == 3 && times[what] != nil {
				times[what][round] = append(times[what][round], at)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	return times
}

// judgeRounds checks what the processes wrote.
func judgeRounds(t *testing.T, dir string) {
	t.Helper()
	times := readRounds(t, dir)
	for round, entered := range times["entered"] {
		if len(entered) > doubleMembers {
			t.Errorf("round %d has %d members", round, len(entered))
		}
		for _, at := range entered {
			for _, began := range times["entering"][round] {
				if began > at {
					t.Errorf("round %d: entered at %d, before another member called Enter at %d", round, at, began)
				}
			}
		}
		for _, at := range times["left"][round] {
			called := 0
			for _, began := range times["leaving"][round] {
				if began < at {
					called++
				}
			}
			if called != doubleMembers {
				t.Errorf("round %d: left at %d, when %d had called Leave", round, at, called)
			}
		}
	}
	lost := 0
	for _, at := range times["lost"] {
		lost += len(at)
	}
	t.Logf("%d rounds, %d complete, %d Leaves with a lost member", len(times["entered"]), times.complete(), lost)
}

// doubleWorker enters and leaves until it receives a message: url, who, name,
// directory.
func doubleWorker(ctx context.Context, io *proc.IO, args []string) error {
	client, err := coordinator.Open(args[0], silent, coordinator.WithIdentity(args[1]))
	if err != nil {
		return err
	}
	b, err := doublebarrier.New(client, args[2], doubleMembers)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(args[3], args[1]+".rounds"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := io.Send("ready"); err != nil {
		return err
	}
	rounds, stop := context.WithCancel(ctx)
	go func() {
		var word string
		if io.Recv(ctx, &word) == nil {
			stop()
		}
	}()
	wrong := ""
	for rounds.Err() == nil && wrong == "" {
		if err := enterAndLeave(rounds, b, f); err != nil {
			wrong = err.Error()
		}
	}
	err = io.Send(wrong)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, client.Close(bounded))
}

func enterAndLeave(ctx context.Context, b *doublebarrier.Barrier, f *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(500+rand.IntN(10_000))*time.Millisecond)
	defer cancel()
	began := history.Now()
	m, err := b.Enter(ctx)
	if err != nil {
		return nil
	}
	entered := history.Now()
	if _, err = fmt.Fprintf(f, "entering %d %d .\nentered %d %d .\n", m.Round(), began, m.Round(), entered); err != nil {
		return err
	}
	await.For(m.Context(), time.Duration(rand.IntN(20))*time.Millisecond)
	leaving := history.Now()
	if _, err = fmt.Fprintf(f, "leaving %d %d .\n", m.Round(), leaving); err != nil {
		return err
	}
	err = m.Leave(ctx)
	left, what := history.Now(), "failed"
	var lost *doublebarrier.MemberLostError
	switch {
	case err == nil:
		what = "left"
	case errors.As(err, &lost):
		what = "lost"
	}
	_, err = fmt.Fprintf(f, "%s %d %d .\n", what, m.Round(), left)
	return err
}
