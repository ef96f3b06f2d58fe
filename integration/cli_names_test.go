package integration_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/servers"
)

// A set of names and one of them exclude each other, and the loss of any name
// ends the command.
func TestCommandHoldsSeveralNames(t *testing.T) {
	eachOne(t, func(t *testing.T, s site) {
		url, name := s.url(10*time.Second), servers.Name(t)
		holder := batonHolding(t, url, "lock", name+"-b", name+"-a")
		for _, part := range []string{"-a", "-b"} {
			baton(t, url, "lock", "-n", name+part, "--", "true").wants(1, "taken", name+part)
		}
		holder.signal(syscall.SIGTERM)
		holder.wants(128 + 15)
		held := batonHolding(t, url, "lock", "-n", name+"-a", name+"-b") // nothing was left
		waiter := baton(t, url, "lock", name+"-c", name+"-b", "--", "echo", "admitted")
		eventually(t, 10*time.Second, "the waiter to be queued", func() bool {
			q := s.inspected(t, name+"-b")
			return len(q) == 1 && len(q[0].Contenders) == 2
		})
		token := s.inspected(t, name+"-b")[0].Contenders[0].Token
		if _, said, code := s.operate(t, "break", name+"-b", "--token", token.String()); code != 0 {
			t.Errorf("break exits with %d: %s", code, said)
		}
		held.wants(124, "others may hold the name already")
		waiter.wants(0)
		if got := waiter.out.String(); got != "admitted\n" {
			t.Errorf("stdout is %q", got)
		}
		baton(t, url, "lock", "-n", name+"-a", "--", "true").wants(0)
	})
}

// A member is listed while its command runs, and after a kill for at most the
// TTL.
func TestGroupListsWhoseCommandsRun(t *testing.T) {
	eachOne(t, func(t *testing.T, s site) {
		url, name := s.url(4*time.Second), servers.Name(t)
		list := func() string {
			out, said, code := s.operate(t, "group", "list", name)
			if code != 0 {
				t.Errorf("list exits with %d: %s", code, said)
			}
			return out
		}
		watch := baton(t, url, "group", "list", name, "--watch")
		watch.says("nobody")
		first := batonHolding(t, url, "group", "join", "--value", "10.0.0.1:80", name)
		second := batonHolding(t, url, "group", "join", "--value", "10.0.0.2:80", name)
		if out := list(); strings.Count(out, "\n") != 2 || !strings.HasPrefix(out, "10.0.0.1:80 (") || !strings.Contains(out, "\n10.0.0.2:80 (") {
			t.Errorf("the members: %q", out)
		}
		first.signal(syscall.SIGTERM)
		first.wants(128 + 15)
		if out := list(); strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "10.0.0.2:80 (") {
			t.Errorf("after the end of one: %q", out)
		}
		second.signal(syscall.SIGKILL)
		eventually(t, 15*time.Second, "the killed member to disappear", func() bool { return list() == "nobody\n" })
		eventually(t, 15*time.Second, "the watch to print it", func() bool { return strings.HasSuffix(watch.out.String(), "\n\nnobody\n") })
	})
}
