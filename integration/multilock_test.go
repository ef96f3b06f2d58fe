package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	observed "github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/history"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/recipes/multilock"
)

func init() { proc.Register("multilock", multilockWorker) }

type worker struct {
	*proc.Child
	who string
}

// TestSetsUnderKills: eight processes lock random sets of twelve names, given
// in random order, while one after the other is killed and replaced. Sets that
// overlap neither deadlock nor are held together, each process acquires in one
// order, and in the end nothing is left in the queues.
func TestSetsUnderKills(t *testing.T) {
	const ttl, processes = 4 * time.Second, 8
	together(t, func(t *testing.T, s site) {
		name, dir, seed := fresh(t)("set"), t.TempDir(), rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		h, started := history.New(), 0
		start := func() (w worker) {
			started++
			w.who = fmt.Sprintf("process-%d", started)
			w.Child = proc.Start(t, "multilock", s.url(ttl), w.who, name, dir, strconv.FormatUint(seed, 10))
			var ready string
			w.Recv(&ready)
			return w
		}
		var workers []worker
		for range processes {
			workers = append(workers, start())
		}
		for end := time.Now().Add(chaosTime(t)); time.Now().Before(end); {
			await.For(t.Context(), time.Second)
			i := r.IntN(processes)
			workers[i].Kill()
			h.Excuse(workers[i].who, "", "killed", history.Now(), history.Forever)
			workers[i] = start()
		}
		for _, w := range workers {
			w.Send("end")
			var wrong string
			if w.Recv(&wrong); wrong != "" {
				t.Errorf("%s: %s", w.who, wrong)
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.history"))
		if err != nil || len(files) != started {
			t.Fatalf("%d histories of %d processes: %v", len(files), started, err)
		}
		for _, f := range files {
			part, err := history.Load(f)
			if err != nil {
				t.Fatal(err)
			}
			h.Merge(part)
		}
		report := h.Check(t)
		t.Logf("%v", report)
		if report.Grants[history.Mutex] < started {
			t.Errorf("only %d grants", report.Grants[history.Mutex])
		}
		s.becomesEmpty(t, name)
	})
}

// inOrder is an observer that checks in which order queues are entered.
type inOrder struct {
	mu    sync.Mutex
	held  []string // by the call under way
	wrong string
}

// Direct implements event.Direct: the test reads the result after a call.
func (o *inOrder) Direct() {}

func (o *inOrder) Observe(e observed.Event) {
	if e.Kind != observed.Granted {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = append(o.held, string(e.Queue))
	if !slices.IsSorted(o.held) {
		o.wrong = fmt.Sprintf("acquired in the order %v", o.held)
	}
}

// begin forgets the last call.
func (o *inOrder) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = nil
}

// multilockWorker locks sets until it is told to end, and once more: url, who,
// name, directory, seed.
func multilockWorker(ctx context.Context, io *proc.IO, args []string) error {
	seed, err := strconv.ParseUint(args[4], 10, 64)
	if err != nil {
		return err
	}
	order := &inOrder{}
	client, h, f, err := recordedClient(io, args, coordinator.WithObserver(order))
	if err != nil {
		return err
	}
	defer f.Close()
	ending := toldToEnd(ctx, io)
	number, err := strconv.ParseUint(strings.TrimPrefix(args[1], "process-"), 10, 64)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(seed, number))
	wrong := ""
	for last := false; !last && wrong == ""; {
		select {
		case <-ending:
			last = true
		default:
		}
		order.begin()
		err := lockSome(ctx, client, h, args[1], args[2], r)
		if err != nil && !errors.Is(err, coordinator.ErrSessionLost) { // as on a stalled machine
			wrong = err.Error()
		}
		if order.wrong != "" {
			wrong = order.wrong
		}
	}
	err = io.Send(wrong)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, client.Close(bounded))
}

// lockSome locks one to four of twelve names, which it waits for as long as it
// takes when holders are killed, but not as long as for a deadlock.
func lockSome(
	ctx context.Context, client *coordinator.Client, h *history.History, who, name string, r *rand.Rand,
) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var members []multilock.Member
	var attempts []*history.Attempt
	for _, i := range r.Perm(12)[:1+r.IntN(4)] {
		n := fmt.Sprintf("%s-%02d", name, i)
		members = append(members, multilock.Mutex(client, n))
		attempts = append(attempts, h.Attempt(who, n, history.Mutex, 1, 1))
	}
	set, err := multilock.New(members...)
	if err != nil {
		return err
	}
	l, err := set.Lock(ctx)
	if err != nil {
		for _, a := range attempts {
			a.Failed(err)
		}
		return err
	}
	var grants []*history.Grant
	for i, token := range l.Tokens() {
		g := attempts[i].Granted(l.Context(), token)
		g.Until(l.Deadline)
		grants = append(grants, g)
	}
	await.For(l.Context(), time.Duration(r.IntN(10))*time.Millisecond)
	for _, g := range grants {
		g.Releasing()
	}
	err = l.Unlock(ctx)
	for _, g := range grants {
		g.Released(err)
	}
	return err
}
