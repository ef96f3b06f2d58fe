package nodes

import "testing"

func TestOneFlightOfAContenderAtATime(t *testing.T) {
	fs := flights{m: make(map[string]*Flight)}
	first, _ := fs.begin("a")
	first.extend()
	first.End() // the call has returned, its request is under way
	second, landed := fs.begin("a")
	if second != nil {
		t.Fatal("the second call does not wait for the request of the first")
	}
	if other, _ := fs.begin("b"); other == nil {
		t.Error("another contender's call waits")
	} else {
		other.End()
	}
	select {
	case <-landed:
		t.Error("landed with a request under way")
	default:
	}
	first.End()
	<-landed
	if second, _ = fs.begin("a"); second == nil {
		t.Fatal("the second call waits for a flight that has landed")
	}
	if second.End(); len(fs.m) != 0 {
		t.Error("landed flights are kept")
	}
}
