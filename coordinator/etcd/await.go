package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/driver"
)

var errWatchEnded = errors.New("etcd: the watch ended")

// teller handles one message of a watch. done ends the wait.
type teller func(ctx context.Context, resp clientv3.WatchResponse) (done bool, err error)

// await watches a key, or the range that opts make of it, until told says that it is done.
//
// The watch starts from now, not from the revision of the view before it:
// etcd serves a start that has passed in rounds of 100 ms. A change between the view
// and the watch is found by looking, once the server says that the watch is there: with its
// first message, which is Created.
//
// A compaction cancels a watch that was resumed, after a reconnect, from before it. A
// new one from now, and a look, miss nothing.
func (s *session) await(ctx context.Context, key string, opts []clientv3.OpOption, told teller) error {
	opts = append(opts, clientv3.WithCreatedNotify())
	for {
		err := s.awaitOnce(ctx, key, opts, told)
		if err == nil || !isAnswer(err, rpctypes.ErrCompacted) {
			return err
		}
	}
}

func (s *session) awaitOnce(ctx context.Context, key string, opts []clientv3.OpOption, told teller) error {
	stream := s.streams.current()
	wctx, cancel := s.watchContext(stream)
	watch := openWatch(cancel, func() clientv3.WatchChan { return s.c.Watch(wctx, key, opts...) })
	defer watch.close()
	events := watch.wait(ctx)
	if events == nil {
		return s.watchFailed(ctx, errWatchEnded)
	}
	for {
		select {
		case resp, ok := <-events:
			if err := s.broken(ctx, stream, resp, ok); err != nil {
				return err
			}
			done, err := told(ctx, resp)
			if err != nil {
				return s.watchFailed(ctx, err)
			}
			if done {
				return nil
			}
		case <-ctx.Done():
			return s.watchFailed(ctx, errWatchEnded)
		case <-wctx.Done():
			return s.watchFailed(ctx, errWatchEnded)
		}
	}
}

// broken is the error of a watch that ends with this message, or without one; nil if it goes on.
func (s *session) broken(ctx context.Context, stream metadata.MD, resp clientv3.WatchResponse, ok bool) error {
	if !ok {
		// The client ends a watch without a word when it is closed itself. Watching
		// again at once would spin, so the coordinator decides.
		return s.watchFailed(ctx, errWatchEnded)
	}
	if err := resp.Err(); err != nil {
		s.streams.failed(stream, err)
		return s.watchFailed(ctx, err)
	}
	return nil
}

// opening is a watch that was asked for.
//
// A watch may be cancelled only when the server has said that it is there. The client forgets one that is cancelled before
// and sends no cancel, since it has no number yet; the server, which makes it all the same, then keeps it until the key
// changes. Callers with little patience that come again and again would pile them up there. So
// a goroutine waits for the answer, and gives the watch to the caller or cancels it.
type opening struct {
	stands chan clientv3.WatchChan // has a receiver only while the caller waits
	over   chan struct{}           // closed by the caller
	cancel context.CancelFunc
	stood  bool // the caller has it; only whoever has the watch reads and writes this
}

// openWatch asks for a watch whose context cancel ends. The caller must close what it returns.
func openWatch(cancel context.CancelFunc, open func() clientv3.WatchChan) *opening {
	o := &opening{stands: make(chan clientv3.WatchChan), over: make(chan struct{}), cancel: cancel}
	go func() { // ends once the caller has closed it, when the watch stands or the session, whose context is above that of the watch, is over
		events := open()
		select {
		case o.stands <- events:
		case <-o.over:
			cancel()
		}
	}()
	return o
}

// wait waits until the server says that the watch is there, or returns nil when ctx ends first.
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

// newest is the revision that a message of a watch tells of.
func newest(resp clientv3.WatchResponse) (rev int64) {
	if resp.Created {
		return resp.Header.Revision
	}
	for _, ev := range resp.Events {
		rev = max(rev, ev.Kv.ModRevision)
	}
	return rev
}

// watchFailed says why a wait ended: because ctx did, because the session did, or
// because of the service.
func (s *session) watchFailed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.alive() != nil:
		return driver.ErrSessionLost
	}
	return s.failed(ctx, err)
}
