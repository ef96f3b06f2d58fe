package zkconn

import (
	"context"
	"errors"
	"slices"
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

func TestEachRoundResolvesAnewAndTriesEveryAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := map[string][]string{"a": {"10.0.0.1", "10.0.0.2"}, "b": {"10.0.0.3"}}
		r := newRotation([]string{"a:1", "b:2", "127.0.0.1:3", "[::1]:4", "gone:5"})
		r.lookup = func(_ context.Context, host string) ([]string, error) {
			if addrs, ok := dns[host]; ok {
				return addrs, nil
			}
			return nil, errors.New("no such host")
		}
		// An unresolved name is dialled as it is, for the error.
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

func TestTargetKeepsTheNameForCertificates(t *testing.T) {
	r := newRotation([]string{"zk.example:2281"})
	r.lookup = func(context.Context, string) ([]string, error) { return []string{"10.0.0.1"}, nil }
	if next, err := r.next(t.Context()); err != nil || next != (target{"10.0.0.1:2281", "zk.example"}) {
		t.Errorf("%+v, %v", next, err)
	}
}

// TestPauseIsBetweenRoundsOnly: a lost connection is replaced at once, and
// servers that are all down are not dialled in a tight loop.
func TestPauseIsBetweenRoundsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRotation([]string{"10.0.0.1:1", "10.0.0.2:1"})
		began := time.Now()
		round(t, r, 2)
		if took := time.Since(began); took != 0 {
			t.Errorf("the first round took %v", took)
		}
		const rounds = 50
		round(t, r, 2*rounds)
		if mean := time.Since(began) / rounds; mean < roundPause*3/4 || mean > roundPause*5/4 {
			t.Errorf("mean time of a round %v; want about %v", mean, roundPause)
		}
		time.Sleep(time.Minute) // connected meanwhile
		began = time.Now()
		round(t, r, 2)
		if took := time.Since(began); took != 0 {
			t.Errorf("the round after a long connection began after %v", took)
		}
	})
}

func TestPauseEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRotation([]string{"10.0.0.1:1"})
		round(t, r, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := r.next(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
