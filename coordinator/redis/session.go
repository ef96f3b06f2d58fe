package redis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
)

// session is a client's side of a session.
type session struct {
	client *client
	id     string
	ttl    time.Duration
	epoch  atomic.Int64    // of joins; rises with each Forget
	ctx    context.Context // ends with the session
	end    context.CancelFunc

	inbox    sync.Once   // starts receive
	up       atomic.Bool // messages arrive
	mu       sync.Mutex
	waits    map[string]waits // by the name of what they wait for
	removals atomic.Int64     // of entries, that the server has acknowledged
}

func (s *session) ID() string            { return s.id }
func (s *session) TTL() time.Duration    { return s.ttl }
func (s *session) Done() <-chan struct{} { return s.ctx.Done() }

// Slack implements driver.Session. Redis keeps a session for its whole ttl by
// its own clock, from the moment at which it applied the renewal.
func (s *session) Slack() time.Duration { return 0 }

// Capabilities implements driver.Session.
func (s *session) Capabilities() driver.Capabilities {
	return driver.Capabilities{Handoff: s}
}

// run runs a script of a queue, or one that concerns none.
func (s *session) run(
	ctx context.Context, script string, queue driver.Queue, args ...any,
) ([]string, error) {
	if s.ctx.Err() != nil {
		return nil, statuses["lost"]
	}
	args = append(append([]any{s.id}, args...), s.removals.Load())
	reply, err := s.client.run(ctx, script, queue, args...)
	if errors.Is(err, driver.ErrSessionLost) {
		s.end()
	}
	return reply, err
}

// Renew implements driver.Session. The script also returns what dead sessions
// have left; removing that in the background wakes those who wait for it.
func (s *session) Renew(ctx context.Context) error {
	left, err := s.run(ctx, "renew", "", s.ttl.Microseconds())
	if len(left) > 0 {
		s.client.spawn(func() {
			bound, cancel := context.WithTimeout(s.client.ctx, s.ttl)
			defer cancel()
			_ = s.client.sweep(bound, left) // a later renewal finds the rest
		})
	}
	return err
}

// sweep removes what dead sessions have left: "session queue-key id token".
func (c *client) sweep(ctx context.Context, left []string) error {
	for _, member := range left {
		f := strings.Fields(member)
		if len(f) != 4 || !strings.HasPrefix(f[1], c.key("")) {
			continue // not of Baton
		}
		queue := driver.Queue(strings.TrimPrefix(f[1], c.key("")))
		if _, err := c.run(ctx, "sweep", queue, f[0], f[2], f[3]); err != nil {
			return err
		}
	}
	return nil
}

// Close implements driver.Session. With the session its entries count no more,
// and its late requests are refused. Close then removes the entries, which
// wakes those who wait for them.
func (s *session) Close(ctx context.Context) error {
	s.end()
	for {
		left, err := s.client.run(ctx, "finish", "", s.id)
		if err != nil || len(left) == 0 {
			return err
		}
		if err := s.client.sweep(ctx, left); err != nil {
			return err
		}
	}
}
