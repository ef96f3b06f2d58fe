// Package pauses stops writers for longer than their TTL while they hold a
// lock, and counts the updates that a register loses. The register checks
// tokens.
package pauses

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/mutex"
)

func init() { proc.Register("paused-writer", writer) }

const ttl = time.Second

// access is a read, or a write, of the register in the test's process. The
// answer is the value, or a refusal.
type access struct {
	Sequencer string
	Write     bool
	Value     int
}

type answer struct {
	Value   int
	Refused bool
}

// writer locks, reads a number, waits, and writes the next one, over and over.
func writer(ctx context.Context, io *proc.IO, args []string) error {
	c, err := coordinator.Open(args[0], coordinator.WithTTL(ttl))
	if err != nil {
		return err
	}
	m, err := mutex.New(c, args[1])
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		l, err := m.Lock(ctx)
		if err != nil {
			continue // the session was lost in a pause
		}
		if seq, err := l.Sequencer(ctx); err == nil {
			if err := increment(ctx, io, seq.String()); err != nil {
				return err
			}
		}
		_ = l.Unlock(ctx) // it may be lost
	}
	return nil
}

func increment(ctx context.Context, io *proc.IO, seq string) error {
	var a answer
	if err := io.Send(access{Sequencer: seq}); err != nil {
		return err
	}
	if err := io.Recv(ctx, &a); err != nil || a.Refused {
		return err
	}
	time.Sleep(30 * time.Millisecond) // the pauses begin here
	if err := io.Send(access{Sequencer: seq, Write: true, Value: a.Value + 1}); err != nil {
		return err
	}
	return io.Recv(ctx, &a)
}

// LoseNoUpdate runs three writers that lock the name at the service of a URL,
// and pauses them for ten seconds, or as long as BATON_PAUSES says.
func LoseNoUpdate(t *testing.T, url, name string) {
	t.Helper()
	lasts, err := time.ParseDuration(os.Getenv("BATON_PAUSES"))
	if err != nil {
		lasts = 10 * time.Second
	}
	r := &counter{t: t}
	var writers []*proc.Child
	var wg sync.WaitGroup
	for range 3 {
		w := proc.Start(t, "paused-writer", url, name)
		writers = append(writers, w)
		wg.Go(func() { r.serve(w) })
	}
	pauses := 0
	for end := time.Now().Add(lasts); time.Now().Before(end); pauses++ {
		w := r.awaitReader()
		if err := w.Pause(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl + 200*time.Millisecond + rand.N(300*time.Millisecond))
		if err := w.Resume(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(50 * time.Millisecond))
	}
	r.end()
	for _, w := range writers {
		w.Kill()
	}
	wg.Wait()
	t.Logf("%d updates, %d late accesses refused, %d pauses", r.written, r.refused, pauses)
	if r.value != r.written {
		t.Errorf("%d updates were acknowledged, the value is %d", r.written, r.value)
	}
	if r.written == 0 || r.refused == 0 {
		t.Errorf("%d updates and %d refusals in %d pauses: the test shows little", r.written, r.refused, pauses)
	}
}

// counter is a register that refuses late tokens.
type counter struct {
	t                       *testing.T
	mu                      sync.Mutex
	gate                    *fence.Gate
	value, written, refused int
	latest                  *proc.Child // that has read
	over                    bool
}

// awaitReader returns the writer that has read and may be about to write.
func (r *counter) awaitReader() *proc.Child {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		r.mu.Lock()
		w := r.latest
		r.mu.Unlock()
		if w != nil {
			return w
		}
	}
	r.t.Fatal("no writer reads")
	return nil
}

// end ends all answers.
func (r *counter) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

func (r *counter) serve(w *proc.Child) {
	for {
		var a access
		if w.TryRecv(&a, time.Minute) != nil {
			return // it was killed
		}
		r.access(w, a)
	}
}

func (r *counter) access(w *proc.Child, a access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	seq, err := fence.Parse(a.Sequencer)
	if err != nil {
		r.t.Error(err)
		return
	}
	if r.gate == nil {
		r.gate = fence.NewGate(seq.Scope)
	}
	var reply answer
	err = r.gate.Do(context.Background(), seq, func(context.Context) error {
		if r.latest = w; a.Write {
			r.value, r.latest = a.Value, nil
			r.written++
		}
		reply.Value = r.value
		return nil
	})
	if err != nil {
		r.refused++
		reply.Refused = true
	}
	w.Send(reply)
}
