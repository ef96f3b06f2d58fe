package zookeeper

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
)

// FuzzConvertedName: conversions keep ID, session, place and token, and each
// name is new.
func FuzzConvertedName(f *testing.F) {
	f.Add(int32(12), int64(7), uint8(3), "r")
	f.Add(int32(math.MinInt32), int64(math.MaxInt64), uint8(1), "p3v00a1")
	f.Add(int32(-1), int64(1), uint8(20), "x")
	f.Fuzz(func(t *testing.T, seq int32, token int64, count uint8, mode string) {
		if nodes.CheckMode(mode) != nil || token <= 0 {
			return
		}
		first := nodePrefix(driver.Contender{ID: testID, Mode: "x"}, "1a") + fmt.Sprintf("%010d", seq)
		n, ok := parseNode(first)
		if !ok || n.seq != seq || n.ID != testID {
			t.Fatalf("%s: %+v, %v", first, n, ok)
		}
		seen := []string{first}
		for range count {
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
