package etcd

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/keys"
	"github.com/baton-go/baton/coordinator/fence"
)

// sequencerOf is the sequencer of an entry in the tests' queue.
func sequencerOf(j driver.Joined) fence.Sequencer {
	kind, name, _ := queue.Split()
	return fence.Sequencer{Scope: fence.Scope{Service: "s", Kind: kind, Name: name}, Token: j.Token, Key: j.Place.Key}
}

// passes reports whether a write under a sequencer's guard was applied.
func passes(t *testing.T, c *clientv3.Client, seq fence.Sequencer) bool {
	t.Helper()
	holds, err := Guard(seq)
	check(t, err)
	resp, err := c.Txn(t.Context()).If(holds).Then(clientv3.OpPut("mine", "written")).Commit()
	check(t, err)
	return resp.Succeeded
}

func TestGuardHoldsAsLongAsTheEntryDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, namespace := range []string{"", "ns", "apps/orders", string(queue), "a" + string(queue) + "/b"} {
			f, c := newFake(t)
			s := openWith(t, f, c, Namespace(namespace)).(*session)
			x := contender()
			own := join(t, s, x)
			first := sequencerOf(own)
			if !passes(t, c, first) {
				t.Errorf("%q: Guard fails for a queued entry", namespace)
			}
			own.Place = convert(t, s, own, "y")
			second := sequencerOf(own)
			if passes(t, c, first) || !passes(t, c, second) {
				t.Errorf("%q: after a conversion: %t, %t; want false, true", namespace, passes(t, c, first), passes(t, c, second))
			}
			check(t, s.Leave(t.Context(), queue, own.Place))
			again := join(t, s, x) // under the key of the first entry
			if passes(t, c, first) || passes(t, c, second) || !passes(t, c, sequencerOf(again)) {
				t.Errorf("%q: wrong outcome after leaving and joining again", namespace)
			}
			if n := f.sent(func() { _, _ = Guard(first) }); n != 0 {
				t.Errorf("%d requests", n)
			}
		}
	})
}

// A member that is cut off answers a transaction without writes and without
// reads by quorum from what it has.
func TestGuardReadAsksAMajority(t *testing.T) {
	f, c := newFake(t)
	s := open(t, f, c)
	own := join(t, s, contender())
	seq := sequencerOf(own)
	holds, err := Guard(seq)
	check(t, err)
	ask, err := GuardRead(seq)
	check(t, err)
	f.lag()
	check(t, s.Leave(t.Context(), queue, own.Place))
	local := clientv3.OpGet("mine", clientv3.WithSerializable())
	for _, test := range []struct {
		then, otherwise []clientv3.Op
		want            bool
	}{
		{want: true},
		{then: []clientv3.Op{local}, want: true},
		{otherwise: []clientv3.Op{ask}},
		{then: []clientv3.Op{ask}},
		{then: []clientv3.Op{local}, otherwise: []clientv3.Op{ask}},
	} {
		resp, err := c.Txn(t.Context()).If(holds).Then(test.then...).Else(test.otherwise...).Commit()
		if check(t, err); resp.Succeeded != test.want {
			t.Errorf("Then %d, Else %d operations: %t", len(test.then), len(test.otherwise), resp.Succeeded)
		}
	}
}

func TestGuardRefusesInvalidSequencers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
			"a marker":                 func(s *fence.Sequencer) { s.Key = strings.Replace(s.Key, "@", "~@", 1) },
			"the queue itself":         func(s *fence.Sequencer) { s.Key = "ns/./" + string(queue) + "@5" },
		} {
			for _, bad := range []fence.Sequencer{seq, moved} {
				change(&bad)
				if _, err := GuardRead(bad); !errors.Is(err, driver.ErrInvalid) {
					t.Errorf("GuardRead(%+v): %v", bad, err)
				}
				if cmp, err := Guard(bad); !errors.Is(err, driver.ErrInvalid) {
					t.Errorf("%s, %v: %v, %v", what, bad, cmp, err)
				}
			}
		}
	})
}

func TestCheckIsNotAnsweredByAMemberThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s, other := open(t, f, c), open(t, f, c)
		own := join(t, s, contender())
		if n := f.sent(func() {
			check(t, other.Check(t.Context(), queue, own.Place.Key, own.Token))
		}); n != 1 {
			t.Errorf("%d requests", n)
		}
		catchUp := f.lag()
		defer catchUp()
		check(t, s.Leave(t.Context(), queue, own.Place))
		if err := other.Check(t.Context(), queue, own.Place.Key, own.Token); !errors.Is(err, driver.ErrGone) {
			t.Errorf("left at a quorum: %v", err)
		}
	})
}

// FuzzGuard: the comparison is of an entry of the queue that the sequencer
// names, even for a forged sequencer.
func FuzzGuard(f *testing.F) {
	f.Add("m", "a", "ns/./m/a/0123456789abcdef-0000000000000001-x@5", int64(5))
	f.Add("m", "a", "./m/a/+0123456789abcdef-0000000000000001-x-0000000000000005@7", int64(5))
	f.Add("m", "a/b", "m/a%2Fb/./m/a%2Fb/x@5", int64(5))
	f.Fuzz(func(t *testing.T, kind, name, key string, token int64) {
		seq := fence.Sequencer{Scope: fence.Scope{Service: "s", Kind: kind, Name: name}, Token: driver.Token(token), Key: key}
		holds, err := Guard(seq)
		if err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%v: %v", seq, err)
			}
			return
		}
		prefix, compared := "./"+string(driver.NewQueue(kind, name))+"/", string(holds.KeyBytes())
		at := strings.LastIndex(compared, prefix)
		if at < 0 || at > 0 && compared[at-1] != '/' || strings.Contains(compared[at+len(prefix):], "/") || keys.IsMarker(compared) {
			t.Errorf("%v is guarded by %q", seq, compared)
		}
	})
}
