package zkconn

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// round takes the next n targets and returns their addresses, sorted.
func round(t *testing.T, r *rotation, n int) []string {
	t.Helper()
	var addrs []string
	for range n {
		next, err := r.next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, next.addr)
	}
	slices.Sort(addrs)
	return addrs
}

// rotationOf has names that resolve as in dns, which may take a while.
func rotationOf(dns map[string][]string, slow map[string]time.Duration, servers ...string) *rotation {
	c := &Config{Servers: servers}
	c.names.Resolve = func(ctx context.Context, host string) ([]string, error) {
		select {
		case <-time.After(slow[host]):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if addrs, ok := dns[host]; ok {
			return addrs, nil
		}
		return nil, errNoSuchHost
	}
	return c.newRotation()
}

var errNoSuchHost = errors.New("no such host")

func TestEachRoundResolvesAnewAndTriesEveryAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := map[string][]string{"a": {"10.0.0.1", "10.0.0.2"}, "b": {"10.0.0.3"}}
		r := rotationOf(dns, nil, "a:1", "b:2", "127.0.0.1:3", "[::1]:4", "gone:5")
		want := []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:2", "127.0.0.1:3", "[::1]:4", "gone:5"}
		if got := round(t, r, 6); !slices.Equal(got, want) {
			t.Errorf("first round %v; want %v", got, want)
		}
		dns["a"] = []string{"10.0.9.9"}
		want = []string{"10.0.0.3:2", "10.0.9.9:1", "127.0.0.1:3", "[::1]:4", "gone:5"}
		if got := round(t, r, 5); !slices.Equal(got, want) {
			t.Errorf("second round %v; want %v", got, want)
		}
	})
}

func TestNameThatDoesNotResolveIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rotationOf(nil, nil, "gone:5")
		next, err := r.next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := new(Config).connect(t.Context(), next); !errors.Is(err, errNoSuchHost) {
			t.Errorf("%v", err)
		}
	})
}

// TestReconnectResolvesAgain: addresses of the last round may be days old. The
// server that was lost comes last.
func TestReconnectResolvesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}, "c": {"10.0.0.3"}}
		for range 20 { // rounds are shuffled
			dns["a"], dns["b"] = []string{"10.0.0.1"}, []string{"10.0.0.2"}
			r := rotationOf(dns, nil, "a:1", "b:1", "c:1")
			next, err := r.next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r.connected(next, 10*time.Second)
			time.Sleep(24 * time.Hour)
			dns["a"], dns["b"] = []string{"10.0.9.1"}, []string{"10.0.9.2"}
			first, second := round(t, r, 1)[0], round(t, r, 1)[0]
			for _, addr := range []string{first, second} {
				if addr == "10.0.0.1:1" || addr == "10.0.0.2:1" || addr == next.addr {
					t.Fatalf("connected to %s, then %s and %s are tried", next.addr, first, second)
				}
			}
		}
	})
}

// TestSlowNameServerDelaysNothingElse: the second of two name servers answers
// after five seconds.
func TestSlowNameServerDelaysNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := map[string][]string{"a": {"10.0.0.1"}, "b": {"10.0.0.2"}}
		slow := map[string]time.Duration{"a": 5 * time.Second, "b": 5 * time.Second}
		began := time.Now()
		r := rotationOf(dns, slow, "a:1", "10.0.0.3:1", "b:1")
		if got := round(t, r, 1); got[0] != "10.0.0.3:1" || time.Since(began) > time.Second {
			t.Errorf("%v after %v; want the address that needs no name", got, time.Since(began))
		}
		r = rotationOf(dns, slow, "a:1", "b:1")
		began = time.Now()
		want := []string{"10.0.0.1:1", "10.0.0.2:1"}
		if got := round(t, r, 2); !slices.Equal(got, want) || time.Since(began) > 6*time.Second {
			t.Errorf("%v after %v; want both after one lookup", got, time.Since(began))
		}
		began = time.Now()
		if got := round(t, r, 2); !slices.Equal(got, want) || time.Since(began) > time.Second {
			t.Errorf("%v after %v; want the known addresses", got, time.Since(began))
		}
		time.Sleep(5 * time.Second) // the lookups end
	})
}

func TestTargetKeepsTheNameForCertificates(t *testing.T) {
	r := rotationOf(map[string][]string{"zk.example": {"10.0.0.1"}}, nil, "zk.example:2281")
	if next, err := r.next(t.Context()); err != nil || next.addr != "10.0.0.1:2281" || next.host != "zk.example" {
		t.Errorf("%+v, %v", next, err)
	}
}

// TestPausesAreShortWhileTheSessionCanBeSaved: a lost connection is replaced at
// once, and servers that are all down are not dialled in a tight loop. Pauses
// grow when the session is lost, and with the outage for a session that never
// was.
func TestPausesAreShortWhileTheSessionCanBeSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		r := rotationOf(nil, nil, "10.0.0.1:1", "10.0.0.2:1")
		rounds := func(d time.Duration) (n int) {
			for end := time.Now().Add(d); time.Now().Before(end); n++ {
				round(t, r, 2)
			}
			return n
		}
		r.connected(target{}, ttl)
		time.Sleep(time.Hour)
		began := time.Now()
		round(t, r, 2)
		if took := time.Since(began); took != 0 {
			t.Errorf("the first round took %v", took)
		}
		if n := rounds(9 * time.Second); n < 60 || n > 120 {
			t.Errorf("%d rounds in the first 9s; want about 90", n)
		}
		time.Sleep(time.Second)
		if n := rounds(time.Minute); n > 70 {
			t.Errorf("%d rounds in a minute after the session", n)
		}
		if n := rounds(time.Hour); n < 1500 || n > 2100 {
			t.Errorf("%d rounds in an hour; want one in 2s", n)
		}
		outage := r.outage
		r = rotationOf(nil, nil, "10.0.0.1:1", "10.0.0.2:1")
		r.outage = outage // of another session
		if rounds(time.Minute) > 60 {
			t.Error("the next session's pauses began anew")
		}
		r.connected(target{}, ttl)
		r = rotationOf(nil, nil, "10.0.0.1:1", "10.0.0.2:1")
		r.outage = outage
		if n := rounds(time.Second); n < 5 {
			t.Errorf("%d rounds in the first second of another outage", n)
		}
	})
}

// TestOutageThatNoSessionSawEndIsForgotten: the client gave up during it, and
// opens another session hours later.
func TestOutageThatNoSessionSawEndIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Config{Servers: []string{"10.0.0.1:1"}}
		for range 3 {
			began := time.Now()
			for r := c.newRotation(); time.Since(began) < time.Second; {
				round(t, r, 1)
			}
			r := c.newRotation()
			if round(t, r, 1); r.pause() > longestPause/4 { // of a long outage: half of it at least
				t.Errorf("the first pause is long after %v", time.Since(began))
			}
			began = time.Now()
			for r = c.newRotation(); time.Since(began) < time.Hour; {
				round(t, r, 1)
			}
			r = c.newRotation()
			if round(t, r, 1); r.pause() < longestPause/2 {
				t.Error("another session has forgotten the outage under way")
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestPauseEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rotationOf(nil, nil, "10.0.0.1:1")
		round(t, r, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := r.next(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestUserIsToldThatNoNameServerAnswers: nothing else shows why a call waits.
func TestUserIsToldThatNoNameServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Config{Servers: []string{"a:1", "b:1"}}
		c.names.Resolve = func(ctx context.Context, _ string) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Open(ctx, 10*time.Second); err == nil || !strings.Contains(err.Error(), "lookup a:1,b:1: no answer yet") {
			t.Errorf("%v", err)
		}
		_ = c.Close(t.Context()) // else the test would wait a minute for the lookups
		began := time.Now()
		synctest.Wait()
		if _, err := c.names.Lookup(t.Context(), "a"); !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
			t.Errorf("after Close: %v after %v", err, time.Since(began))
		}
	})
}

// TestExamineReportsAServerWhoseNameIsStillLookedUp beside those that answer.
func TestExamineReportsAServerWhoseNameIsStillLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Config{Servers: []string{"10.0.0.1:1", "slow:1", "slow:2"}}
		c.Dial.Connect = func(context.Context, string) (net.Conn, error) { return nil, errors.New("refused") }
		c.names.Resolve = func(ctx context.Context, _ string) ([]string, error) {
			time.Sleep(5 * time.Second)
			return []string{"10.0.0.2"}, nil
		}
		found, _ := c.Examine(t.Context())
		for _, f := range found[1:] {
			if !strings.Contains(f.Text, "lookup slow: no answer yet") {
				t.Errorf("%+v", f)
			}
		}
		if len(found) != len(c.Servers) {
			t.Errorf("%d findings about %d servers", len(found), len(c.Servers))
		}
		time.Sleep(5 * time.Second)
	})
}
