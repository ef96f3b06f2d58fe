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

	"github.com/baton-go/baton/integration/internal/proc"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

// These tests give a ZooKeeper a clock of its own by libfaketime. etcd reads
// the clock without the C library, so that nothing can be put between the two.

func init() { proc.Register("starved", starvedWorker) }

// faketime makes a command see another time. FAKETIME is libfaketime's own
// language.
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

// TestServerWhoseClockIsFastOrSlow: the margin covers a clock that is a fifth
// faster: the holder that is cut off is told before the next is granted. One
// that runs at twice the speed is beyond what is promised, and tokens are what
// is left. A slow one only cleans up late.
func TestServerWhoseClockIsFastOrSlow(t *testing.T) {
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
			t.Logf("granted %v after the cut, the holder was told %v before that", g.at.Sub(cut).Round(time.Millisecond), early.Round(time.Millisecond))
			if c.covered {
				told.before(g.at, "the holder")
			}
			if g.lock.Token() <= l.Token() {
				t.Errorf("token %d after %d", g.lock.Token(), l.Token())
			}
			mustHold(t, stays, "who is not cut off")
			unlock(t, g.lock)
		})
	}
}

// TestServerWhoseWallClockJumps by an hour, forth and back.
func TestServerWhoseWallClockJumps(t *testing.T) {
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
	crowd := e.crowd(t, 2, 20*time.Second)
	offsets := []string{"+3600", "+0", "-3600", "+0"}
	if !wholeMatrix() {
		offsets = offsets[:2]
	}
	for i, offset := range offsets {
		crowd.goesOn("before")
		set(offset)
		crowd.goesOn("after")
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
	crowd.disperse()
}

// starved is what a starved worker tells: its token, and when it last found its
// hold alive.
type starved struct {
	Token int64
	Alive time.Time
	Looks int
	// Blind counts looks that found the hold alive beyond its deadline.
	Blind int
}

// starvedWorker locks, and looks at its hold on a machine that has no time for
// it: url, name.
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

// TestHolderWithoutTimeForItsTimers: eight busy goroutines share one processor
// with it. Its timers run late; what it is told when it looks is computed at
// the look.
func TestHolderWithoutTimeForItsTimers(t *testing.T) {
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
		var g grant
		select {
		case g = <-got:
		case <-time.After(2 * time.Minute):
			t.Fatal("not granted within two minutes")
		}
		if g.err != nil {
			t.Fatal(g.err)
		}
		holder.Recv(&told)
		t.Logf("%d looks, the last that found it alive %v before the next grant", told.Looks, g.at.Sub(told.Alive).Round(time.Millisecond))
		if told.Blind > 0 || told.Alive.After(g.at) || told.Looks == 0 {
			t.Errorf("%+v; the next was granted at %v", told, g.at)
		}
		if int64(g.lock.Token()) <= token {
			t.Errorf("token %d after %d", g.lock.Token(), token)
		}
		unlock(t, g.lock)
	})
}
