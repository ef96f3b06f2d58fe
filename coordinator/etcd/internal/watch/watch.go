// Package watch waits for changes of keys, over reconnects, compactions and tokens
// that expire.
package watch

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

// RequireLeader are the metadata with which a member that knows no leader refuses a
// request or a stream.
var RequireLeader = metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)

var errEnded = errors.New("etcd: the watch ended")

// Watcher opens the watches of one session. They end with Life.
type Watcher struct {
	Client  clientv3.Watcher
	Streams *Streams
	Life    context.Context
}

// Tell handles one message of a watch. done ends the wait.
type Tell func(ctx context.Context, resp clientv3.WatchResponse) (done bool, err error)

// Await watches a key, or the range that opts make of it, until tell says that it
// is done. The error is that of the service, of tell, or any when ctx or the session
// ended.
//
// The watch starts from now, not from the revision of an earlier view: etcd serves
// a start that has passed in rounds of 100 ms. tell finds a change between the view
// and the watch by reading once when the server says that the watch exists: with
// its first message, which is Created.
//
// A compaction cancels a watch that was resumed, after a reconnect, from before it.
// A new one from now, and another read, miss nothing.
func (w *Watcher) Await(
	ctx context.Context, key string, opts []clientv3.OpOption, tell Tell,
) error {
	opts = append(opts, clientv3.WithCreatedNotify())
	for {
		err := w.awaitOnce(ctx, key, opts, tell)
		if err == nil || !answer.Is(err, rpctypes.ErrCompacted) {
			return err
		}
	}
}

func (w *Watcher) awaitOnce(
	ctx context.Context, key string, opts []clientv3.OpOption, tell Tell,
) error {
	// The client puts all watches whose contexts have the same outgoing metadata on
	// one stream, which keeps the values of the first context. So the context is
	// derived from the session and has nothing of the caller's, neither metadata
	// nor a trace.
	stream := w.Streams.current()
	wctx, cancel := context.WithCancel(metadata.NewOutgoingContext(w.Life, stream))
	watch := open(cancel, func() clientv3.WatchChan { return w.Client.Watch(wctx, key, opts...) })
	defer watch.close()
	events := watch.wait(ctx)
	if events == nil {
		return errEnded
	}
	for {
		select {
		case resp, ok := <-events:
			if !ok {
				// The client ends a watch without a word when it is closed itself.
				// Watching again at once would spin, so the caller decides.
				return errEnded
			}
			if err := resp.Err(); err != nil {
				w.Streams.failed(stream, err)
				return err
			}
			if done, err := tell(ctx, resp); done || err != nil {
				return err
			}
		case <-ctx.Done():
			return errEnded
		case <-wctx.Done():
			return errEnded
		}
	}
}

// opening is a watch that was asked for.
//
// A watch may be cancelled only when the server has said that it exists. The client
// forgets one that is cancelled before and sends no cancel, since it has no number
// yet; the server, which makes it all the same, then keeps it until the key
// changes. Callers with short deadlines that retry would pile such watches up
// there. So a goroutine waits for the answer, and gives the watch to the caller or
// cancels it.
type opening struct {
	stands chan clientv3.WatchChan // has a receiver only while the caller waits
	over   chan struct{}           // closed by the caller
	cancel context.CancelFunc
	stood  bool // the caller has the watch; only the caller uses this field
}

// open asks for a watch whose context cancel ends. The caller must close what it
// returns. The goroutine ends once the caller has closed it and the watch exists,
// or with the session, whose context is above that of the watch.
func open(cancel context.CancelFunc, ask func() clientv3.WatchChan) *opening {
	o := &opening{
		stands: make(chan clientv3.WatchChan), over: make(chan struct{}), cancel: cancel,
	}
	go func() {
		events := ask()
		select {
		case o.stands <- events:
		case <-o.over:
			cancel()
		}
	}()
	return o
}

// wait waits until the server says that the watch exists. It returns nil if ctx ends
// first.
func (o *opening) wait(ctx context.Context) (events clientv3.WatchChan) {
	select {
	case events = <-o.stands:
		o.stood = true
	case <-ctx.Done():
	}
	return events
}

// close ends the watch, if need be later, and never waits.
func (o *opening) close() {
	if o.stood {
		o.cancel()
	}
	close(o.over)
}

// Newest is the revision that a message of a watch shows.
func Newest(resp clientv3.WatchResponse) (rev int64) {
	if resp.Created {
		return resp.Header.Revision
	}
	for _, ev := range resp.Events {
		rev = max(rev, ev.Kv.ModRevision)
	}
	return rev
}

// Streams chooses the gRPC stream that a client's watches share.
//
// A stream keeps the auth token with which it was opened, while tokens expire and
// change with the roles. The server checks the token for every new watch, so on an
// old stream each of them would be refused until the last watch there ends, and the
// watch on a session's sentinel never does. Other metadata make another stream.
type Streams struct {
	gen atomic.Int64
}

const streamKey = "baton-stream"

func (st *Streams) current() metadata.MD {
	gen := st.gen.Load()
	if gen == 0 {
		return RequireLeader // one for all: a copy is a good part of a watch's memory
	}
	md := RequireLeader.Copy()
	md.Set(streamKey, strconv.FormatInt(gen, 10))
	return md
}

// failed moves on from a stream whose token is refused. Of all watches that fail on
// one stream only the first moves on.
func (st *Streams) failed(md metadata.MD, err error) {
	if !answer.Is(err, rpctypes.ErrInvalidAuthToken) && !answer.Is(err, rpctypes.ErrAuthOldRevision) {
		return
	}
	var gen int64
	if v := md.Get(streamKey); len(v) > 0 {
		gen, _ = strconv.ParseInt(v[0], 10, 64)
	}
	st.gen.CompareAndSwap(gen, gen+1)
}
