package foreign

import "testing"

// TestALeaseThatARenewalMissedIsRenewed: a lease granted before a renewal, and
// not renewed with it, ends before the renewal's deadline.
func TestALeaseThatARenewalMissedIsRenewed(t *testing.T) {
	ls := newLeases(1)
	stopped := func() error { return nil }
	_, _, _ = ls.take("mutex/x", "first", stopped)
	l, round, _ := ls.take("mutex/x", "second", stopped)
	if l != nil {
		t.Fatalf("got the lease of another contender: %+v", l)
	}
	ls.renewal()
	if ok, now := ls.add(77, round); ok || now != round+1 {
		t.Errorf("added in round %d of %d: %v", round, now, ok)
	}
	if ok, _ := ls.add(77, round+1); !ok {
		t.Error("not added")
	}
}
