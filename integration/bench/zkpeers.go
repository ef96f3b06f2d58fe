package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// zkLinks are the connections of a floor, or of a peer in Go.
type zkLinks []*zk.Conn

var open4all = zk.WorldACL(zk.PermAll)

// quiet keeps the client library from writing to stderr.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

func openZKLinks(ctx context.Context, a access, n int) (links zkLinks, err error) {
	for range n {
		c, events, err := zk.Connect(a.addrs, defaultTTL, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
		if err != nil {
			links.close()
			return nil, err
		}
		links = append(links, c)
		for up := false; !up; {
			select {
			case e := <-events:
				up = e.State == zk.StateHasSession
			case <-ctx.Done():
				links.close()
				return nil, context.Cause(ctx)
			}
		}
	}
	return links, nil
}

func (ls zkLinks) of(i int) *zk.Conn { return ls[i%len(ls)] }

func (ls zkLinks) close() {
	for _, c := range ls {
		c.Close()
	}
}

// parent makes a node with all its ancestors.
func (ls zkLinks) parent(path string) error {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if _, err := ls[0].Create(path[:i], nil, 0, open4all); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("bench: %s: %w", path[:i], err)
		}
	}
	return nil
}

// zkFloor makes an ephemeral node and deletes it.
type zkFloor struct{ zkLinks }

func (f zkFloor) contender(i int, name string) (contender, error) {
	c, path := f.of(i), fmt.Sprintf("/floor/%s-%d", name, i) // never shared
	return &taker{lock: func(context.Context) (func(context.Context) error, error) {
		if _, err := c.Create(path, nil, zk.FlagEphemeral, open4all); err != nil {
			return nil, err
		}
		return func(context.Context) error { return c.Delete(path, -1) }, nil
	}}, nil
}

// zkLocks are go-zookeeper's own.
type zkLocks struct{ zkLinks }

func (p zkLocks) contender(i int, name string) (contender, error) {
	l := zk.NewLock(p.of(i), "/peer/"+name, open4all)
	return &taker{lock: func(context.Context) (func(context.Context) error, error) {
		return func(context.Context) error { return l.Unlock() }, l.Lock()
	}}, nil
}
