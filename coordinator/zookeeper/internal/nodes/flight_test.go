package nodes

import "testing"

func TestLaterJoinsWaitForEarlierOnesOnly(t *testing.T) {
	j := flights{m: make(map[string]*Flight)}
	landed := func(f *Flight) bool {
		select {
		case <-f.landed:
			return true
		default:
			return false
		}
	}
	first, earlier := j.begin("a")
	if len(earlier) != 0 {
		t.Errorf("flights before the first: %d", len(earlier))
	}
	first.extend()
	first.End() // the call has returned, its request is under way
	second, earlier := j.begin("a")
	if len(earlier) != 1 || earlier[0] != first || landed(first) {
		t.Error("the second join does not wait for the request of the first")
	}
	if other, earlier := j.begin("b"); len(earlier) != 0 {
		t.Error("another contender's join waits")
	} else {
		other.End()
	}
	third, earlier := j.begin("a")
	if len(earlier) != 2 {
		t.Errorf("the third join waits for %d", len(earlier))
	}
	first.End()
	if all := j.of("a"); !landed(first) || landed(second) || len(all) != 2 {
		t.Error("only the first has landed now")
	}
	third.End()
	if all := j.of("a"); !landed(third) || landed(second) || len(all) != 1 || all[0] != second {
		t.Error("the third has landed before the second")
	}
	second.End()
	if !landed(second) || len(j.m) != 0 {
		t.Error("landed flights are kept")
	}
}
