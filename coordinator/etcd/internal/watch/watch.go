// Package watch waits for changes of keys, over reconnects, compactions, tokens
// that expire, and members that no longer apply what the others do.
//
//	watch.go    Await
//	streams.go  which gRPC stream the watches share, and when they leave it
//	refresh.go  whether the member behind a stream still follows the others
package watch

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

var (
	errEnded = errors.New("etcd: the watch ended")
	errLeft  = errors.New("etcd: the watches have moved to another stream")
)

// Watcher opens the watches of one session. They end with Life.
type Watcher struct {
	Client  clientv3.Watcher
	Streams *Streams
	Life    context.Context
	// User is true for a client with a user name and a password.
	User bool
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
// it. A new watch from now and another read miss nothing. The same holds when
// the watches leave their stream, and for a watch that was refused because its
// stream has no valid token: the next stream has a new one.
func (w *Watcher) Await(
	ctx context.Context, key string, opts []clientv3.OpOption, tell Tell,
) error {
	opts = append(opts, clientv3.WithCreatedNotify())
	for again := true; ; {
		st := w.Streams.current()
		err := w.awaitOn(ctx, st, key, opts, tell)
		switch {
		case err == nil || err == errEnded: //nolint:errorlint // ours; the others cost a search
			return err
		case errors.Is(err, errLeft), answer.Is(err, rpctypes.ErrCompacted):
		case w.unauthenticated(err):
			w.Streams.replace(st, w.Streams.next())
			if !again { // a new stream is refused, too: the caller pauses
				return answer.Passing(err)
			}
			again = false
		default:
			return err
		}
	}
}

// awaitOn is Await until its watch on one stream ends.
func (w *Watcher) awaitOn(
	ctx context.Context, st *stream, key string, opts []clientv3.OpOption, tell Tell,
) error {
	wctx, cancel := w.on(st)
	ask := func() clientv3.WatchChan { return w.Client.Watch(wctx, key, opts...) }
	events := open(ctx, st, ask, cancel)
	if events == nil {
		return ended(st)
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
				return err
			}
			if done, err := tell(ctx, resp); done || err != nil {
				return err
			}
		case <-st.left:
			return errLeft
		case <-ctx.Done():
			return errEnded
		case <-wctx.Done():
			return errEnded
		}
	}
}

// on returns the context of a watch on a stream.
//
// The client puts all watches whose contexts have the same outgoing metadata on
// one stream, which keeps the values of the first context. So the context is
// derived from the session and has neither metadata nor a trace of the
// caller's.
func (w *Watcher) on(st *stream) (context.Context, context.CancelFunc) {
	return context.WithCancel(metadata.NewOutgoingContext(w.Life, st.md))
}

func ended(st *stream) error {
	select {
	case <-st.left:
		return errLeft
	default:
		return errEnded
	}
}

// open asks for a watch and waits until the server says that it exists. It
// returns nil if ctx ends first, or the watches leave the stream; the watch is
// then cancelled later.
//
// A watch may be cancelled only when it exists. If a watch is cancelled before,
// the client sends no cancel, since it has no watch ID yet, and the server
// keeps the watch until the key changes. Callers with short deadlines that
// retry would pile up such watches there. So a goroutine waits for the answer.
// It ends with the session at the latest, whose context is the parent of the
// watch's.
func open(
	ctx context.Context, st *stream, ask func() clientv3.WatchChan, cancel context.CancelFunc,
) clientv3.WatchChan {
	exists := make(chan clientv3.WatchChan)
	st.asked.Add(1)
	go func() {
		events := ask()
		st.asked.Add(-1)
		select {
		case exists <- events:
			return
		case <-ctx.Done(): // the caller does not wait any more
		case <-st.left:
		}
		cancel()
	}()
	select {
	case events := <-exists:
		return events
	case <-ctx.Done():
	case <-st.left:
	}
	return nil
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
