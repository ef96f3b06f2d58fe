package zookeeper

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

func testSequencer(own driver.Joined) fence.Sequencer {
	return fence.Sequencer{Scope: fence.Scope{Service: "s", Kind: "m", Name: "a"}, Token: own.Token, Key: own.Place.Key}
}

func TestGuardHoldsAsLongAsTheNodeDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, s := openTree(t)
		passes := func(own driver.Joined) bool {
			t.Helper()
			holds, err := Guard("/app", testSequencer(own))
			ok(t, err)
			write := &zk.SetDataRequest{Path: "/app", Data: []byte("written"), Version: -1}
			_, err = s.Multi(soon(t, 20*time.Second), nil, []any{holds, write})
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				t.Fatal(err)
			}
			return err == nil
		}
		own := testJoin(t, s, 1, "x")
		if !passes(own) {
			t.Error("Guard fails for a queued entry")
		}
		ok(t, s.Write(soon(t, 20*time.Second), "m/a", own.Place, []byte("leads")))
		if !passes(own) {
			t.Error("Guard fails after a write to the entry")
		}
		moved := testConvert(t, s, own, "y")
		if passes(own) || !passes(moved) {
			t.Errorf("after a conversion: %t, %t; want false, true", passes(own), passes(moved))
		}
		ok(t, s.Leave(soon(t, 20*time.Second), "m/a", moved.Place))
		testJoin(t, s, 1, "x")
		if passes(own) || passes(moved) {
			t.Error("Guard passes after the entry has left")
		}
	})
}

func TestGuardRefusesInvalidSequencers(t *testing.T) {
	good := fence.Sequencer{Scope: fence.Scope{Service: "s", Kind: "mutex", Name: "a/b"}, Token: 5,
		Key: "x_0123456789abcdef_1000a2b3c4d5e6f_0000000007"}
	for chroot, want := range map[string]string{"": "/~/mutex/a%2Fb/", "/": "/~/mutex/a%2Fb/", "/apps/orders": "/apps/orders/~/mutex/a%2Fb/", "apps": "/apps/~/mutex/a%2Fb/"} {
		if op, err := Guard(chroot, good); err != nil || op.Path != want+good.Key || op.Version != -1 {
			t.Errorf("chroot %q: %+v, %v", chroot, op, err)
		}
	}
	if op, err := Guard("/a/../b", good); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("odd chroot: %v, %v", op, err)
	}
	converted := "r_0123456789abcdef_1000a2b3c4d5e6f_0000000000000005_1_0000000007"
	for what, change := range map[string]func(*fence.Sequencer){
		"nothing":                func(s *fence.Sequencer) { *s = fence.Sequencer{} },
		"an etcd's":              func(s *fence.Sequencer) { s.Key = "ns/./mutex/a/0123456789abcdef-694d-x@5" },
		"another queue's":        func(s *fence.Sequencer) { s.Key = "../c/" + s.Key },
		"no sequence":            func(s *fence.Sequencer) { s.Key = "x_0123456789abcdef_1000a2b3c4d5e6f" },
		"a successor node":       func(s *fence.Sequencer) { s.Key = "successor_0000000008" },
		"converted, not token's": func(s *fence.Sequencer) { s.Key, s.Token = converted, 6 },
	} {
		bad := good
		change(&bad)
		if op, err := Guard("", bad); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %+v, %v", what, op, err)
		}
	}
	good.Key = converted
	if _, err := Guard("", good); err != nil {
		t.Errorf("converted: %v", err)
	}
}

func TestCheckIsOneReadAfterASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, s := openTree(t)
		own := testJoin(t, s, 1, "x")
		count := func(op int32) int {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.ops[op]
		}
		syncs, reads := count(opSync), count(opExists)
		ok(t, s.Check(soon(t, 20*time.Second), "m/a", own.Place.Key, own.Token))
		if syncs, reads = count(opSync)-syncs, count(opExists)-reads; syncs != 1 || reads != 1 {
			t.Errorf("%d syncs and %d reads", syncs, reads)
		}
		for _, key := range []string{"", "/", own.Place.Key + "/0000000001", "a\x00b0000000001", "nothing"} {
			if err := s.Check(soon(t, 20*time.Second), "m/a", key, own.Token); !errors.Is(err, driver.ErrGone) {
				t.Errorf("%q: %v", key, err)
			}
		}
	})
}

// TestCheckRefusesChildrenThatAreNoEntries: they have no token, not even 0.
func TestCheckRefusesChildrenThatAreNoEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		testJoin(t, s, 1, "x")
		for _, name := range []string{"successor_0000000008", "lease_holder"} {
			tr.put("/app/~/m/a/"+name, "")
			if err := s.Check(soon(t, 20*time.Second), "m/a", name, 0); !errors.Is(err, driver.ErrGone) {
				t.Errorf("Check of %s = %v", name, err)
			}
		}
	})
}

// FuzzGuard: the operation is about a node of the queue that the sequencer
// names, even for a forged sequencer.
func FuzzGuard(f *testing.F) {
	f.Add("m", "a", "x_0123456789abcdef_1000a2b3c4d5e6f_0000000007", int64(5))
	f.Add("m", "a/b", "r_0123456789abcdef_1000a2b3c4d5e6f_0000000000000005_1_0000000007", int64(5))
	f.Add("m", "..", "../x0000000007", int64(5))
	f.Fuzz(func(t *testing.T, kind, name, key string, token int64) {
		seq := fence.Sequencer{Scope: fence.Scope{Service: "s", Kind: kind, Name: name}, Token: driver.Token(token), Key: key}
		holds, err := Guard("/app", seq)
		if err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%v: %v", seq, err)
			}
			return
		}
		node, found := strings.CutPrefix(holds.Path, "/app/~/"+string(driver.NewQueue(kind, name))+"/")
		if !found || strings.Contains(node, "/") || node == ".." || node == "." || node == "" {
			t.Errorf("%v is guarded by %q", seq, holds.Path)
		}
	})
}
