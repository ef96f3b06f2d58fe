package etcd

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

func awaitGone(ctx context.Context, s *session, places ...driver.Place) <-chan outcome[any] {
	result := make(chan outcome[any], 1)
	go func() { result <- outcome[any]{err: s.Watch(ctx, queue, places...)} }()
	return result
}

// W1: the member that serves the watch does not have the places yet.
func TestWatchOnAMemberThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		for _, several := range []bool{false, true} {
			catchUp := f.lag()
			a, b := join(t, s, contender()), join(t, s, contender())
			places := []driver.Place{a.Place, b.Place}
			if !several {
				places = places[:1]
			}
			result := awaitGone(t.Context(), s, places...)
			stillWaits(t, result)
			_ = s.Leave(t.Context(), queue, a.Place)
			catchUp()
			check(t, ended(t, result).err)
		}
	})
}

// A compaction may cancel a watch, and a watch may show earlier entries of a
// key.
func TestWatchSurvivesCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFake(t)
		s := open(t, f, c)
		p := join(t, s, contender()).Place
		result := awaitGone(t.Context(), s, p)
		f.watching(t, 1, "/mutex/")
		inject(f, "/mutex/", clientv3.WatchResponse{Canceled: true, CompactRevision: 5})
		f.watching(t, 1, "/mutex/")
		e, _ := s.keys.Entry(queue, p)
		inject(f, "/mutex/", clientv3.WatchResponse{Events: []*clientv3.Event{
			{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: []byte(e.Key), ModRevision: e.Rev - 1}},
		}})
		stillWaits(t, result)
		_ = s.Leave(t.Context(), queue, p)
		check(t, ended(t, result).err)
	})
}

// inject sends a message to the watches on keys that contain the given text,
// and removes the watches that it ends.
func inject(f *fake, text string, resp clientv3.WatchResponse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp.Header = f.header()
	for w := range f.watchers {
		if strings.Contains(string(w.op.KeyBytes()), text) {
			w.out <- resp
			if resp.Canceled {
				delete(f.watchers, w)
			}
		}
	}
}
