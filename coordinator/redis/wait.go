package redis

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/coordinator/driver"
)

// A session receives its messages on one channel, which it subscribes to with
// its first wait. A message can be lost: with its connection, or in a failover.
// So waits read again whenever the server confirms the subscription, and at
// these intervals.
const (
	pollUp   = 10 * time.Second
	pollDown = 200 * time.Millisecond
	shortest = 5 * time.Millisecond

	pingTime = 3 * time.Second        // of silence, before a ping; as long again for the reply
	pause    = 500 * time.Millisecond // before a new connection
)

// waits are the calls that wait for one entry, or for a record. Each has a
// channel for one message. If that has one already, another adds nothing: the
// wait reads again.
type waits map[chan string]struct{}

// wait calls done first, then with each message about the tokens, and with ""
// when one may have been lost or after the time that done returned, until it
// returns true or an error. The first call registers the watch at the server.
func (s *session) wait(
	ctx context.Context, queue driver.Queue, tokens []string,
	done func(message string) (ended bool, next time.Duration, err error),
) error {
	news := make(chan string, 1)
	defer s.register(queue, tokens, news)()
	for message := ""; ; {
		ended, next, err := done(message)
		if ended || err != nil {
			return err
		}
		s.inbox.Do(func() { s.client.spawn(s.receive) })
		interval := pollDown
		if s.up.Load() {
			interval = min(max(next, shortest), pollUp)
		}
		select {
		case message = <-news:
		case <-time.After(interval):
			message = ""
		case <-s.ctx.Done():
			return statuses["lost"]
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *session) register(
	queue driver.Queue, tokens []string, news chan string,
) (unregister func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, token := range tokens {
		name := s.client.key(queue) + ":" + token
		names = append(names, name)
		if s.waits[name] == nil {
			s.waits[name] = waits{}
		}
		s.waits[name][news] = struct{}{}
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, name := range names {
			if delete(s.waits[name], news); len(s.waits[name]) == 0 {
				delete(s.waits, name)
			}
		}
	}
}

// receive keeps a connection until the session ends.
func (s *session) receive() {
	for s.ctx.Err() == nil {
		conn := s.client.redis.Subscribe(s.ctx, s.client.prefix+"sessions:"+s.id)
		stop := context.AfterFunc(s.ctx, func() { _ = conn.Close() })
		s.drain(conn)
		s.up.Store(false)
		stop()
		_ = conn.Close()
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
		}
	}
}

// drain receives until the connection breaks, or a ping has no reply.
func (s *session) drain(conn *goredis.PubSub) {
	for pinged := false; ; {
		got, err := conn.ReceiveTimeout(s.ctx, pingTime)
		var e net.Error
		silent := errors.As(err, &e) && e.Timeout()
		if err != nil && (pinged || !silent || conn.Ping(s.ctx) != nil) {
			return
		}
		pinged = silent
		switch got := got.(type) {
		case *goredis.Subscription:
			s.subscribed()
		case *goredis.Message:
			name, how, _ := strings.Cut(got.Payload, " ")
			s.mu.Lock()
			s.waits[name].wake(how)
			s.mu.Unlock()
		}
	}
}

// subscribed notes that messages arrive. All waits read, since one may be lost.
func (s *session) subscribed() {
	s.up.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.waits {
		all.wake("")
	}
}

func (w waits) wake(message string) {
	for news := range w {
		select {
		case news <- message:
		default:
		}
	}
}
