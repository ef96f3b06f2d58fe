package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/history"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/ways"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
)

func init() { proc.Register("contend", contendWorker) }

// healedPatience is the contenders' patience after the last fault.
const healedPatience = 20 * time.Second

// kinds are what each client of a crew contends for at once.
var kinds = []history.Kind{history.Mutex, history.Mutex, history.Read, history.Write, history.Permits, history.Permits, history.Term}

// crewNames are the names of a crew's locks, read-write locks, semaphores and
// elections. There are several, since a contender that is cut off blocks its
// queue for the TTL.
func crewNames(name string) []string { return []string{name + "-a", name + "-b", name + "-c"} }

func crewName(name string, r *rand.Rand) string {
	all := crewNames(name)
	return all[r.IntN(len(all))]
}

// contender repeatedly acquires one kind of hold for a short time. Some
// attempts time out.
type contender struct {
	client func() *coordinator.Client // returns a new one after Close
	who    string
	name   string // see crewNames
	kind   history.Kind
	h      *history.History
	dir    string // of the registers that the mutexes protect
	r      *rand.Rand
	aim    chan<- struct{}    // receives when a long hold begins
	note   func(history.Kind) // if not nil, called at each grant
}

// run contends until healed is closed and one more hold was granted, or until
// ctx ends. It reports whether that grant came.
func (c contender) run(ctx context.Context, healed <-chan struct{}) bool {
	for ctx.Err() == nil {
		patience, last := time.Duration(1+c.r.IntN(3000))*time.Millisecond, false
		select {
		case <-healed:
			patience, last = healedPatience, true
		default:
		}
		if c.attempt(ctx, healed, patience) && last {
			return true
		}
		await.For(ctx, time.Duration(c.r.IntN(60))*time.Millisecond)
	}
	return false
}

// attempt acquires the hold once, if it can within its patience, and releases
// it.
func (c contender) attempt(ctx context.Context, healed <-chan struct{}, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n, limit := 1, 1
	if c.kind == history.Permits {
		n, limit = []int{1, 2, ways.Permits}[c.r.IntN(3)], ways.Permits
	}
	c.name = crewName(c.name, c.r)
	a := c.h.Attempt(c.who, c.name, c.kind, n, limit)
	h, err := c.take(ctx, n)
	if err != nil {
		a.Failed(err)
		if errors.Is(err, coordinator.ErrClosed) {
			await.For(ctx, 50*time.Millisecond) // until there is another client
		}
		return false
	}
	g := a.Granted(h.Context, h.Token)
	g.Until(h.Deadline)
	if c.note != nil {
		c.note(c.kind)
	}
	switch {
	case c.kind == history.Mutex:
		c.increment(h)
	case c.kind == history.Write && c.r.IntN(3) == 0:
		h.Release = c.downgrade(h, g)
	}
	length := time.Duration(c.r.IntN(20)) * time.Millisecond
	if c.r.IntN(40) == 0 && patience < healedPatience { // long enough to be lost
		length = time.Duration(c.r.IntN(10_000)) * time.Millisecond
		select {
		case c.aim <- struct{}{}:
		default:
		}
	}
	working, end := context.WithTimeout(h.Context, length)
	select {
	case <-working.Done():
	case <-healed:
	}
	end()
	g.Releasing()
	bounded, cancelRelease := context.WithTimeout(context.Background(), time.Second)
	defer cancelRelease()
	g.Released(h.Release(bounded)) // continues in the background after a timeout
	return true
}

// take asks for the hold, for a mutex sometimes without waiting.
func (c contender) take(ctx context.Context, n int) (ways.Hold, error) {
	if c.kind == history.Mutex && c.r.IntN(10) == 0 {
		m, err := mutex.New(c.client(), c.name)
		if err != nil {
			return ways.Hold{}, err
		}
		l, err := m.TryLock(ctx)
		return ways.HoldOf(l, l.Unlock, err)
	}
	w := map[history.Kind]ways.Way{history.Mutex: ways.Lock, history.Read: ways.Read, history.Write: ways.Write, history.Term: ways.Term}[c.kind]
	if c.kind == history.Permits {
		w = map[int]ways.Way{1: ways.Permit, 2: ways.Two, ways.Permits: ways.All}[n]
	}
	return w.Ask(ctx, c.client(), c.name)
}

// downgrade converts the hold to a read lock, and returns the release of that.
func (c contender) downgrade(h ways.Hold, g *history.Grant) (release func(context.Context) error) {
	l, err := rwlock.New(c.client(), c.name)
	if err != nil {
		return h.Release
	}
	ctx, cancel := context.WithTimeout(h.Context, time.Second)
	defer cancel()
	r, err := l.RLock(ctx)
	if err != nil || r.Token() != h.Token { // a new hold after the loss of the write lock; not recorded
		if err == nil {
			_ = r.Unlock(ctx)
		}
		return h.Release
	}
	g.Downgraded(r.Context())
	ctx, cancel = context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = h.Release(ctx)
	return r.Unlock
}

// increment adds one to the register, with a pause between the read and the
// write. No addition may be lost.
func (c contender) increment(h ways.Hold) {
	number := tally{c.dir, c.name}
	value, ok := number.read(c.who, int64(h.Token))
	if !ok {
		return
	}
	await.For(h.Context, time.Duration(c.r.IntN(20))*time.Millisecond)
	number.write(c.who, int64(h.Token), value+1)
}

// tally is a number in a file that processes share. It checks and stores the
// token of each access. The file lists all accesses in order, also those of a
// process that was killed.
type tally struct{ dir, name string }

func (r tally) path() string { return filepath.Join(r.dir, r.name+".register") }

func (r tally) read(who string, token int64) (value int, ok bool) {
	a := r.access(history.Access{Client: who, Token: token, Read: true})
	return number(a.Value), a.Accepted
}

func (r tally) write(who string, token int64, value int) {
	r.access(history.Access{Client: who, Token: token, Value: fmt.Sprintf("%d %s", value, who)})
}

// number parses a value, which names its writer so that all values differ.
func number(value string) int {
	first, _, _ := strings.Cut(value, " ")
	n, _ := strconv.Atoi(first) // 0 for an empty value
	return n
}

// state is the last line of the file.
type state struct {
	history.Access
	Max     int64  // the greatest accepted token
	Current string // the value after the access
}

func (r tally) access(a history.Access) history.Access {
	a.Name, a.Begin = r.name, history.Now()
	f, err := os.OpenFile(r.path(), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		panic(err)
	}
	var last state
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		tail := make([]byte, min(info.Size(), 4096))
		if _, err := f.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
			panic(err)
		}
		lines := bytes.Split(bytes.TrimSpace(tail), []byte("\n"))
		if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
			panic(err)
		}
	}
	if a.Accepted = a.Token >= last.Max; a.Accepted && !a.Read {
		last.Current = a.Value
	}
	if a.Read {
		a.Value = last.Current
	}
	last.Max, a.End = max(last.Max, a.Token), history.Now()
	last.Access = a
	line, err := json.Marshal(last)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
	return a
}

// record adds all accesses to the history, and fails the test if an addition
// was lost.
func (r tally) record(t testing.TB, h *history.History) {
	t.Helper()
	b, err := os.ReadFile(r.path())
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	value := 0
	for line := range bytes.Lines(b) {
		var s state
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatal(err)
		}
		a := s.Access
		if a.Read {
			h.Read(a.Client, a.Name, coordinator.Token(a.Token), a.Value, a.Begin, a.End, a.Accepted)
			continue
		}
		h.Write(a.Client, a.Name, coordinator.Token(a.Token), a.Value, a.Begin, a.End, a.Accepted)
		if !a.Accepted {
			continue
		}
		if number(a.Value) != value+1 {
			t.Errorf("an addition was lost: %d was followed by %q of token %d", value, a.Value, a.Token)
		}
		value = number(a.Value)
	}
}

// contendAll runs a contender of each kind and returns the kinds that were not
// granted after healed was closed.
func contendAll(ctx context.Context, healed <-chan struct{}, seed uint64, c contender) (stuck []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, kind := range kinds {
		c := c
		c.kind, c.r = kind, rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			if !c.run(ctx, healed) {
				mu.Lock()
				defer mu.Unlock()
				stuck = append(stuck, string(kind))
			}
		})
	}
	wg.Wait()
	return stuck
}

// recordedClient opens the client of a worker and its history, which is written
// to a file, and says that the worker is ready: url, who, name, directory.
func recordedClient(
	io *proc.IO, args []string, opts ...coordinator.Option,
) (*coordinator.Client, *history.History, *os.File, error) {
	opts = append([]coordinator.Option{silent, coordinator.WithIdentity(args[1])}, opts...)
	client, err := coordinator.Open(args[0], opts...)
	if err != nil {
		return nil, nil, nil, err
	}
	path := filepath.Join(args[3], args[1]+".history")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, nil, err
	}
	h := history.New()
	h.AppendTo(f)
	return client, h, f, io.Send("ready")
}

// contendWorker is a client in a process of its own: url, who, name, directory,
// seed. It contends until it receives a message, and then reports the kinds
// that are stuck.
func contendWorker(ctx context.Context, io *proc.IO, args []string) error {
	seed, err := strconv.ParseUint(args[4], 10, 64)
	if err != nil {
		return err
	}
	client, h, f, err := recordedClient(io, args)
	if err != nil {
		return err
	}
	defer f.Close()
	healed := make(chan struct{})
	go func() {
		var bound time.Duration
		if io.Recv(ctx, &bound) == nil {
			close(healed)
		}
	}()
	stuck := contendAll(ctx, healed, seed, contender{
		client: func() *coordinator.Client { return client }, who: args[1], name: args[2], h: h,
		dir: args[3],
	})
	err = io.Send(stuck)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, client.Close(bounded))
}
