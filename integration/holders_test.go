package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/mutex"
)

func init() {
	proc.Register("increment", incrementWorker)
	proc.Register("hold", holdWorker)
}

// increment adds to a number in a file, n times, with separate reads and
// writes. Without a lock, additions are lost and the marker already exists.
func increment(ctx context.Context, m *mutex.Mutex, path string, n int) error {
	for range n {
		err := m.Do(ctx, func(context.Context, *mutex.Lock) error {
			marker, err := os.OpenFile(path+".busy", os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("two at once: %w", err)
			}
			_ = marker.Close()
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			v, err := strconv.Atoi(string(b))
			if err != nil {
				return err
			}
			await.For(ctx, 200*time.Microsecond)
			if err := os.WriteFile(path, []byte(strconv.Itoa(v+1)), 0o600); err != nil {
				return err
			}
			return os.Remove(path + ".busy")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// incrementWorker is increment in a process of its own: url, name, path, n.
func incrementWorker(ctx context.Context, io *proc.IO, args []string) error {
	c, err := coordinator.Open(args[0], silent)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	m, err := mutex.New(c, args[1])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	if err := increment(ctx, m, args[2], n); err != nil {
		return err
	}
	return io.Send("done")
}

// The contenders are goroutines of one client, clients of one process,
// processes, and all of them together.
func TestExclusionInAllPairings(t *testing.T) {
	t.Parallel()
	const additions = 25
	each(t, func(t *testing.T, s site) {
		name, path := servers.Name(t), filepath.Join(t.TempDir(), "number")
		if err := os.WriteFile(path, []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
		want := 0
		expect := func(t *testing.T, added int) {
			want += added
			if b, err := os.ReadFile(path); err != nil || string(b) != strconv.Itoa(want) {
				t.Fatalf("the number is %s, want %d: %v", b, want, err)
			}
		}
		inProcess := func(t *testing.T, mutexes ...*mutex.Mutex) {
			var wg sync.WaitGroup
			for _, m := range mutexes {
				wg.Go(func() {
					if err := increment(context.Background(), m, path, additions); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		start := func(t *testing.T) *proc.Child {
			return proc.Start(t, "increment", s.url(10*time.Second), name, path, strconv.Itoa(additions))
		}
		finish := func(c *proc.Child) { var done string; c.Recv(&done) }
		a, b := s.client(t, 10*time.Second), s.client(t, 10*time.Second)

		t.Run("goroutines", func(t *testing.T) {
			m := newMutex(t, a, name)
			inProcess(t, m, m, m)
			expect(t, 3*additions)
		})
		t.Run("sessions", func(t *testing.T) {
			inProcess(t, newMutex(t, a, name), newMutex(t, b, name))
			expect(t, 2*additions)
		})
		t.Run("processes", func(t *testing.T) {
			p, q := start(t), start(t)
			finish(p)
			finish(q)
			expect(t, 2*additions)
		})
		t.Run("all", func(t *testing.T) {
			p, q := start(t), start(t)
			inProcess(t, newMutex(t, a, name), newMutex(t, a, name), newMutex(t, b, name))
			finish(p)
			finish(q)
			expect(t, 5*additions)
		})
	})
}

// held is the report of a holding worker.
type held struct {
	Token int64
	Err   string // cause of the end of the hold
	// Blind is how long after its deadline the hold still seemed alive.
	Blind time.Duration
}

// lockAt locks in a worker, with a client of its own.
func lockAt(ctx context.Context, url, name string) (*coordinator.Client, *mutex.Lock, error) {
	c, err := coordinator.Open(url, silent)
	if err != nil {
		return nil, nil, err
	}
	m, err := mutex.New(c, name)
	if err != nil {
		return nil, nil, err
	}
	l, err := m.Lock(ctx)
	return c, l, err
}

// holdWorker locks, reports it, and checks its hold continuously: url, name. It
// closes its client when it receives a message.
func holdWorker(ctx context.Context, io *proc.IO, args []string) error {
	c, l, err := lockAt(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	if err := io.Send(held{Token: int64(l.Token())}); err != nil {
		return err
	}
	go func() {
		var word string
		_ = io.Recv(ctx, &word)
		_ = c.Close(ctx)
		_ = io.Send("closed")
	}()
	for blind := time.Duration(0); ; await.For(ctx, time.Millisecond) {
		past := time.Since(l.Deadline()) // at the first check after a pause, too
		if l.Err() != nil || l.Context().Err() != nil {
			return errors.Join(io.Send(held{Err: l.Err().Error(), Blind: blind}), waitForEnd(ctx))
		}
		blind = max(blind, past)
	}
}

func waitForEnd(ctx context.Context) error { <-ctx.Done(); return nil }

func TestKilledHolderIsSucceeded(t *testing.T) {
	t.Parallel()
	together(t, func(t *testing.T, s site) {
		t.Logf("succeeded %v after the kill", s.succession(t, 3*time.Second).Round(time.Millisecond))
	})
}

// succession kills a holder and returns the time until it is succeeded.
func (s site) succession(t *testing.T, ttl time.Duration) time.Duration {
	t.Helper()
	name := servers.Name(t)
	holder := proc.Start(t, "hold", s.url(ttl), name)
	var h held
	holder.Recv(&h)
	m := newMutex(t, s.client(t, 10*ttl), name)
	got := granted(t.Context(), m)
	awaitQueue(t, m, 2)
	killed := time.Now()
	holder.Kill()
	g := await.Receive(t, "the next grant", got)
	if g.err != nil {
		t.Fatal(g.err)
	}
	if int64(g.lock.Token()) <= h.Token {
		t.Errorf("token %d after %d", g.lock.Token(), h.Token)
	}
	unlock(t, g.lock)
	return g.at.Sub(killed)
}

func TestHolderThatClosesIsSucceededAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		const ttl = 30 * time.Second
		holder := proc.Start(t, "hold", s.url(ttl), name)
		var h held
		holder.Recv(&h)
		m := newMutex(t, s.client(t, ttl), name)
		got := wait(context.Background(), m)
		awaitQueue(t, m, 2)
		closed := time.Now()
		holder.Send("close")
		if err := await.Receive(t, "the next grant", got); err != nil {
			t.Error(err)
		}
		if expires := closed.Add(ttl); time.Now().After(expires) {
			t.Error("the next holder got the name only when the session could have expired")
		}
	})
}

// The holder is stopped for longer than its TTL.
func TestPausedHolderSeesItsLossAtTheFirstCheck(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second // a busy machine renews in time
	together(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		holder := proc.Start(t, "hold", s.url(ttl), name)
		var h held
		holder.Recv(&h)
		if err := holder.Pause(); err != nil {
			t.Fatal(err)
		}
		m := newMutex(t, s.client(t, longTTL), name)
		l := lock(t, m)
		if int64(l.Token()) <= h.Token {
			t.Errorf("token %d after %d", l.Token(), h.Token)
		}
		if err := holder.Resume(); err != nil {
			t.Fatal(err)
		}
		holder.Recv(&h)
		if h.Err == "" || !strings.Contains(h.Err, "lost") || h.Blind != 0 {
			t.Errorf("after the pause the holder saw %+v", h)
		}
		if l.Err() != nil || inQueue(t, m) != 1 {
			t.Errorf("the next hold ended: %v", l.Err())
		}
		unlock(t, l)
	})
}
