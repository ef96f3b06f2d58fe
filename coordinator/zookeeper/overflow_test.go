package zookeeper

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestTokensOrderTheQueueWhenSequenceNumbersRunOut: contenders have the same
// number, and later ones smaller numbers, as in ZooKeeper 3.8 after 2147483647.
func TestTokensOrderTheQueueWhenSequenceNumbersRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, numbers := range [][]int32{
			{2147483646, 2147483647, 2147483647, 2147483647},
			{2147483647, -2147483648, -2147483647, 2147483647, -2147483648},
			{-2147483648, 2147483647, -2147483648},
			{-2147483648, -2147483648}, // 2^31 - 1 has left
		} {
			_, tr, s := openTree(t)
			tr.put("/app/~/m/a", "")
			var keys []string
			for i, n := range numbers {
				// Falling IDs, so that the order of names does not help.
				key := fmt.Sprintf("x_%016x_5_%010d", 100-i, n)
				tr.put("/app/~/m/a/"+key, "")
				keys = append(keys, key)
			}
			whole, err := s.Ahead(soon(t, 20*time.Second), "m/a", driver.Place{})
			if err != nil || !slices.Equal(keysOf(whole.Ahead), keys) {
				t.Errorf("%v: in the queue %q, %v; want %q", numbers, keysOf(whole.Ahead), err, keys)
			}
			for i, key := range keys {
				n, _ := parseNode(key)
				v, err := s.Ahead(soon(t, 20*time.Second), "m/a", n.Place)
				if err != nil || !slices.Equal(keysOf(v.Ahead), keys[:i]) || v.Last != (i == len(keys)-1) {
					t.Errorf("%v: ahead of %q %+v, %v", numbers, key, v, err)
				}
			}
			if h, err := s.Head(soon(t, 20*time.Second), "m/a", driver.Any); err != nil || h.Key != keys[0] {
				t.Errorf("%v: the head is %q, %v", numbers, h.Key, err)
			}
		}
	})
}

// TestConvertedEntryKeepsItsPlaceWhenSequenceNumbersRunOut: the conversion is
// applied between the listing and the reads of the nodes. Treating the old name
// as left would admit the next contender.
func TestConvertedEntryKeepsItsPlaceWhenSequenceNumbersRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, tr, s := openTree(t)
		tr.put("/app/~/m/a", "")
		first, second := fmt.Sprintf("w_%016x_5_2147483647", 1), fmt.Sprintf("w_%016x_5_2147483647", 2)
		tr.put("/app/~/m/a/"+first, "")
		token := driver.Token(tr.nodes["/app/~/m/a/"+first].czxid)
		tr.put("/app/~/m/a/"+second, "")
		n, _ := parseNode(first)
		to := n.converted("r", token)
		tr.on(func(op int32, node string) treeFate {
			if op == opExists && node == "/app/~/m/a/"+first {
				tr.remove(node)
				tr.put("/app/~/m/a/"+to.Key, "")
			}
			return treeFate{}
		})
		own, _ := parseNode(second)
		v, err := s.Ahead(soon(t, 20*time.Second), "m/a", own.Place)
		if err != nil || !slices.Equal(keysOf(v.Ahead), []string{to.Key}) {
			t.Errorf("ahead of the second %+v, %v; want %q", v, err, to.Key)
		}
	})
}

func keysOf(places []driver.Place) (keys []string) {
	for _, p := range places {
		keys = append(keys, p.Key)
	}
	return keys
}
