package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/coordinator/driver"
)

// client is a Driver.
type client struct {
	redis goredis.UniversalClient
	own   bool // made by Open, so that Close closes it
	// renewals is for those alone, if Open made it: many requests that take
	// long would keep all connections, and the session would end.
	renewals goredis.UniversalClient
	name     string
	prefix   string // of all keys, with their hash tag: "baton:{/apps/orders}:"

	exposed bool // a password crosses a network without TLS

	ctx    context.Context // ends when the driver is closed
	cancel context.CancelFunc

	mu    sync.Mutex // no call begins while ctx ends
	calls sync.WaitGroup
}

func newClient(r goredis.UniversalClient, own bool, name, namespace string) *client {
	c := &client{redis: r, renewals: r, own: own, name: name, prefix: "baton:{/" + namespace + "}:"}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// keys returns the keys of a script.
func (c *client) keys(name string, queue driver.Queue) []string {
	var keys []string
	for _, key := range scripts[name].keys {
		switch key {
		case "queue":
			keys = append(keys, c.key(queue))
		case "record":
			keys = append(keys, c.prefix+"r:"+string(queue))
		default:
			keys = append(keys, c.prefix+key)
		}
	}
	return keys
}

func (c *client) key(queue driver.Queue) string { return c.prefix + "q:" + string(queue) }

// String implements driver.Driver.
func (c *client) String() string { return c.name }

// Close implements driver.Driver. It waits for the calls under way, which end
// with their connections.
func (c *client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	done := make(chan struct{})
	go func() { // closing may wait for a Sentinel
		if c.own {
			_ = c.redis.Close() // says nothing that can be acted on
			if c.renewals != c.redis {
				_ = c.renewals.Close()
			}
		}
		c.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// spawn runs f in a goroutine that Close waits for. After Close it returns
// false.
func (c *client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.calls.Go(f)
	return true
}

// Open implements driver.Driver. The session's ID is random, so that an Open
// whose reply is lost leaves a session that no one uses, for its ttl.
func (c *client) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if granted := ttl.Truncate(time.Microsecond); granted != ttl || ttl <= 0 {
		return nil, invalid("a TTL of %v; want whole microseconds: %v", ttl, granted)
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	s := &session{client: c, id: hex.EncodeToString(id[:]), ttl: ttl,
		waits: map[string]waits{}, entries: map[string]known{}}
	if _, err := c.run(ctx, "open", "", s.id, ttl.Microseconds()); err != nil {
		return nil, err
	}
	s.ctx, s.end = context.WithCancel(c.ctx)
	return s, nil
}

// place parses an entry. The key of a place is its token.
func place(entry string) (p driver.Place, token driver.Token, value string) {
	head, value, _ := strings.Cut(entry, "\n")
	f := append(strings.SplitN(head, " ", 4), "", "", "") // not of Baton, if it has fewer
	token, _ = driver.ParseToken(f[0])
	return driver.Place{Key: f[0], ID: f[1], Mode: f[2], Session: f[3]}, token, value
}
