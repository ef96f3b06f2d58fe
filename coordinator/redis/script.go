package redis

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/coordinator/driver"
)

//go:embed protocol.lua
var protocol string

// anyRecord follows the names of the scripts join and ahead without the record,
// which may not exist.
const anyRecord = ", any record"

// script is the text of a script, its name at the server, and its keys.
type script struct {
	text, hash string
	keys       []string
}

// scripts are the sections of protocol.lua, each after prelude, and after alive
// if that is before it. A section's heading is "name (key, key): arguments".
var scripts = func() map[string]script {
	all, before := map[string]script{}, ""
	for _, section := range strings.Split(protocol, "\n--- ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		name, rest, _ := strings.Cut(title, " (")
		if name, _, _ = strings.Cut(name, ":"); name == "prelude" || name == "alive" {
			before += body + "\n"
			continue
		}
		keys, _, _ := strings.Cut(rest, "):")
		s := script{keys: strings.Split(keys, ", ")}
		for i, key := range s.keys {
			s.text += fmt.Sprintf("local %s = KEYS[%d]\n", key, i+1)
		}
		s.text += before + body
		s.hash = goredis.NewScript(s.text).Hash()
		all[name] = s
	}
	for _, name := range []string{"join", "ahead"} {
		s := all[name]
		s.keys = s.keys[:len(s.keys)-1]
		all[name+anyRecord] = s
	}
	return all
}()

// run runs a script, and returns its reply without the status. It ends when ctx
// does; the request may then still be applied. go-redis does not end a call
// when its context is cancelled, so each call has a goroutine.
func (c *client) run(
	ctx context.Context, name string, queue driver.Queue, args ...any,
) ([]string, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	redis := c.redis
	if name == "renew" || name == "extend" {
		redis = c.renewals
	}
	var reply []string
	var err error
	done := make(chan struct{})
	args = append([]any{c.key(queue)}, args...)
	call := func() {
		defer close(done)
		reply, err = send(ctx, redis, "evalsha", scripts[name].hash, c.keys(name, queue), args)
		if goredis.HasErrorPrefix(err, "NOSCRIPT") {
			reply, err = send(ctx, redis, "eval", scripts[name].text, c.keys(name, queue), args)
		}
		if many, ok := redis.(*goredis.ClusterClient); ok && err != nil {
			many.ReloadState(ctx) // a replica may have been elected: go-redis asks once a minute
		}
	}
	if !c.spawn(call) {
		return nil, driver.Wrap(driver.ErrUnavailable, goredis.ErrClosed)
	}
	select {
	case <-done:
		if err != nil {
			return nil, wrap(ctx, err)
		}
		return outcome(name, reply)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// values are how many values the replies of scripts have at least, after the
// status.
var values = map[string]int{
	"join": 3, "join" + anyRecord: 3, "ahead": 2, "ahead" + anyRecord: 2,
	"watch": 1, "record": 2, "write": 1,
}

// outcome returns a reply without its status, which may be an error. What
// answers may not be Redis.
func outcome(name string, reply []string) ([]string, error) {
	status := ""
	if len(reply) > 0 {
		status, reply = reply[0], reply[1:]
	}
	err, known := statuses[status]
	if status == "ok" || name == "watch" && status == "gone" {
		known = len(reply) >= values[name]
	}
	if !known {
		return nil, driver.Wrap(driver.ErrUnavailable, fmt.Errorf(
			"redis: a reply with the status %.80q and %d values, which the script %s does not make",
			status, len(reply), name))
	}
	return reply, err
}

// once is a command that go-redis does not repeat after an unknown outcome.
type once struct{ *goredis.StringSliceCmd }

// NoRetry implements goredis.Cmder.
func (once) NoRetry() bool { return true }

func send(
	ctx context.Context, redis goredis.UniversalClient, command, script string, keys []string, args []any,
) ([]string, error) {
	all := append(make([]any, 0, 3+len(keys)+len(args)), command, script, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	cmd := goredis.NewStringSliceCmd(ctx, append(all, args...)...)
	cmd.SetFirstKeyPos(3)
	if err := redis.Process(ctx, once{cmd}); err != nil {
		return nil, err
	}
	return cmd.Result()
}
