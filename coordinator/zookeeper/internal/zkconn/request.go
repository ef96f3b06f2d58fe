package zkconn

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// Reply is the outcome of a started request.
type Reply[T any] struct {
	conn  *Conn
	value T
	err   error
	done  chan struct{} // closed when value and err are set
}

var errNoSlot = errors.New("zookeeper: too many requests are waiting for an answer")

// Do sends a request and waits for its reply.
func Do[T any](ctx context.Context, c *Conn, request func(*zk.Conn) (T, error)) (T, error) {
	r, err := Start(ctx, c, request)
	if err != nil {
		var zero T
		return zero, err
	}
	return r.Wait(ctx)
}

// Start sends a request. If it fails, nothing was and will be sent. The request
// runs in its own goroutine, since the client's calls take no context: they
// block until the reply comes or the connection is lost.
func Start[T any](
	ctx context.Context, c *Conn, request func(*zk.Conn) (T, error),
) (*Reply[T], error) {
	if err := c.acquire(ctx); err != nil {
		return nil, err
	}
	r := &Reply[T]{conn: c, done: make(chan struct{})}
	go func() {
		defer c.release()
		value, err := request(c.client)
		r.value, r.err = value, c.classify(err)
		close(r.done)
	}()
	return r, nil
}

// Wait waits for the reply. It fails if ctx or the session ends.
func (r *Reply[T]) Wait(ctx context.Context) (value T, err error) {
	if err := r.conn.Until(ctx, r.done); err != nil {
		return value, err
	}
	return r.value, r.err
}

// Until waits until a channel is closed. It fails if ctx or the session ends.
func (c *Conn) Until(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
		return c.Err()
	}
}

// acquire waits until a request can be sent, and takes a slot for it. Requests
// are not handed to a client that is not connected: it has room for 16 and then
// blocks its callers without end.
func (c *Conn) acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := c.awaitConnection(ctx); err != nil {
		return err
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return unavailable(ctx, errNoSlot)
	case <-c.ctx.Done():
		return c.Err()
	}
	if err := c.begin(); err != nil {
		<-c.slots
		return err
	}
	return nil
}

func (c *Conn) release() {
	<-c.slots
	c.running.Done()
}

// awaitConnection waits for a connection.
func (c *Conn) awaitConnection(ctx context.Context) error {
	err := c.Until(ctx, c.connected())
	if err != nil && c.Err() == nil {
		return unavailable(ctx, c.lastError())
	}
	return err
}

// Renew sends a sync, which goes to the leader and back, and needs no
// permission. A follower that has lost its leader answers reads, and collects
// touches that never reach a leader, until it notices. Renew takes no slot: the
// coordinator sends few at a time. Renewals that waited for a connection would
// all be sent at once.
//
// A leader answers a sync by itself. One that was paused while another was
// elected answers until it notices, up to a tick after it resumes, but by then
// the new leader may have ended the session. So the first renewal over a new
// connection is a transaction that changes nothing, whose reply needs a
// majority. (A new session has been written by a majority.) On a connection
// that the pause has not ended such a transaction confirms the renewal when
// replies came late: see late.
func (c *Conn) Renew(ctx context.Context) error {
	select {
	case <-c.connected():
	default:
		return cmp.Or(c.Err(), driver.Wrap(driver.ErrUnavailable, c.lastError()))
	}
	come := make(chan error, 1)
	go c.Run(func() { come <- c.classify(c.renew()) })
	select {
	case err := <-come:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
		return c.Err()
	}
}

func (c *Conn) renew() error {
	on := c.latestSocket()
	if _, doubtful := on.doubtful(); !doubtful {
		_, err := c.client.Sync("/")
		if _, doubtful = on.doubtful(); err != nil || !doubtful && on == c.latestSocket() {
			return err
		}
	}
	return c.confirm()
}

// confirm sends a transaction that changes nothing.
func (c *Conn) confirm() error {
	on := c.latestSocket()
	doubts, _ := on.doubtful()
	// Without the right to read the root it fails, with a majority all the
	// same.
	_, err := c.client.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
	if err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	on.confirm(doubts) // not of a late reply to this request
	return nil
}

// late is the silence of a server after which renewals are confirmed, or 0 if
// that is never needed.
//
// A client stays on a connection without replies for a quarter of the TTL,
// after at most a tenth without requests. An election takes a tick or more. So
// a renewal over a connection that the pause has not ended is sent at most 0.35
// TTL, less a tick, after the election. The margin and Slack cover 0.4 TTL if
// the tick is not known, else 0.2 TTL and half a tick, which is less only from
// a TTL of ten ticks on. A renewal that they do not cover is sent at least a
// tenth of the TTL less half a tick, so a twentieth of the TTL, after one that
// the pause has left unanswered.
func (c *Conn) late() time.Duration {
	if ttl := c.TTL(); c.conf.Tick > 0 && ttl >= 10*c.conf.Tick {
		return ttl / 20
	}
	return 0
}

// latestSocket is the one that the client uses, or will use next.
func (c *Conn) latestSocket() *socket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.socket
}

// Sync makes everything applied before the call known to the server that
// answers the next requests.
//
// It rests on a connection that a majority has confirmed: see Renew. A leader
// that was deposed in a pause would sync with itself, and not know what this
// session has written since through another server.
func (c *Conn) Sync(ctx context.Context, path string) error {
	for {
		if err := c.prove(ctx); err != nil {
			return err
		}
		on := c.latestSocket()
		_, err := Do(ctx, c, func(client *zk.Conn) (string, error) { return client.Sync(path) })
		if err != nil || on == c.latestSocket() {
			return err
		}
	}
}

// prove has a majority confirm the present connection, unless that was done. Of
// concurrent calls one sends the request: thousands of waiters may read again
// after a reconnect.
func (c *Conn) prove(ctx context.Context) error {
	if c.latestSocket().proven() {
		return nil
	}
	select {
	case c.proving <- struct{}{}:
		defer func() { <-c.proving }()
	case <-ctx.Done():
		return unavailable(ctx, c.lastError())
	case <-c.ctx.Done():
		return c.Err()
	}
	for !c.latestSocket().proven() {
		_, err := Do(ctx, c, func(*zk.Conn) (struct{}, error) { return struct{}{}, c.confirm() })
		if err != nil {
			return err
		}
	}
	return nil
}

// Fresh returns the result of read, at least as new as everything that this
// session has read before.
//
// On one connection this always holds. On a reconnect a server that is behind
// the latest reply refuses, but not one that is behind the latest watch event.
// So the first read after a reconnect costs a sync, and a write if no renewal
// came before it; and a read over a later connection than the synced one is
// repeated.
func Fresh[T any](ctx context.Context, c *Conn, path string, read func() (T, error)) (T, error) {
	var zero T
	for {
		if err := c.awaitConnection(ctx); err != nil {
			return zero, err
		}
		connection := c.connected()
		if c.synced.Load() != connection {
			if err := c.Sync(ctx, path); err != nil {
				return zero, err
			}
			c.synced.Store(connection)
		}
		if value, err := read(); err != nil || c.connected() == connection {
			return value, err
		}
	}
}

// Names reads the names of the children of a node, none if it is missing. An
// active watch shows them without a request, as in Get.
func (c *Conn) Names(ctx context.Context, path string) ([]string, error) {
	if w, err := c.ActiveWatch(ctx, Target{Children, path}); err != nil {
		return nil, err
	} else if w != nil && !w.behind.Load() {
		return w.Seen.Names, nil
	}
	r, err := StartNames(ctx, c, path)
	if err != nil {
		return nil, err
	}
	names, err := r.Wait(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// StartNames starts reading the names of the children of a node.
func StartNames(ctx context.Context, c *Conn, path string) (*Reply[[]string], error) {
	return Start(ctx, c, func(client *zk.Conn) ([]string, error) {
		names, _, err := client.Children(path)
		return names, err
	})
}

// Get reads a node's data and Stat, nothing if it is missing.
func (c *Conn) Get(ctx context.Context, path string) (Seen, error) {
	if w, err := c.ActiveWatch(ctx, Target{Data, path}); err != nil {
		return Seen{}, err
	} else if w != nil {
		return w.Seen, nil
	}
	return Do(ctx, c, func(client *zk.Conn) (Seen, error) {
		value, stat, err := client.Get(path)
		if errors.Is(err, zk.ErrNoNode) {
			return Seen{}, nil
		}
		if err != nil {
			return Seen{}, err
		}
		return Seen{Value: value, Stat: *stat, Exists: true}, nil
	})
}

// Stat reads a node's Stat. A missing node is zk.ErrNoNode.
func (c *Conn) Stat(ctx context.Context, path string) (*zk.Stat, error) {
	return Do(ctx, c, func(client *zk.Conn) (*zk.Stat, error) {
		there, stat, err := client.Exists(path)
		if err == nil && !there {
			err = zk.ErrNoNode
		}
		return stat, err
	})
}

// Delete deletes a node if its data has this version; -1 is any.
func (c *Conn) Delete(ctx context.Context, path string, version int32) error {
	_, err := Do(ctx, c, func(client *zk.Conn) (struct{}, error) {
		return struct{}{}, client.Delete(path, version)
	})
	return err
}
