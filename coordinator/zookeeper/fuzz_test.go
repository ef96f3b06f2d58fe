package zookeeper

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
)

// FuzzConvertedName: however often a name is converted, ID, session, place and token stay, and each name is new.
func FuzzConvertedName(f *testing.F) {
	f.Add(int32(12), int64(7), uint8(3), "r")
	f.Add(int32(math.MinInt32), int64(math.MaxInt64), uint8(1), "p3v00a1")
	f.Add(int32(-1), int64(1), uint8(20), "x")
	f.Fuzz(func(t *testing.T, seq int32, token int64, turns uint8, mode string) {
		if nodes.CheckMode(mode) != nil || token <= 0 {
			return
		}
		first := nodePrefix(driver.Contender{ID: testID, Mode: "x"}, "1a") + fmt.Sprintf("%010d", seq)
		n, ok := parseNode(first)
		if !ok || n.seq != seq || n.ID != testID {
			t.Fatalf("%s: %+v, %v", first, n, ok)
		}
		seen := []string{first}
		for range turns {
			n = n.converted(mode, driver.Token(token))
			back, ok := parseNode(n.Key)
			if !ok || back != n || back.seq != seq || back.tokenOr(99) != driver.Token(token) || back.Mode != mode {
				t.Fatalf("%s is read as %+v, %v; want %+v", n.Key, back, ok, n)
			}
			if slices.Contains(seen, n.Key) {
				t.Fatalf("%s was there before", n.Key)
			}
			seen = append(seen, n.Key)
		}
	})
}

// FuzzOrder: contenders that joined one after the other stand in that order wherever the sequence number is when they
// come, the wrap at 2^31 included.
func FuzzOrder(f *testing.F) {
	f.Add(int32(0), uint8(5), uint8(0))
	f.Add(int32(math.MaxInt32-2), uint8(6), uint8(3))
	f.Add(int32(math.MinInt32), uint8(9), uint8(7))
	f.Fuzz(func(t *testing.T, start int32, count, rotate uint8) {
		var names []string
		for i := range int32(count) + 1 {
			names = append(names, testKey(start+i)) // wraps
		}
		k := int(rotate) % len(names)
		c := parseChildren(append(slices.Clone(names[k:]), names[:k]...))
		for i, n := range c.nodes {
			if n.Key != names[i] {
				t.Fatalf("from %d on: %s is number %d, want %s", start, n.Key, i, names[i])
			}
		}
	})
}
