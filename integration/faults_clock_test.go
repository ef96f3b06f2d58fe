package integration_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

// These tests change a ZooKeeper's clock with libfaketime. etcd reads the clock
// without the C library, so its clock cannot be changed.

func init() { proc.Register("starved", starvedWorker) }

// faketime makes a command see a different time. FAKETIME has libfaketime's
// syntax.
func faketime(t *testing.T, env ...string) func(int, *exec.Cmd) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if len(found) == 0 {
		t.Fatal("libfaketimeMT.so.1 is missing; on Debian and its relatives, as root: apt-get install libfaketime")
	}
	return func(_ int, cmd *exec.Cmd) {
		cmd.Env = append(cmd.Environ(), append(env, "LD_PRELOAD="+found[0])...)
	}
}

// The margin covers a clock that is a fifth faster: the partitioned holder is
// notified before the next grant. A clock at twice the speed is beyond the
// promise; only tokens protect then. A slow clock only delays clean-up.
func TestMarginCoversAFastServerClock(t *testing.T) {
	t.Parallel()
	const ttl = 12 * time.Second
	for _, c := range []struct {
		rate    string
		covered bool
	}{{"x1.2", true}, {"x2.0", false}, {"x0.5", true}} {
		t.Run(c.rate, func(t *testing.T) {
			t.Parallel()
			if c.rate == "x0.5" {
				expensive(t)
			}
			e := ownZooKeeper(t, zkserver.Options{Wrap: faketime(t, "FAKETIME=+0 "+c.rate)})
			far, name := e.link(t, ttl), servers.Name(t)
			next := newMutex(t, e.client(t, ttl), name)
			stays := lock(t, newMutex(t, e.client(t, 30*time.Second), servers.Name(t)))
			l := lock(t, newMutex(t, far.Client, name))
			told := awaitTelling(t, l.Context(), l.Deadline)
			got := granted(t.Context(), next)
			awaitQueue(t, next, 2)
			cut := time.Now()
			far.proxy.Cut()
			g := <-got
			if g.err != nil {
				t.Fatal(g.err)
			}
			early := g.at.Sub(told.wait())
			t.Logf("granted %v after the cut, the holder was notified %v before that", g.at.Sub(cut).Round(time.Millisecond), early.Round(time.Millisecond))
			if c.covered {
				told.before(g.at, "the holder")
			}
			if g.lock.Token() <= l.Token() {
				t.Errorf("token %d after %d", g.lock.Token(), l.Token())
			}
			mustHold(t, stays, "the holder that is not cut off")
			unlock(t, g.lock)
		})
	}
}

// The clock jumps by an hour, forward and back.
func TestHoldsSurviveWallClockJumpsOfTheServer(t *testing.T) {
	t.Parallel()
	wall := filepath.Join(t.TempDir(), "wall")
	set := func(offset string) {
		t.Helper()
		if err := os.WriteFile(wall, []byte(offset+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("+0")
	e := ownZooKeeper(t, zkserver.Options{Wrap: faketime(t,
		"FAKETIME_TIMESTAMP_FILE="+wall, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1",
	)})
	l := lock(t, newMutex(t, e.client(t, 20*time.Second), servers.Name(t)))
	conn := e.zkConn(t, 10*time.Second)
	workload := e.workload(t, 2, 20*time.Second)
	offsets := []string{"+3600", "+0", "-3600", "+0"}
	if !wholeMatrix() {
		offsets = offsets[:2]
	}
	for i, offset := range offsets {
		workload.progresses("before")
		set(offset)
		workload.progresses("after")
		mustHold(t, l, offset)
		node, err := conn.Create("/clock", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		_, stat, err := conn.Exists(node)
		if err != nil {
			t.Fatal(err)
		}
		ahead := time.Until(time.UnixMilli(stat.Ctime)).Round(time.Minute)
		if want := []time.Duration{time.Hour, 0, -time.Hour, 0}[i]; ahead != want {
			t.Errorf("the server's clock is %v ahead, want %v: the test shows nothing", ahead, want)
		}
	}
	workload.finish()
}

// starved is a starved worker's report: its token, and when it last found its
// hold alive.
type starved struct {
	Token int64
	Alive time.Time
	Looks int
	// Blind counts checks that found the hold alive after its deadline.
	Blind int
}

// starvedWorker locks, and checks its hold while the process gets little CPU
// time: url, name.
func starvedWorker(ctx context.Context, io *proc.IO, args []string) error {
	_, l, err := lockAt(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	if err := io.Send(starved{Token: int64(l.Token())}); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	for range 8 {
		go func() {
			for i := 0; ctx.Err() == nil; i++ {
			}
		}()
	}
	var s starved
	for {
		deadline, now := l.Deadline(), time.Now()
		if l.Err() != nil {
			break
		}
		s.Looks++
		s.Alive = now
		if now.After(deadline) && l.Deadline().Equal(deadline) {
			s.Blind++
		}
		runtime.Gosched()
	}
	if l.Context().Err() == nil {
		s.Blind++
	}
	return io.Send(s)
}

// Eight busy goroutines share one processor with the holder. Its timers run
// late, but Err compares the deadline with the clock when it is called.
func TestStarvedHolderSeesItsLossInTime(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	each(t, func(t *testing.T, s site) {
		proxy, name := servers.Proxy(t, s.endpoints), servers.Name(t)
		holder := proc.Start(t, "starved", s.url(ttl, proxy.Addr()), name)
		var told starved
		holder.Recv(&told)
		token := told.Token
		m := newMutex(t, s.client(t, 20*time.Second), name)
		got := granted(t.Context(), m)
		awaitQueue(t, m, 2)
		proxy.Cut()
		g := await.Receive(t, "the grant to the waiter", got)
		if g.err != nil {
			t.Fatal(g.err)
		}
		holder.Recv(&told)
		t.Logf("%d checks, the last that found it alive %v before the next grant", told.Looks, g.at.Sub(told.Alive).Round(time.Millisecond))
		if told.Blind > 0 || told.Alive.After(g.at) || told.Looks == 0 {
			t.Errorf("%+v; the next was granted at %v", told, g.at)
		}
		if int64(g.lock.Token()) <= token {
			t.Errorf("token %d after %d", g.lock.Token(), token)
		}
		unlock(t, g.lock)
	})
}
