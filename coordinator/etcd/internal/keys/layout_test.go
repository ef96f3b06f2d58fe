package keys

import (
	"cmp"
	"math"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

const someID = "0123456789abcdef"

func TestContenderKeyRoundTrip(t *testing.T) {
	for _, id := range []string{someID, someID + someID} {
		for _, lease := range []clientv3.LeaseID{1, math.MaxInt64, -5} {
			for _, mode := range []string{"x", "r", "p3", "abcdefghijklmn16"} {
				for _, rank := range []int64{0, 5, math.MaxInt64 - 1} {
					checkRoundTrip(t, Name{LeaseHex(lease), id, mode, rank})
				}
			}
		}
	}
}

func checkRoundTrip(t *testing.T, n Name) {
	t.Helper()
	l, queue := New("a/b"), driver.Queue("mutex/x%2Fy")
	key := l.Queue(queue) + n.String()
	prefix := l.Contender(queue, n.Lease, n.ID)
	if n.Rank > 0 {
		prefix = Converted(prefix)
	}
	if !strings.HasPrefix(key, prefix) {
		t.Errorf("%s is not below %s", key, prefix)
	}
	if from, to := l.AllConverted(queue); (from <= key && key < to) != (n.Rank > 0) {
		t.Errorf("%s: rank %d, and the converted are from %s to %s", key, n.Rank, from, to)
	}
	own := Entry{key, math.MaxInt64}
	p := l.Place(queue, own)
	if p.ID != n.ID || p.Session != n.Lease || p.Mode != n.Mode {
		t.Errorf("%s reads back as %+v", key, p)
	}
	if want := cmp.Or(n.Rank, own.Rev); l.Rank(queue, own) != want {
		t.Errorf("%s has rank %d, want %d", key, l.Rank(queue, own), want)
	}
	if e, ok := l.Entry(queue, p); !ok || e != own {
		t.Errorf("handle %s reads back as %v, %v", p.Key, e, ok)
	}
}

func TestKeysOfOtherProgramsKeepTheirPlace(t *testing.T) {
	l, queue := New(""), driver.Queue("mutex/x")
	for _, name := range []string{
		"5b1a1fda4375804", // as etcdctl lock formats it
		"",
		"stray",
		"deeper/key",
		"odd@5",
		someID + "-" + someID + "-X",
		someID + "-" + someID + "-",
		someID + "-1-x",
		"-" + someID + "-x",
		"+",
		"+" + someID,
		"+" + someID + "-" + someID + "-x",
		"+" + someID + "-" + someID + "-x-5",
		"+" + someID + "-" + someID + "-x-0000000000000009", // not before its own creation
		"+" + someID + "-" + someID + "-x-0000000000000000",
		"+" + someID + "-" + someID + "-x-8000000000000001",
		"+" + someID + "-" + someID + "-x-+000000000000001",
		someID + "-" + someID + "-x-0000000000000001",
		"++" + someID + "-" + someID + "-x-0000000000000001",
	} {
		own := Entry{l.Queue(queue) + name, 9}
		p := l.Place(queue, own)
		if rank := l.Rank(queue, own); rank != 9 {
			t.Errorf("%q has rank %d", name, rank)
		}
		if p.ID != "" || p.Mode != "" || p.Session != "" {
			t.Errorf("%q: %+v", name, p)
		}
		if e, ok := l.Entry(queue, p); !ok || e.Rev != 9 || e.Key != l.Queue(queue)+name {
			t.Errorf("%q: %v, %v", name, e, ok)
		}
	}
}

func TestNoRangeContainsAnother(t *testing.T) {
	var prefixes []string
	for _, ns := range []string{"", "a", "a/b", "a/b/c", "ab"} {
		l := New(ns)
		for _, queue := range []driver.Queue{"m/x", "m/xy", "b/m", "sessions/x", "a/b"} {
			prefixes = append(prefixes, l.Queue(queue))
		}
		for _, p := range prefixes {
			if s := l.Sentinel(1, someID); strings.HasPrefix(s, p) {
				t.Errorf("sentinel %s is in the queue %s", s, p)
			}
			for _, queue := range []driver.Queue{"m/x", "b/m", "sessions/x"} {
				if r := l.Record(queue); strings.HasPrefix(r, p) {
					t.Errorf("record %s is in the queue %s", r, p)
				}
			}
		}
	}
	for i, p := range prefixes {
		for j, q := range prefixes {
			if i != j && strings.HasPrefix(p, q) {
				t.Errorf("%s is below %s", p, q)
			}
		}
	}
}

func TestHandlesOfOtherQueuesAreRefused(t *testing.T) {
	l := New("a")
	for _, key := range []string{
		"", "@", "a/./m/x/k", "a/./m/x/k@", "a/./m/x/k@0", "a/./m/x/k@-1", "a/./m/x/k@z",
		"a/./m/y/k@5", "b/./m/x/k@5", "a/./m/x@5",
	} {
		if e, ok := l.Entry("m/x", driver.Place{Key: key}); ok {
			t.Errorf("%q: %v", key, e)
		}
	}
}
