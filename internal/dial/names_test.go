package dial

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

// network has the addresses that accept; the others drop packets.
func network(accept ...string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		if slices.Contains(accept, addr) {
			here, there := net.Pipe()
			_ = there.Close()
			return here, nil
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

func names(after time.Duration, addrs ...string) Names {
	return Names{Resolve: func(ctx context.Context, _ string) ([]string, error) {
		select {
		case <-time.After(after):
			return addrs, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

// TestAddressThatDropsPacketsTakesNoTimeFromTheOthers: two seconds are etcd's
// default for an attempt.
func TestAddressThatDropsPacketsTakesNoTimeFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dialer{connect: network("10.0.0.4:1"), Names: names(0, "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		conn, err := d.TCP(ctx, "a:1")
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	})
}

func TestRefusalOfOneAddressLeadsToTheNextAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		d := &Dialer{Names: names(0, "10.0.0.1", "10.0.0.2", "10.0.0.3")}
		d.connect = func(ctx context.Context, n, addr string) (net.Conn, error) {
			if addr != "10.0.0.3:1" {
				return nil, refused
			}
			return network(addr)(ctx, n, addr)
		}
		began := time.Now()
		conn, err := d.TCP(t.Context(), "a:1")
		if took := time.Since(began); err != nil || took != 0 {
			t.Fatalf("%v after %v", err, took)
		}
		_ = conn.Close()
		d.Names = names(0, "10.0.0.1", "10.0.0.2")
		if _, err := d.TCP(t.Context(), "a:1"); !errors.Is(err, refused) || time.Since(began) != 0 {
			t.Errorf("refused by all: %v", err)
		}
	})
}

// TestLookupOutlivesTheAttemptThatBeganIt: the system's resolver asks the
// second name server after five seconds, and an attempt takes two at most.
func TestLookupOutlivesTheAttemptThatBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dialer{connect: network("10.0.0.1:1"), Names: names(5*time.Second, "10.0.0.1")}
		attempts := 0
		for {
			attempts++
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			conn, err := d.TCP(ctx, "a:1")
			cancel()
			if err == nil {
				_ = conn.Close()
				break
			}
			var dns *net.DNSError
			if !errors.As(err, &dns) || !dns.Timeout() || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "lookup a") {
				t.Errorf("attempt %d: %v; want a timeout of the lookup", attempts, err)
			}
			if attempts == 3 {
				t.Fatalf("attempt %d: %v", attempts, err)
			}
		}
	})
}

func TestKnownAddressesAreUsedWhileTheNameServersAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := names(0, "10.0.0.1")
		lookup := func() []string {
			t.Helper()
			began := time.Now()
			addrs, err := n.Lookup(t.Context(), "a")
			if took := time.Since(began); err != nil || took > lookupPatience {
				t.Errorf("%v after %v", err, took)
			}
			return addrs
		}
		if got := lookup(); !slices.Equal(got, []string{"10.0.0.1"}) {
			t.Errorf("%v", got)
		}
		n.Resolve = names(5*time.Second, "10.0.0.2").Resolve
		if got := lookup(); !slices.Equal(got, []string{"10.0.0.1"}) {
			t.Errorf("during a slow lookup: %v; want the known address", got)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait() // the lookup has ended
		n.Resolve = func(context.Context, string) ([]string, error) { return nil, errors.New("no such host") }
		if got := lookup(); !slices.Equal(got, []string{"10.0.0.2"}) {
			t.Errorf("after a lookup that failed: %v; want the latest address", got)
		}
		n.Resolve = names(0, "10.0.0.3").Resolve
		if got := lookup(); !slices.Equal(got, []string{"10.0.0.3"}) {
			t.Errorf("%v; want the new address", got)
		}
		if _, err := n.Lookup(t.Context(), "b"); err != nil {
			t.Errorf("another name: %v", err)
		}
	})
}

func TestLookupsOfANameAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, lookups := names(time.Second, "10.0.0.1"), 0
		resolve := n.Resolve
		n.Resolve = func(ctx context.Context, host string) ([]string, error) {
			lookups++
			return resolve(ctx, host)
		}
		for range 100 {
			go func() { _, _ = n.Lookup(t.Context(), "a") }()
		}
		synctest.Wait()
		if lookups != 1 {
			t.Errorf("%d lookups", lookups)
		}
		time.Sleep(time.Second) // they end
	})
}
