// Package watch waits for changes of keys, over reconnects, compactions and
// tokens that expire.
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

// requireLeader is the metadata with which a member refuses a request or a
// stream while it knows no leader.
var requireLeader = metadata.Pairs(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)

var errEnded = errors.New("etcd: the watch ended")

// Watcher opens the watches of one session. They end with Life.
type Watcher struct {
	Client  clientv3.Watcher
	Streams *Streams
	Life    context.Context
}

// Tell handles one message of a watch. done ends the wait.
type Tell func(ctx context.Context, resp clientv3.WatchResponse) (done bool, err error)

// Await watches a key, or the range that opts make of it, until tell returns
// done. It returns the service's error or tell's. When ctx or the session ends
// it returns an unspecified error.
//
// The watch starts from now. From the revision of an earlier view, etcd would
// serve it in rounds of 100 ms. tell finds a change between the view and the
// watch: it reads once when the server says that the watch exists, with its
// first message, Created.
//
// A compaction cancels a watch that was resumed, after a reconnect, from before
// it. A new watch from now and another read miss nothing.
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
	// The client puts all watches whose contexts have the same outgoing
	// metadata on one stream, which keeps the values of the first context. So
	// the context is derived from the session and has neither metadata nor a
	// trace of the caller's.
	stream, md := w.Streams.current()
	wctx, cancel := context.WithCancel(metadata.NewOutgoingContext(w.Life, md))
	ask := func() clientv3.WatchChan { return w.Client.Watch(wctx, key, opts...) }
	events := open(ctx, ask, cancel)
	if events == nil {
		return errEnded
	}
	defer cancel()
	for {
		select {
		case resp, ok := <-events:
			if !ok {
				// A client that is closed ends a watch without an error.
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

// open asks for a watch and waits until the server says that it exists. It
// returns nil if ctx ends first; the watch is then cancelled later.
//
// A watch may be cancelled only when it exists. If a watch is cancelled before,
// the client sends no cancel, since it has no watch ID yet, and the server
// keeps the watch until the key changes. Callers with short deadlines that
// retry would pile up such watches there. So a goroutine waits for the answer.
// It ends with the session at the latest, whose context is the parent of the
// watch's.
func open(
	ctx context.Context, ask func() clientv3.WatchChan, cancel context.CancelFunc,
) clientv3.WatchChan {
	exists := make(chan clientv3.WatchChan)
	go func() {
		events := ask()
		select {
		case exists <- events:
		case <-ctx.Done(): // the caller does not wait any more
			cancel()
		}
	}()
	select {
	case events := <-exists:
		return events
	case <-ctx.Done():
		return nil
	}
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
// A stream keeps the auth token with which it was opened, while tokens expire
// and change with the roles. The server checks the token for every new watch,
// so on an old stream each of them would be refused until the last watch there
// ends, and the watch on a session's sentinel never does. Other metadata make
// another stream.
type Streams struct {
	gen atomic.Int64
}

// current returns the stream to use, and the metadata that lead to it.
func (st *Streams) current() (gen int64, md metadata.MD) {
	if gen = st.gen.Load(); gen == 0 {
		return gen, requireLeader // shared: a copy is a good part of a watch's memory
	}
	md = requireLeader.Copy()
	md.Set("baton-stream", strconv.FormatInt(gen, 10))
	return gen, md
}

// failed moves on from a stream whose token is refused. Of all watches that
// fail on one stream only the first moves on.
func (st *Streams) failed(gen int64, err error) {
	if answer.Is(err, rpctypes.ErrInvalidAuthToken) || answer.Is(err, rpctypes.ErrAuthOldRevision) {
		st.gen.CompareAndSwap(gen, gen+1)
	}
}
