package etcd

import (
	"math"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

const someID = "0123456789abcdef"

func TestContenderKeyRoundTrip(t *testing.T) {
	for _, id := range []string{someID, someID + someID} {
		for _, lease := range []clientv3.LeaseID{1, math.MaxInt64, -5} {
			for _, mode := range []string{"x", "r", "p3", "abcdefg8"} {
				l, line := newLayout("a/b"), driver.Line("mutex/x%2Fy")
				key := l.contender(line, id, lease) + mode
				p := l.place(line, &mvccpb.KeyValue{Key: []byte(key), CreateRevision: 7})
				if p.ID != id || p.Session != leaseHex(lease) || p.Mode != mode {
					t.Errorf("%s reads back as %+v", key, p)
				}
				if e, ok := l.entry(line, p); !ok || e != (entry{key, 7}) {
					t.Errorf("handle %s reads back as %v, %v", p.Key, e, ok)
				}
			}
		}
	}
}

func TestForeignKeysKeepTheirPlace(t *testing.T) {
	l, line := newLayout(""), driver.Line("mutex/x")
	for name, session := range map[string]string{
		"5b1a1fda4375804":            "05b1a1fda4375804", // as etcdctl lock writes it
		"":                           "",
		"stray":                      "",
		"deeper/key":                 "",
		"odd@5":                      "",
		someID + "-" + someID + "-X": "",
		someID + "-" + someID + "-":  "",
		someID + "-1-x":              "",
		"-" + someID + "-x":          "",
	} {
		p := l.place(line, &mvccpb.KeyValue{Key: []byte(l.line(line) + name), CreateRevision: 9})
		if p.ID != "" || p.Mode != "" || p.Session != session {
			t.Errorf("%q: %+v", name, p)
		}
		if e, ok := l.entry(line, p); !ok || e.rev != 9 || e.key != l.line(line)+name {
			t.Errorf("%q: %v, %v", name, e, ok)
		}
	}
}

func TestNoRangeContainsAnother(t *testing.T) {
	var prefixes []string
	for _, ns := range []string{"", "a", "a/b", "a/b/c", "ab"} {
		l := newLayout(ns)
		for _, line := range []driver.Line{"m/x", "m/xy", "b/m", "sessions/x", "a/b"} {
			prefixes = append(prefixes, l.line(line))
		}
		for _, p := range prefixes {
			if s := l.sentinel(1, someID); strings.HasPrefix(s, p) {
				t.Errorf("sentinel %s is in line %s", s, p)
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

func TestHandlesOfOtherLinesAreRefused(t *testing.T) {
	l := newLayout("a")
	for _, key := range []string{
		"", "@", "a/./m/x/k", "a/./m/x/k@", "a/./m/x/k@0", "a/./m/x/k@-1", "a/./m/x/k@z",
		"a/./m/y/k@5", "b/./m/x/k@5", "a/./m/x@5",
	} {
		if e, ok := l.entry("m/x", driver.Place{Key: key}); ok {
			t.Errorf("%q: %v", key, e)
		}
	}
}

func FuzzParseName(f *testing.F) {
	f.Add(someID + "-" + someID + "-x")
	f.Add("5b1a1fda4375804")
	f.Add("--")
	f.Fuzz(func(t *testing.T, name string) {
		id, lease, mode, ok := parseName(name)
		if !ok {
			if id+lease+mode != "" {
				t.Errorf("%q is not ok but gives %q, %q, %q", name, id, lease, mode)
			}
			return
		}
		if id+"-"+lease+"-"+mode != name || !isID(id) || !isMode(mode) || len(lease) != 16 {
			t.Errorf("%q gives %q, %q, %q", name, id, lease, mode)
		}
	})
}
