package sql_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/pauses"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/mutex"
)

func init() { proc.Register("sqlholder", holder) }

// report is what the holder says about its lock.
type report struct {
	Token coordinator.Token
	Alive bool
}

// holder locks args[1] at the URL args[0] and reports it, and again for each
// line that it receives.
func holder(ctx context.Context, io *proc.IO, args []string) error {
	c, err := coordinator.Open(args[0], silent)
	if err != nil {
		return err
	}
	m, err := mutex.New(c, args[1])
	if err != nil {
		return err
	}
	l, err := m.Lock(ctx)
	for err == nil {
		if err = io.Send(report{l.Token(), l.Context().Err() == nil}); err == nil {
			var ask string
			err = io.Recv(ctx, &ask)
		}
	}
	return err
}

// runs is how many holders are cut off: RUNS, or a few.
func runs(t *testing.T) int {
	text := os.Getenv("RUNS")
	if text == "" {
		return 6
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("RUNS=%q is no number of runs", text)
	}
	return n
}

// TestPausedHolderIsRefusedByTheToken: a holder that was stopped for longer
// than its TTL goes on. Its context has ended, and the register refuses its
// token.
func TestPausedHolderIsRefusedByTheToken(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		_, err := db.pool.Exec("CREATE TABLE register (token BIGINT, value BIGINT)")
		ok(t, err)
		_, err = db.pool.Exec("INSERT INTO register VALUES (0, 0)")
		ok(t, err)
		write := func(token coordinator.Token) error {
			return db.one(t.Context(), fmt.Sprintf("UPDATE register SET token = %d, value = value + 1 WHERE token <= %d", token, token))
		}
		m, err := mutex.New(db.client(t), "paused")
		ok(t, err)
		for range 2 {
			w := proc.Start(t, "sqlholder", db.ttlURL(db.Addr()), "paused")
			var stopped, resumed report
			w.Recv(&stopped)
			ok(t, write(stopped.Token))
			ok(t, w.Pause())
			l, err := m.Lock(soon(t))
			ok(t, err)
			ok(t, write(l.Token()))
			ok(t, w.Resume())
			w.Send("again")
			w.Recv(&resumed)
			if err := write(resumed.Token); err == nil || resumed.Token != stopped.Token {
				t.Errorf("token %d was accepted after %d", resumed.Token, l.Token())
			}
			await.Until(t, "the resumed holder learns that it is lost", func() bool {
				w.Send("again")
				w.Recv(&resumed)
				return !resumed.Alive
			})
			ok(t, l.Unlock(soon(t)))
			w.Kill()
		}
		var value int
		ok(t, db.pool.QueryRow("SELECT value FROM register").Scan(&value))
		if value != 4 {
			t.Errorf("%d writes; want 4", value)
		}
	})
}

// TestPausedWritersLoseNoUpdate: the register checks tokens.
func TestPausedWritersLoseNoUpdate(t *testing.T) {
	each(t, func(t *testing.T, db *database) { pauses.LoseNoUpdate(t, db.URL(db.Addr()), "writers") })
}

// TestHoldsAndQueueSurviveAKilledServer: the server is killed and returns
// within the TTL.
func TestHoldsAndQueueSurviveAKilledServer(t *testing.T) {
	eachServer(t, func(t *testing.T, db *database) {
		m, err := mutex.New(db.client(t), "server")
		ok(t, err)
		l, err := m.Lock(soon(t))
		ok(t, err)
		next := make(chan coordinator.Token, 1)
		other, err := mutex.New(db.client(t), "server")
		ok(t, err)
		go func() {
			l, err := other.Lock(soon(t))
			if err != nil {
				t.Error(err)
				next <- 0
				return
			}
			next <- l.Token()
		}()
		await.Until(t, "the waiter is queued", func() bool { return db.left(t) == 2 })
		ok(t, db.Restart(soon(t)))
		before := l.Deadline()
		await.Until(t, "a renewal after the restart", func() bool {
			if l.Err() != nil {
				t.Fatalf("the hold was lost: %v", context.Cause(l.Context()))
			}
			return l.Deadline().After(before)
		})
		select {
		case <-next:
			t.Fatal("granted while held")
		default:
		}
		ok(t, l.Unlock(soon(t)))
		if token := <-next; token <= l.Token() {
			t.Errorf("token %d after %d", token, l.Token())
		}
	})
}

// TestPartitionedHolderIsToldBeforeTheNextGrant: the context of a holder whose
// network drops everything ends before the next contender is granted the lock.
// RUNS=60 makes sixty runs.
func TestPartitionedHolderIsToldBeforeTheNextGrant(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		const together = 6
		least := time.Hour
		for first := 0; first < runs(t); first += together {
			var wg sync.WaitGroup
			early := make([]time.Duration, together)
			for i := range early {
				wg.Go(func() { early[i] = partition(t, db, first+i) })
			}
			wg.Wait()
			least = min(least, slices.Min(early))
		}
		t.Logf("told at least %v before the next grant", least)
	})
}

// partition cuts one holder off, and returns how long before the next grant its
// context ended.
func partition(t *testing.T, db *database, i int) time.Duration {
	proxy := servers.Proxy(t, []string{db.Addr()})
	own, other := db.shortClient(t, proxy.Addr()), db.client(t)
	defer other.Close(t.Context())
	name := fmt.Sprint("partition-", i)
	holder, err := mutex.New(own, name)
	if err != nil {
		t.Error(err)
		return 0
	}
	next, err := mutex.New(other, name)
	if err != nil {
		t.Error(err)
		return 0
	}
	l, err := holder.Lock(soon(t))
	if err != nil {
		t.Error(err)
		return 0
	}
	told := make(chan time.Time, 1)
	context.AfterFunc(l.Context(), func() { told <- time.Now() })
	await.For(t.Context(), time.Duration(i%10)*ttl/100) // phases of the renewals
	[]func(){proxy.Cut, proxy.CutUp, proxy.CutDown}[i%3]()
	following, err := next.Lock(soon(t))
	granted := time.Now()
	if err != nil {
		t.Error(err)
		return 0
	}
	if l.Context().Err() == nil || following.Token() <= l.Token() {
		t.Errorf("run %d: granted token %d after %d; context of the first: %v", i, following.Token(), l.Token(), l.Context().Err())
		return 0
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_ = own.Close(short)
	proxy.Close()
	return granted.Sub(<-told)
}

func errOf[T any](_ T, err error) error { return err }

// TestBrokenConnectionsLeaveNothingBehind: connections break at random moments,
// so that requests and replies of joins and leaves are lost. Holds exclude each
// other, tokens rise in the order of grants, and in the end the queue is empty.
func TestBrokenConnectionsLeaveNothingBehind(t *testing.T) {
	each(t, func(t *testing.T, db *database) {
		const clients = 3
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var last coordinator.Token
		var grants, broken int
		for range clients {
			proxy := servers.Proxy(t, []string{db.Addr()})
			m, err := mutex.New(db.shortClient(t, proxy.Addr()), "broken")
			ok(t, err)
			wg.Go(func() {
				for ctx.Err() == nil {
					short, cancel := context.WithTimeout(ctx, time.Duration(50+rand.IntN(400))*time.Millisecond)
					l, err := m.Lock(short)
					cancel()
					if err != nil {
						continue
					}
					mu.Lock() // held by one holder at a time, unless two hold
					if token := l.Token(); token <= last && l.Context().Err() == nil {
						t.Errorf("token %d after %d", token, last)
					}
					last = max(last, l.Token())
					grants++
					mu.Unlock()
					late, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
					_ = l.Unlock(late) // goes on in the background
					cancel()
				}
			})
			wg.Go(func() {
				for ctx.Err() == nil {
					await.For(ctx, time.Duration(200+rand.IntN(1500))*time.Millisecond)
					if rand.IntN(2) == 0 {
						proxy.CutDown() // replies are lost
						await.For(ctx, time.Duration(rand.IntN(30))*time.Millisecond)
					}
					proxy.Reset()
					proxy.Heal()
					mu.Lock()
					broken++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		m, err := mutex.New(db.client(t), "broken")
		ok(t, err)
		await.Until(t, "the queue is empty", func() bool {
			all, err := m.Contenders(soon(t))
			return err == nil && len(all) == 0 && db.left(t) == 0
		})
		t.Logf("%d grants, %d breaks, last token %d", grants, broken, last)
		if grants == 0 {
			t.Error("no grants")
		}
	})
}
