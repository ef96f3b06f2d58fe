package watch

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// members answers each watch with the next of some revisions, by stream; -1: it
// does not answer.
type members struct {
	clientv3.Watcher
	mu       sync.Mutex
	revs     []int64
	answered map[string]context.Context
}

func (m *members) Watch(ctx context.Context, _ string, _ ...clientv3.OpOption) clientv3.WatchChan {
	md, _ := metadata.FromOutgoingContext(ctx)
	m.mu.Lock()
	rev := m.revs[0]
	m.revs = m.revs[1:]
	if rev >= 0 {
		m.answered[strings.Join(md.Get("baton-stream"), "")] = ctx
	}
	m.mu.Unlock()
	if rev < 0 {
		<-ctx.Done() // clientv3 waits for the answer
		return nil
	}
	events := make(chan clientv3.WatchResponse, 1)
	events <- clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: rev}, Created: true}
	return events
}

// TestStreamToWhichWatchesMoveStaysOpen, until they are there, and no other
// that was tried.
func TestStreamToWhichWatchesMoveStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const within = time.Second
		life, end := context.WithCancel(t.Context())
		defer end()
		m := &members{revs: []int64{-1, 7, 7}, answered: map[string]context.Context{}}
		w := &Watcher{Client: m, Streams: &Streams{}, Life: life}
		if !w.move(w.Streams.current(), "sentinel", 7, within) {
			t.Fatal("the watches stay")
		}
		synctest.Wait()
		now := w.Streams.current().md.Get("baton-stream")[0]
		for name, ctx := range m.answered {
			if open := ctx.Err() == nil; open != (name == now) {
				t.Errorf("stream %s, while the watches move to %s: open is %v", name, now, open)
			}
		}
		time.Sleep(within)
		synctest.Wait()
		if m.answered[now].Err() == nil {
			t.Error("the watch that has shown the revision is left")
		}
	})
}

// TestWatchThatIsNotCreatedEndsTheProofOfItsStream: the member has shown the
// revision, takes the next watch and does not say that it exists. All watches
// that are asked for later wait behind this one.
func TestWatchThatIsNotCreatedEndsTheProofOfItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const within = time.Second
		life, end := context.WithCancel(t.Context())
		defer end()
		m := &members{revs: []int64{7, -1, -1, 7, 7, 7, 7}, answered: map[string]context.Context{}}
		w := &Watcher{Client: m, Streams: &Streams{}, Life: life}
		before := w.Streams.current()
		w.Refresh("sentinel", 7, within)
		got := make(chan error, 1)
		go func() {
			got <- w.Await(t.Context(), "key", nil, func(_ context.Context, resp clientv3.WatchResponse) (bool, error) {
				return resp.Created, nil
			})
		}()
		synctest.Wait()
		if !w.Refresh("sentinel", 7, within) || w.Streams.current() == before {
			t.Error("the watches stay")
		}
		synctest.Wait()
		select {
		case err := <-got:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the watch was not asked for again")
		}
	})
}
