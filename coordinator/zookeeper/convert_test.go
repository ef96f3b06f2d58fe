package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// testJoin puts the n-th contender of a test into the queue m/a.
func testJoin(t *testing.T, s *session, n int, mode string) driver.Joined {
	t.Helper()
	j, err := s.Join(soon(t, 5*time.Second), "m/a", driver.Contender{ID: fmt.Sprintf("%016x", n), Mode: mode, Value: []byte("joined")})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func testConvert(t *testing.T, s *session, own driver.Joined, mode string) driver.Joined {
	t.Helper()
	p, err := s.Convert(soon(t, 5*time.Second), "m/a", own, mode, []byte("converted"))
	if err != nil {
		t.Fatal(err)
	}
	own.Place = p
	return own
}

func testList(t *testing.T, s *session, limit int) []driver.Entry {
	t.Helper()
	entries, err := s.List(soon(t, 5*time.Second), "m/a", limit)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// TestJoinWithUnknownOutcome: the reply or the request is lost. Joining again
// creates no second node (J2).
func TestJoinWithUnknownOutcome(t *testing.T) {
	for what, fate := range map[string]treeFate{"reply": {cut: true}, "request": {lost: true, cut: true}} {
		t.Run(what, func(t *testing.T) {
			_, tr, s := openTree(t)
			first := testJoin(t, s, 1, "w") // creates the queue
			once := false
			tr.on(func(op int32, _ string) treeFate {
				if op == opMulti && !once {
					once = true
					return fate
				}
				return treeFate{}
			})
			c := driver.Contender{ID: fmt.Sprintf("%016x", 2), Mode: "w"}
			if _, err := s.Join(soon(t, 5*time.Second), "m/a", c); !errors.Is(err, driver.ErrUnavailable) {
				t.Fatalf("Join = %v; want ErrUnavailable", err)
			}
			c.Again = true
			j, err := s.Join(soon(t, 5*time.Second), "m/a", c)
			if err != nil || j.Token <= first.Token || j.First || !once {
				t.Errorf("Join again = %+v, %v", j, err)
			}
			if nodes := tr.list("/app/m/a"); len(nodes) != 2 {
				t.Errorf("the queue is %q; want two nodes", nodes)
			}
		})
	}
}

// TestForgetWaitsForConversions: a conversion still queued in the process would
// create a node after Forget has listed.
func TestForgetWaitsForConversions(t *testing.T) {
	_, tr, s := openTree(t)
	own := testJoin(t, s, 1, "w")
	arrived, release := make(chan struct{}), make(chan struct{})
	tr.on(func(op int32, _ string) treeFate {
		if op == opMulti {
			close(arrived)
			<-release
		}
		return treeFate{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if _, err := s.Convert(ctx, "m/a", own, "r", nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("Convert = %v", err)
	}
	forgotten := make(chan error, 1)
	go func() { forgotten <- s.Forget(context.Background(), "m/a", own.Place.ID) }()
	select {
	case err := <-forgotten:
		t.Errorf("Forget = %v while a conversion is under way", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if err := <-forgotten; err != nil {
		t.Errorf("Forget = %v", err)
	}
	if names := tr.list("/app/m/a"); len(names) != 0 {
		t.Errorf("in the queue: %q", names)
	}
}

// TestListShowsEntryConvertedMeanwhile: a node gets another name between the
// listing and the read.
func TestListShowsEntryConvertedMeanwhile(t *testing.T) {
	_, tr, s := openTree(t)
	first, second := testJoin(t, s, 1, "w"), testJoin(t, s, 2, "w")
	n, _ := parseNode(first.Place.Key)
	to := n.converted("r", first.Token)
	for _, limit := range []int{0, 1} {
		tr.on(func(op int32, node string) treeFate {
			if op == opGet && node == "/app/m/a/"+first.Place.Key {
				tr.remove(node)
				tr.put("/app/m/a/"+to.Key, "converted")
			}
			return treeFate{}
		})
		entries := testList(t, s, limit)
		if len(entries) == 0 || entries[0].Place != to.Place || entries[0].Token != first.Token {
			t.Errorf("List with limit %d = %+v; want %+v first", limit, entries, to.Place)
		}
		if limit == 0 && (len(entries) != 2 || entries[1].Place != second.Place) {
			t.Errorf("List = %+v; want two entries", entries)
		}
		tr.on(nil)
		tr.remove("/app/m/a/" + to.Key)
		tr.put("/app/m/a/"+first.Place.Key, "joined")
	}
}
