package redis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

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
	entries  map[string]known // by contender
	renewals atomic.Int64
}

// known is what the session knows of a contender.
type known struct {
	token  string // "" before it is known
	record bool   // it has named a version of the record
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
	reply, err := s.client.run(ctx, script, queue, append([]any{s.id}, args...)...)
	if errors.Is(err, driver.ErrSessionLost) {
		s.end()
	}
	return reply, err
}

// Renew implements driver.Session. The script also returns what dead sessions
// have left; removing that in the background wakes those who wait for it. While
// a cluster moves the keys to another master, a script of one key still works.
func (s *session) Renew(ctx context.Context) error {
	left, err := s.run(ctx, "renew", "", s.ttl.Microseconds())
	if goredis.IsTryAgainError(err) {
		_, err = s.run(ctx, "extend", "", s.ttl.Microseconds())
	}
	review := s.renewals.Add(1)%driver.RenewalsPerTTL == 0
	if err == nil && (len(left) > 0 || review) {
		s.client.spawn(func() {
			bound, cancel := context.WithTimeout(s.ctx, s.ttl)
			defer cancel()
			_ = s.client.sweep(bound, left) // a later renewal finds the rest
			if review {
				_ = s.review(bound) // and the next review
			}
		})
	}
	return err
}

// review removes the entries of the session that it has left: a server that was
// promoted or restarted without its latest writes has them again. No one else
// would remove them while the session lives.
//
// It removes no entry that counts. A contender is known from before its join is
// sent until it has left, and a late request to leave finds nothing.
func (s *session) review(ctx context.Context) error {
	for after := ""; ; {
		members, err := s.run(ctx, "mine", "", after)
		if err != nil || len(members) == 0 {
			return err
		}
		for _, member := range members {
			f := strings.Fields(member)
			if after = member; len(f) != 4 || f[2] == "-" {
				continue // a watch
			}
			if _, counts := s.knows(f[2]); counts {
				continue
			}
			queue := driver.Queue(strings.TrimPrefix(f[1], s.client.key("")))
			_, err := s.run(ctx, "leave", queue, f[3], "left")
			if err != nil && !errors.Is(err, driver.ErrGone) {
				return err
			}
		}
	}
}

func (s *session) knows(contender string) (c known, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok = s.entries[contender]
	return c, ok
}

func (s *session) note(contender string, c known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[contender] = c
}

// forgo notes that a contender has left: that its entry with a token, or any
// entry, is gone.
func (s *session) forgo(contender, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token == "" || token == s.entries[contender].token {
		delete(s.entries, contender)
	}
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
