package watch

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// mostMoves is how many other streams one Refresh tries at once. Less than half
// of the members are behind, and streams go to the members in turn.
const mostMoves = 3

// Refresh makes sure that the watches are on a member that has applied revision
// rev, which the caller has read by quorum. If the member behind their stream
// does not show it within a time, all watches move to the stream of one that
// does, and read again what they wait for. It returns false if no stream shows
// the revision; then the watches stay where they are.
//
// A member whose disk hangs still answers pings, serializable reads and new
// watches, keeps its leader and forwards keep-alives. But it sends no events,
// and no error either. What it cannot do is to show a new revision.
//
// RequestProgress would ask for the revision, too. But before etcd 3.4.25 and
// 3.5.8 its answer can overtake an event, and then a watch that is resumed
// after it never gets the event. So Refresh opens another watch, of key, whose
// first message has the member's revision. A stream that has shown rev before
// needs no other proof, unless a watch there does not exist yet: no event up to
// rev is under way on it.
func (w *Watcher) Refresh(key string, rev int64, within time.Duration) bool {
	from := w.Streams.current()
	if from.proven.Load() == rev && from.asked.Load() == 0 {
		return true
	}
	if release, ok := w.shows(from, key, rev, within); ok {
		release()
		return true
	}
	if errors.Is(ended(from), errLeft) { // another session has moved the watches
		return true
	}
	return w.move(from, key, rev, within)
}

// move moves the watches from a stream to the first of several whose member
// shows the revision. These are opened at once, so that they lead to different
// members: one after the other they may meet the silent member each time, if
// other requests of the client come between.
func (w *Watcher) move(from *stream, key string, rev int64, within time.Duration) bool {
	type outcome struct {
		st      *stream
		release func()
		ok      bool
	}
	outcomes := make(chan outcome, mostMoves)
	var tried []*stream
	for range mostMoves {
		st := w.Streams.next()
		tried = append(tried, st)
		go func() {
			release, ok := w.shows(st, key, rev, within)
			outcomes <- outcome{st, release, ok}
		}()
	}
	moved := false
	for range tried {
		o := <-outcomes // within the time
		switch {
		case !o.ok:
		case moved:
			o.release()
		default:
			moved = true
			w.Streams.replace(from, o.st)
			// Without any watch the client would close the stream, and open
			// the next one on another member.
			time.AfterFunc(within, o.release)
			for _, st := range tried {
				if st != o.st {
					close(st.left) // ends its attempt
				}
			}
		}
	}
	return moved
}

// shows reports whether the member behind a stream shows a revision in time. If
// so, the watch that has shown it lasts until release is called.
//
// A healthy member may have to catch up for some milliseconds. So it is asked
// after a pause, and asked again.
func (w *Watcher) shows(
	st *stream, key string, rev int64, within time.Duration,
) (release func(), ok bool) {
	ctx, cancel := context.WithTimeout(w.Life, within)
	defer cancel()
	for {
		select {
		case <-time.After(within / 4):
		case <-st.left:
			return nil, false
		case <-ctx.Done():
			return nil, false
		}
		shown, release := w.shown(ctx, st, key)
		if shown >= rev {
			st.proven.Store(rev)
			return release, true
		}
		release()
	}
}

// shown returns the revision of the member behind a stream, or 0 if it does not
// say. release ends the watch.
func (w *Watcher) shown(
	ctx context.Context, st *stream, key string,
) (rev int64, release func()) {
	wctx, cancel := w.on(st)
	ask := func() clientv3.WatchChan {
		return w.Client.Watch(wctx, key, clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	}
	events := open(ctx, st, ask, cancel)
	if events == nil {
		return 0, func() {} // open cancels it
	}
	select {
	case resp := <-events:
		if resp.Created && resp.Err() == nil {
			rev = resp.Header.Revision
		}
	case <-ctx.Done():
	}
	return rev, cancel
}
