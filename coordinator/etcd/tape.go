package etcd

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// tape follows a line by one watch, for all of a session who wait for one of
// several places, or read the whole line meanwhile: they come again and again,
// and a watch and a look for each of them would cost more than all events.
// Nobody needs it any more when something happens in the line and nobody has
// waited for a while; so what it leaves at the service goes when the line
// changes.
type tape struct {
	session *session
	line    driver.Line

	mu      sync.Mutex
	users   int
	since   time.Time        // as of when there are none
	heads   []driver.Head    // in order, without values
	made    map[string]int64 // their create revisions, by key; nil before the first reading
	rev     int64            // as of which
	floor   int64            // of what the session has finished in the line: a tape that is behind is not read
	changed chan struct{}    // closed and replaced
	over    bool             // it has ended for want of users, and may have none any more
	err     error
}

// linger is how long a tape without users goes on for those who come again.
const linger = 5 * time.Millisecond

// tapes are those of a session, by line.
type tapes struct {
	mu sync.Mutex
	m  map[driver.Line]*tape
}

// follow adds a user to the tape of a line, which begins if there is none.
func (s *session) follow(line driver.Line) *tape {
	s.tapes.mu.Lock()
	defer s.tapes.mu.Unlock()
	if t := s.tapes.m[line]; t != nil && t.enter() {
		return t
	}
	t := &tape{session: s, line: line, users: 1, changed: make(chan struct{})}
	if s.tapes.m == nil {
		s.tapes.m = make(map[driver.Line]*tape)
	}
	s.tapes.m[line] = t
	go t.run() // ends with the session at the latest
	return t
}

// enter adds a user, unless the tape is over.
func (t *tape) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.users++
	}
	return !t.over
}

// of is the tape of a line, nil if there is none.
func (ts *tapes) of(line driver.Line) *tape {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.m[line]
}

// finished notes that this session has changed the line at a revision, or knows
// what it was at that.
func (s *session) finished(line driver.Line, rev int64) {
	if t := s.tapes.of(line); t != nil { // one that comes later reads the line
		t.mu.Lock()
		defer t.mu.Unlock()
		t.floor = max(t.floor, rev)
	}
}

func (t *tape) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users--
	t.since = time.Now()
}

// run follows the line until something fails or nobody cares.
func (t *tape) run() {
	s, prefix := t.session, t.session.keys.line(t.line)
	err := s.await(s.life, prefix, []clientv3.OpOption{clientv3.WithPrefix()}, t.told)
	s.tapes.mu.Lock()
	defer s.tapes.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.err = err; err == nil {
		t.err = errWatchEnded
	}
	if s.tapes.m[t.line] == t {
		delete(s.tapes.m, t.line)
	}
	close(t.changed)
}

// told handles one message of the watch. When the watch is there, or is there
// again, it reads the line: by quorum, since what comes from the tape later
// stands for a quorum read.
func (t *tape) told(ctx context.Context, resp clientv3.WatchResponse) (done bool, err error) {
	var r reading
	if resp.Created {
		if r, err = t.session.get(ctx, clientv3.OpGet(t.session.keys.line(t.line), clientv3.WithPrefix(), clientv3.WithKeysOnly())); err != nil {
			return false, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	news := resp.Created
	if resp.Created {
		t.heads, t.rev = t.session.keys.inOrder(t.line, r.kvs), r.rev
		t.made = make(map[string]int64, len(r.kvs))
		for _, kv := range r.kvs {
			t.made[string(kv.Key)] = kv.CreateRevision
		}
	}
	for _, ev := range resp.Events {
		if ev.Kv.ModRevision > t.rev { // else the reading has shown it
			t.take(ev)
			news = true
		}
	}
	t.rev = max(t.rev, newest(resp))
	if news {
		close(t.changed)
		t.changed = make(chan struct{})
	}
	t.over = t.users == 0 && (len(t.made) == 0 || time.Since(t.since) > linger)
	return t.over, nil
}

// take takes in one event. The caller holds t.mu.
func (t *tape) take(ev *clientv3.Event) {
	key := string(ev.Kv.Key)
	old, stands := t.made[key]
	if isMark(key) || ev.Type == mvccpb.PUT && old == ev.Kv.CreateRevision {
		return // only its value is new
	}
	if stands {
		handle := entry{key, old}.handle()
		t.heads = slices.DeleteFunc(t.heads, func(h driver.Head) bool { return h.Key == handle })
		delete(t.made, key)
	}
	if ev.Type == mvccpb.PUT {
		h := t.session.keys.head(t.line, ev.Kv)
		h.Value = nil
		i, _ := slices.BinarySearchFunc(t.heads, h, before)
		t.heads = slices.Insert(t.heads, i, h)
		t.made[key] = ev.Kv.CreateRevision
	}
}

// awaitAny returns nil when one of several places is gone. While the tape is
// behind the newest of them it has not seen them yet.
func (s *session) awaitAny(ctx context.Context, line driver.Line, made map[string]int64, newest int64) error {
	t := s.follow(line)
	defer t.leave()
	for {
		gone, changed, err := t.lacks(made, newest)
		switch {
		case s.alive() != nil:
			return driver.ErrSessionLost
		case err != nil:
			return err
		case gone:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.life.Done():
			return s.watchFailed(ctx, errWatchEnded)
		}
	}
}

// lacks tells whether the tape has come as far as newest, and lacks one of the
// entries that were made at these revisions.
func (t *tape) lacks(made map[string]int64, newest int64) (gone bool, changed <-chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || t.made == nil || t.rev < newest {
		return false, t.changed, t.err
	}
	for key, rev := range made {
		if t.made[key] != rev {
			t.session.learn(t.rev)
			return true, nil, nil
		}
	}
	return false, t.changed, nil
}

// taped shows the line, if there is a tape. It waits a little until the tape is
// as new as all that the session has finished.
func (s *session) taped(ctx context.Context, line driver.Line) (all []driver.Place, ok bool) {
	t := s.tapes.of(line)
	if t == nil {
		return nil, false
	}
	t.mu.Lock()
	floor := max(t.floor, s.seen.Load()) // what is finished from now on need not be shown
	t.mu.Unlock()
	late := time.NewTimer(linger)
	defer late.Stop()
	for {
		t.mu.Lock()
		changed, failed := t.changed, t.err != nil
		if !failed && t.made != nil && t.rev >= floor {
			all, ok = places(t.heads), true
		}
		t.mu.Unlock()
		if ok || failed {
			return all, ok
		}
		select {
		case <-changed:
		case <-late.C: // what was finished was seen elsewhere, perhaps
			return nil, false
		case <-ctx.Done():
			return nil, false
		case <-s.life.Done():
			return nil, false
		}
	}
}
