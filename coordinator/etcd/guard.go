package etcd

import (
	"context"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// guards tell followers that somebody has removed their own entries. One guard, which is one watch, is there for all followers that a session
// has in a line and that have waited for long: their keys have a prefix of their own. It
// comes with the first of them and goes with the last.
type guards struct {
	mu sync.Mutex
	m  map[string]*guard // by prefix
}

type guard struct {
	prefix string
	cancel context.CancelFunc
	since  int64 // the revision from which the watch counts, 0 while there is none
	posts  map[string][]*post
}

// post is the place of one follower at its guard.
type post struct {
	guard    *guard
	entry    entry
	warnings chan warning // with room for one, the latest
}

// warning says that the follower has to look at its entry, as of since or later; or that the entry is gone, or why the guard is.
type warning struct {
	since int64
	err   error
}

// enter posts a follower, and starts the guard if there is none. The follower is told to look at its entry as soon as the watch stands.
func (gs *guards) enter(s *session, e entry) *post {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	prefix := siblings(e)
	g := gs.m[prefix]
	if g == nil {
		// The session's end ends the watch, with another error than that of a context.
		ctx, cancel := context.WithCancel(context.Background())
		g = &guard{prefix: prefix, cancel: cancel, posts: make(map[string][]*post)}
		gs.m[prefix] = g
		go gs.run(ctx, s, g) // ends with the session at the latest
	}
	p := &post{g, e, make(chan warning, 1)}
	g.posts[e.key] = append(g.posts[e.key], p)
	if g.since > 0 {
		p.warn(warning{since: g.since})
	}
	return p
}

// leave takes a follower from its post, and ends a guard that has no other.
func (gs *guards) leave(p *post) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := p.guard
	others := slices.DeleteFunc(g.posts[p.entry.key], func(o *post) bool { return o == p })
	if g.posts[p.entry.key] = others; len(others) == 0 {
		delete(g.posts, p.entry.key)
	}
	if len(g.posts) == 0 {
		gs.end(g)
	}
}

// end is called with the mutex held.
func (gs *guards) end(g *guard) {
	g.cancel()
	if gs.m[g.prefix] == g {
		delete(gs.m, g.prefix)
	}
}

// run watches until the guard ends or the watch fails, which all followers are told then.
func (gs *guards) run(ctx context.Context, s *session, g *guard) {
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithFilterPut()}
	err := s.await(ctx, g.prefix, opts, func(_ context.Context, resp clientv3.WatchResponse) (bool, error) {
		gs.told(g, resp)
		return false, nil
	})
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.end(g)
	for _, posts := range g.posts {
		for _, p := range posts {
			p.warn(warning{err: err})
		}
	}
}

// told handles a message of the watch. One that was made anew has not told of what happened before it stood.
func (gs *guards) told(g *guard, resp clientv3.WatchResponse) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if resp.Created {
		g.since = resp.Header.Revision
		for _, posts := range g.posts {
			for _, p := range posts {
				p.warn(warning{since: g.since})
			}
		}
		return
	}
	g.since = max(g.since, newest(resp)) // those who come now were not told of these
	for _, ev := range resp.Events {
		if ev.Type != mvccpb.DELETE {
			continue
		}
		for _, p := range g.posts[string(ev.Kv.Key)] {
			if ev.Kv.ModRevision > p.entry.rev {
				p.warn(warning{err: driver.ErrGone})
			}
		}
	}
}

// warn is called with the mutex held, so that there is one who sends.
func (p *post) warn(w warning) {
	select {
	case <-p.warnings:
	default:
	}
	p.warnings <- w
}
