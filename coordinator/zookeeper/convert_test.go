package zookeeper

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// testJoin puts the n-th contender of a test into the queue m/a.
func testJoin(t *testing.T, s *session, n int, mode string) driver.Joined {
	t.Helper()
	j, err := s.Join(soon(t, 20*time.Second), "m/a", driver.Contender{ID: fmt.Sprintf("%016x", n), Mode: mode, Value: []byte("joined")})
	ok(t, err)
	return j
}

func testConvert(t *testing.T, s *session, own driver.Joined, mode string) driver.Joined {
	t.Helper()
	p, err := s.Convert(soon(t, 20*time.Second), "m/a", own, mode, []byte("converted"))
	ok(t, err)
	own.Place = p
	return own
}

func testList(t *testing.T, s *session, limit int) []driver.Entry {
	t.Helper()
	entries, err := s.List(soon(t, 20*time.Second), "m/a", limit)
	ok(t, err)
	return entries
}

// TestJoinWithUnknownOutcome: the reply or the request is lost. Joining again
// creates no second node (J2).
func TestJoinWithUnknownOutcome(t *testing.T) {
	for what, fate := range map[string]treeFate{"reply": {cut: true}, "request": {lost: true, cut: true}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
				if _, err := s.Join(soon(t, 20*time.Second), "m/a", c); !errors.Is(err, driver.ErrUnavailable) {
					t.Fatalf("Join = %v; want ErrUnavailable", err)
				}
				c.Again = true
				j, err := s.Join(soon(t, 20*time.Second), "m/a", c)
				if err != nil || j.Token <= first.Token || j.First || !once {
					t.Errorf("Join again = %+v, %v", j, err)
				}
				if nodes := tr.list("/app/~/m/a"); len(nodes) != 2 {
					t.Errorf("the queue is %q; want two nodes", nodes)
				}
			})
		})
	}
}
