package etcd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
)

// fill makes entries with values of a size.
func fill(t *testing.T, f *fake, s *session, c *clientv3.Client, n, size int) {
	t.Helper()
	for i := range n {
		put := clientv3.OpPut(fmt.Sprintf("%s%016x-%016x-x", s.keys.Queue(queue), 7, i), strings.Repeat("v", size))
		_, err := c.Txn(t.Context()).Then(put).Commit()
		check(t, err)
	}
	f.largest, f.atRevs = 0, nil
}

// A listing is read in pages of bounded size, whatever other programs have
// written, and a short one in one request.
func TestListReadsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			entries, size int
			requests      int // at most
			largest       int // reply
			shown         int // bytes of a value
		}{
			{entries: 100, size: 200, requests: 1, largest: 64 << 10, shown: 200},
			{entries: 3000, size: 200, requests: 2, largest: 2 << 20, shown: 200},
			{entries: 300, size: 64 << 10, requests: 5, largest: 9 << 20, shown: 64 << 10}, // the first 128
			{entries: 50, size: 1400 << 10, requests: 30, largest: lease.MaxReply},
		} {
			f, c := newFake(t)
			s := open(t, f, c)
			fill(t, f, s, c, test.entries, test.size)
			f.maxReply = lease.MaxReply
			var accepted int
			n := f.sent(func() {
				list, err := s.List(t.Context(), queue, 0)
				if check(t, err); len(list) != test.entries {
					t.Errorf("%d entries, want %d", len(list), test.entries)
				}
				for i, x := range list {
					accepted += len(x.Value)
					if len(x.Value) != test.shown || i > 0 && list[i-1].Token >= x.Token {
						t.Fatalf("entry %d: token %d, a value of %d bytes", i, x.Token, len(x.Value))
					}
				}
			})
			if n > test.requests || test.shown > 0 && f.largest > test.largest {
				t.Errorf("%d entries of %d bytes: %d requests, a reply of %d bytes", test.entries, test.size, n, f.largest)
			}
			first, last := f.atRevs[0], f.atRevs[len(f.atRevs)-1]
			if n > 1 && last != f.rev {
				t.Errorf("the last of %d pages is of revision %d, want the first's, %d", n, last, f.rev)
			}
			f.atRevs = slices.DeleteFunc(f.atRevs, func(rev int64) bool { return rev == f.rev })
			if first != 0 || slices.ContainsFunc(f.atRevs, func(rev int64) bool { return rev != 0 }) {
				t.Errorf("pages at revisions %d and %v, want the first's, %d", first, f.atRevs, f.rev)
			}
		}
	})
}

// A watched queue and a view of all of it are read in pages without values.
func TestWholeQueueIsReadInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		f, c := newFake(t)
		s := open(t, f, c)
		fill(t, f, s, c, n, 10)
		read := map[string]func() (places int, err error){
			"Ahead": func() (int, error) {
				v, err := s.Ahead(t.Context(), queue, driver.Place{})
				return len(v.Ahead), err
			},
			"WatchQueue": func() (places int, err error) {
				err = s.WatchQueue(t.Context(), queue, func(all []driver.Place) bool {
					places = len(all)
					return false
				})
				return places, err
			},
		}
		for name, read := range read {
			f.largest, f.atRevs = 0, nil
			places, err := read()
			if check(t, err); places != n || len(f.atRevs) != 3 || f.largest > 1<<20 {
				t.Errorf("%s: %d places in pages at revisions %d, with up to %d bytes", name, places, f.atRevs, f.largest)
			}
		}
	})
}

// A compaction between two pages makes the list start again.
func TestListSurvivesCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		fill(t, f, s, c, 1000, 10)
		f.compacted = f.rev
		f.onCompacted = func() {
			f.rev++
			f.compacted = f.rev - 1
		}
		list, err := s.List(t.Context(), queue, 0)
		if check(t, err); len(list) != 1000 || !slices.Equal(f.atRevs, []int64{0, 0}) {
			t.Errorf("%d entries with reads at %v", len(list), f.atRevs)
		}
	})
}
