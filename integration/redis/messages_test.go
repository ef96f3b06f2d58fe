package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/redis"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/redisserver"
	"github.com/baton-go/baton/integration/internal/servers"
)

// TestForgedMessagesDecideNothing: a user who may only read the namespace sends
// the messages that a release sends. Redis 6 lets each user publish on each
// channel. A waiter is not admitted by that, and no hold ends.
func TestForgedMessagesDecideNothing(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	s := start(t, redisserver.Options{})
	_, err := s.Do(ctx, "ACL", "SETUSER", "reader", "on", ">secret", "resetkeys", "%R~baton:{/tests}:*", "allchannels", "+@read", "+@pubsub", "+publish")
	ok(t, err)
	reader := goredis.NewClient(&goredis.Options{Addr: s.Addr(), Username: "reader", Password: "secret"})
	defer reader.Close()
	a, atHolder := counted(t, s)
	b, atWaiter := counted(t, s)
	l, err := newMutex(t, a, name).Lock(ctx)
	ok(t, err)
	granted := make(chan coordinator.Token, 1)
	next := startLock(ctx, t, newMutex(t, b, name))
	go func() { granted <- next().Token() }()

	entry := fmt.Sprint("baton:{/tests}:q:mutex/", name, ":", l.Token())
	// forge sends a message to all sessions that watch the holder's entry, and
	// waits until one of them has asked Redis whether it is true.
	forge := func(how string, watches int, asked *counting) {
		t.Helper()
		var watching []string
		await.State(t, "the server", func() (string, bool) {
			watching = subscribed(t, reader, entry)
			return fmt.Sprintf("%s is watched by %v", entry, watching), len(watching) == watches
		})
		asked.since()
		for _, session := range watching {
			ok(t, reader.Publish(ctx, "baton:{/tests}:sessions:"+session, entry+" "+how).Err())
		}
		await.State(t, "the server", func() (string, bool) {
			select {
			case token := <-granted:
				t.Fatalf("token %d was granted beside %d by the message %q", token, l.Token(), how)
			default:
			}
			if err := l.Err(); err != nil {
				t.Fatalf("the message %q ended the hold: %v", how, err)
			}
			return "no request after the message " + how, asked.since() > 0
		})
	}
	forge("passed", 1, atWaiter)
	forge("left", 2, atHolder) // which watches its own entry after a while
	forge("passed", 2, atWaiter)
	settle(t, a, b) // a wrong grant would come before
	select {
	case token := <-granted:
		t.Fatalf("token %d was granted beside %d", token, l.Token())
	default:
	}
	ok(t, l.Err())
	ok(t, l.Unlock(ctx))
	if token := <-granted; token <= l.Token() {
		t.Errorf("token %d after %d", token, l.Token())
	}
}

// TestLargeValuesAreCut: who may write the keys can store any size, and others
// list the queue. An entry that is not Baton's is named in the error.
func TestLargeValuesAreCut(t *testing.T) {
	t.Parallel()
	ctx := await.Context(t)
	s := start(t, redisserver.Options{})
	d, err := redis.Open(&url.URL{Scheme: "redis", Host: s.Addr(), Path: "/tests"})
	ok(t, err)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	session, err := d.Open(ctx, time.Minute)
	ok(t, err)
	queue := driver.NewQueue("mutex", "a")
	version, err := session.SetRecord(ctx, queue, []byte("r"), 0)
	ok(t, err)
	c, large := s.Client(), strings.Repeat("v", 1<<20)
	defer c.Close()
	for _, end := range []string{"\n" + large, large} {
		entry := "5 0123456789abcdef x " + session.ID() + end
		ok(t, c.ZAdd(ctx, "baton:{/tests}:q:mutex/a", goredis.Z{Score: 5, Member: entry}).Err())
		ok(t, c.HSet(ctx, "baton:{/tests}:r:mutex/a", "value", large).Err())
		list, err := session.List(ctx, queue, 0)
		ok(t, err)
		record, err := session.Record(ctx, queue, version-1)
		ok(t, err)
		const most = 64<<10 + 1000
		if len(list) != 1 || len(list[0].Value) > most || len(list[0].Session) > most || len(record.Value) > most {
			t.Errorf("%d entries, or more than %d bytes of a value", len(list), most)
		}
		view, err := session.Ahead(ctx, queue, driver.Place{})
		ok(t, err)
		if len(view.Ahead) != 1 || len(view.Ahead[0].Session) > most {
			t.Errorf("%d places ahead, or more than %d bytes", len(view.Ahead), most)
		}
		ok(t, c.ZRem(ctx, "baton:{/tests}:q:mutex/a", entry).Err())
	}
	ok(t, c.ZAdd(ctx, "baton:{/tests}:q:mutex/a", goredis.Z{Score: 5, Member: "hello"}).Err())
	_, err = session.List(ctx, queue, 0)
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "another program wrote") {
		t.Errorf("a foreign entry: %v", err)
	}
}

// subscribed returns the sessions that watch an entry and receive messages.
func subscribed(t *testing.T, c *goredis.Client, entry string) (sessions []string) {
	t.Helper()
	all, err := c.ZRangeArgs(t.Context(), goredis.ZRangeArgs{Key: "baton:{/tests}:index", ByLex: true,
		Start: "[" + entry + " ", Stop: "(" + entry + "!"}).Result()
	ok(t, err)
	for _, member := range all {
		session := member[len(entry)+1:]
		channel := "baton:{/tests}:sessions:" + session
		n, err := c.PubSubNumSub(t.Context(), channel).Result()
		ok(t, err)
		if n[channel] == 1 {
			sessions = append(sessions, session)
		}
	}
	return sessions
}

// TestShortSessionIsNoticedByAWaiterThatRenewsRarely logs how long after the
// crash of a holder with a TTL of a second the next is granted.
func TestShortSessionIsNoticedByAWaiterThatRenewsRarely(t *testing.T) {
	t.Parallel()
	ctx, name := await.Context(t), servers.Name(t)
	s := start(t, redisserver.Options{})
	link := netproxy.NewNetwork(t, []string{s.Addr()})
	_, err := newMutex(t, open(t, link.Addrs()[0], "ttl=1s"), name).Lock(ctx)
	ok(t, err)
	m := newMutex(t, open(t, s.Addr(), "ttl=600s"), name)
	next := startLock(ctx, t, m)
	awaitContenders(t, m, 2)
	all, err := m.Contenders(ctx)
	ok(t, err)
	reader := s.Client()
	defer reader.Close()
	await.State(t, "the server", func() (string, bool) { // from here on it polls
		own := fmt.Sprint("baton:{/tests}:q:mutex/", name, ":", all[1].Token)
		return "it does not watch its own entry", len(subscribed(t, reader, own)) == 1
	})
	link.Each((*netproxy.Proxy).Cut)
	cut := time.Now()
	l := next()
	t.Logf("granted %v after a holder with a TTL of 1 s was cut off", time.Since(cut).Round(time.Millisecond))
	ok(t, l.Unlock(ctx))
}
