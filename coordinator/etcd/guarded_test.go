package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// sequencerOf is that of an entry in the line of these tests.
func sequencerOf(j driver.Joined) fence.Sequencer {
	kind, name, _ := line.Split()
	return fence.Sequencer{Scope: fence.Scope{Service: "s", Kind: kind, Name: name}, Token: j.Token, Key: j.Place.Key}
}

// passes writes under the guard of a sequencer, and reports whether that happened.
func passes(t *testing.T, c *clientv3.Client, seq fence.Sequencer) bool {
	t.Helper()
	holds, err := Guard(seq)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Txn(t.Context()).If(holds).Then(clientv3.OpPut("mine", "written")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	return resp.Succeeded
}

func TestGuardHoldsAsLongAsTheEntryDoes(t *testing.T) {
	for _, namespace := range []string{"", "ns", "apps/orders", string(line), "a" + string(line) + "/b"} {
		f, c := newFake(t)
		d, err := FromClient(c, Namespace(namespace))
		if err != nil {
			t.Fatal(err)
		}
		opened, err := d.Open(t.Context(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		s := opened.(*session)
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		x := contender()
		own := join(t, s, x)
		first := sequencerOf(own)
		if !passes(t, c, first) {
			t.Errorf("%q: an entry that stands", namespace)
		}
		own.Place = convert(t, s, own, "y")
		second := sequencerOf(own)
		if passes(t, c, first) || !passes(t, c, second) {
			t.Errorf("%q: after a conversion: %t, %t; want false, true", namespace, passes(t, c, first), passes(t, c, second))
		}
		if err := s.Leave(t.Context(), line, own.Place); err != nil {
			t.Fatal(err)
		}
		again := join(t, s, x) // the key is the first one's
		if passes(t, c, first) || passes(t, c, second) || !passes(t, c, sequencerOf(again)) {
			t.Errorf("%q: after leaving and joining again", namespace)
		}
		if n := f.sent(func() { _, _ = Guard(first) }); n != 0 {
			t.Errorf("%d requests", n)
		}
	}
}

func TestGuardRefusesWhatIsNotOfAnEtcd(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	own := join(t, s, contender())
	seq := sequencerOf(own)
	moved := seq
	moved.Key = convert(t, s, own, "y").Key
	for what, change := range map[string]func(*fence.Sequencer){
		"nothing":                  func(s *fence.Sequencer) { *s = fence.Sequencer{} },
		"no revision":              func(s *fence.Sequencer) { s.Key, _, _ = strings.Cut(s.Key, "@") },
		"bad revision":             func(s *fence.Sequencer) { s.Key += "x" },
		"another token":            func(s *fence.Sequencer) { s.Token++ },
		"another name":             func(s *fence.Sequencer) { s.Name += "x" },
		"the end of the name only": func(s *fence.Sequencer) { s.Name = s.Name[1:] },
		"another kind":             func(s *fence.Sequencer) { s.Kind = "m" },
		"a ZooKeeper's":            func(s *fence.Sequencer) { s.Key = "x_5f0c5f0c5f0c5f0c_1000a2b3c4d5e6f_0000000007" },
		"no namespace's end":       func(s *fence.Sequencer) { s.Key = strings.Replace(s.Key, "/./", "/", 1) },
		"a mark":                   func(s *fence.Sequencer) { s.Key = strings.Replace(s.Key, "@", "~@", 1) },
		"the line itself":          func(s *fence.Sequencer) { s.Key = "ns/./" + string(line) + "@5" },
	} {
		for _, bad := range []fence.Sequencer{seq, moved} {
			change(&bad)
			if cmp, err := Guard(bad); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s, %v: %v, %v", what, bad, cmp, err)
			}
		}
	}
}
