package zookeeper

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
)

const testID = "0123456789abcdef0123456789abcdef"

func TestNodeNamesParseBack(t *testing.T) {
	for _, mode := range []string{"x", "r", "p3", "abcdefgh12345678"} {
		for _, id := range []string{testID, testID[:16]} {
			for _, seq := range []int32{0, 7, 9999999, math.MaxInt32, math.MinInt32, -1, -5, -1000000000} {
				// As the service does: the prefix and "%010d".
				name := nodePrefix(driver.Contender{ID: id, Mode: mode}, "1000a2b3c4d5e6f") + fmt.Sprintf("%010d", seq)
				want := node{Place: driver.Place{Key: name, ID: id, Mode: mode, Session: "1000a2b3c4d5e6f"}, seq: seq}
				if got, ok := parseNode(name); !ok || got != want {
					t.Errorf("parseNode(%q) = %+v, %v; want %+v", name, got, ok, want)
				}
			}
		}
	}
}

func TestStraysAreReportedByName(t *testing.T) {
	strays := []string{
		"", "lock", "lease_holder", "_c_x", "n123", "n0000000001", "x_" + testID + "_1a_", "9999999999",
		"_c_8a1f8b0e-6c1c-4b7e-9d3e-0f5b1f4f2a11-lock-0000000012", testID + "__lock__0000000009",
		"x_" + testID + "_1a_00000000012", // not the service's form of a sequence number
		"X_" + testID + "_1a_0000000012",
		"x_" + testID[:15] + "_1a_0000000012",
		// Not the form of a conversion.
		"x_" + testID + "_1a_0000000000000000_1_0000000012",
		"x_" + testID + "_1a_8000000000000000_1_0000000012",
		"x_" + testID + "_1a_000000000000007_1_0000000012",
		"x_" + testID + "_1a_0000000000000007_0_0000000012",
		"x_" + testID + "_1a_0000000000000007_0000000012",
	}
	for _, name := range strays {
		if n, ok := parseNode(name); ok {
			t.Errorf("parseNode(%q) = %+v; want no place", name, n)
		}
	}
	c := parseChildren(append([]string{"x_" + testID + "_1a_0000000002", "successor_0000000003", "x_" + testID + "_1a_0000000001"}, strays...))
	if len(c.nodes) != 2 || c.nodes[0].seq != 1 || len(c.strays) != len(strays) || !slices.Equal(c.successors, []int32{3}) {
		t.Errorf("parseChildren: %+v", c)
	}
	err := c.ambiguous("/m/a")
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), `delete '/m/a/lease_holder'`) {
		t.Errorf("ambiguous = %v; want ErrRefused that names the queue and the strays", err)
	}
	if err := parseChildren(nil).ambiguous("m/a"); err != nil {
		t.Errorf("ambiguous without strays = %v", err)
	}
}

// TestOrderSurvivesTheWrap tries all permutations of a listing of a queue whose
// numbers wrap.
func TestOrderSurvivesTheWrap(t *testing.T) {
	for _, start := range []int32{0, 5, math.MaxInt32 - 1, math.MaxInt32 - 3, math.MinInt32, -2} {
		queue := make([]node, 5)
		for i := range queue {
			queue[i].seq = start + int32(i) // wraps, as the service's counter does
			queue[i].Key = fmt.Sprintf("n%010d", queue[i].seq)
		}
		permute(slices.Clone(queue), 0, func(p []node) {
			got := slices.Clone(p)
			if sortBySequence(got); !slices.Equal(got, queue) {
				t.Fatalf("from %d: %v in order is %v", start, p, got)
			}
		})
	}
	sortBySequence(nil) // must not panic
}

func permute(p []node, k int, f func([]node)) {
	if k == len(p) {
		f(p)
		return
	}
	for i := k; i < len(p); i++ {
		p[k], p[i] = p[i], p[k]
		permute(p, k+1, f)
		p[k], p[i] = p[i], p[k]
	}
}

func TestQueuesKeysAndContendersAreChecked(t *testing.T) {
	root, below := &nodes.Session{Tree: new(nodes.Tree)}, &nodes.Session{Tree: &nodes.Tree{Root: "/app"}}
	for _, queue := range []driver.Queue{"", "a", "/a", "a/", "a/b/c", "./a", "a/..", "a b/c", "a/b\x00", "a/ü"} {
		if err := below.CheckQueue(queue); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("queue %q: %v; want ErrInvalid", queue, err)
		}
	}
	if err := root.CheckQueue("zookeeper/a"); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("the service's own tree: %v; want ErrInvalid", err)
	}
	for _, queue := range []driver.Queue{"m/a", "m/a%2Fb", "m/.a", "m/~-._", "zookeeper/a"} {
		if err := below.CheckQueue(queue); err != nil {
			t.Errorf("queue %q: %v", queue, err)
		}
	}
	for _, key := range []string{"", ".", "..", "a/b", "/"} {
		if err := nodes.CheckKey("m/a", driver.Place{Key: key}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("key %q: %v; want ErrInvalid", key, err)
		}
	}
	for _, c := range []driver.Contender{
		{ID: testID[:15], Mode: "x"}, {ID: testID + "0", Mode: "x"}, {ID: strings.ToUpper(testID), Mode: "x"},
		{ID: testID}, {ID: testID, Mode: "x_y"}, {ID: testID, Mode: "abcdefgh123456789"},
		{ID: testID, Mode: "x", Value: make([]byte, 64<<10+1)},
	} {
		if err := nodes.CheckContender(c); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("contender %q %q %d: %v; want ErrInvalid", c.ID, c.Mode, len(c.Value), err)
		}
	}
	if err := nodes.CheckContender(driver.Contender{ID: testID, Mode: "p3", Value: make([]byte, 64<<10)}); err != nil {
		t.Error(err)
	}
}

func FuzzParseNode(f *testing.F) {
	for _, name := range []string{"x_" + testID + "_1a_0000000012", "x_" + testID + "_1a_-2147483648", "r_" + testID + "_1a_0000000000000007_f_0000000012", "_c_x", "lock--000000005", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := parseNode(name)
		if ok && n.Key != name {
			t.Fatalf("parseNode(%q): key %q", name, n.Key)
		}
		switch {
		case !ok && n.ID != "":
			t.Fatalf("parseNode(%q) = %+v, false", name, n)
		case n.ID != "":
			made := nodePrefix(driver.Contender{ID: n.ID, Mode: n.Mode}, n.Session) + fmt.Sprintf("%010d", n.seq)
			if n.conversions > 0 {
				before := n
				before.conversions--
				made = before.converted(n.Mode, n.token).Key
			}
			if made != name {
				t.Fatalf("parseNode(%q) = %+v, which has the name %q", name, n, made)
			}
		}
	})
}
