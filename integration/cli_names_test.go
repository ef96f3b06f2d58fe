package integration_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/recipes/barrier"
	"github.com/baton-go/baton/recipes/counter"
	"github.com/baton-go/baton/recipes/doublebarrier"
	"github.com/baton-go/baton/recipes/partition"
)

// A set of names and one of them exclude each other, and the loss of any name
// ends the command.
func TestCommandHoldsSeveralNames(t *testing.T) {
	t.Parallel()
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
		await.Until(t, "the waiter to be queued", func() bool {
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
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		url, name := s.url(8*time.Second), servers.Name(t)
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
		await.Until(t, "the killed member to disappear", func() bool { return list() == "nobody\n" })
		await.Until(t, "the watch to print it", func() bool { return strings.HasSuffix(watch.out.String(), "\n\nnobody\n") })
	})
}

func TestOperatorsSeeEveryKind(t *testing.T) {
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		c, err := coordinator.Open(s.url(10*time.Second), coordinator.WithIdentity("web-1"), logTo(t))
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, c)
		ctx, name := await.Context(t), servers.Name(t)
		n, err1 := counter.New(c, name+"-stock")
		ids, err2 := counter.NewIDs(c, name+"-invoices", 1000)
		gate, err3 := barrier.New(c, name+"-import")
		phase, err4 := doublebarrier.New(c, name+"-phase", 2)
		jobs, err5 := partition.New(c, name+"-jobs", 3)
		for _, err := range []error{err1, err2, err3, err4, err5} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := n.Add(ctx, 42); err != nil {
			t.Fatal(err)
		}
		if _, err := ids.Next(ctx); err != nil {
			t.Fatal(err)
		}
		if err := gate.Set(ctx); err != nil {
			t.Fatal(err)
		}
		entered := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := phase.Enter(ctx)
				entered <- err
			}()
		}
		for range 2 {
			if err := <-entered; err != nil {
				t.Fatal(err)
			}
		}
		work, stop := context.WithCancel(ctx)
		held, ended := make(chan int, 3), make(chan error, 1)
		go func() {
			ended <- jobs.Run(work, func(ctx context.Context, s *partition.Shard) error {
				held <- s.Number()
				<-ctx.Done()
				return nil
			})
		}()
		defer func() {
			stop()
			<-ended
		}()
		for range 3 {
			select {
			case <-held:
			case <-ctx.Done():
				t.Fatal(context.Cause(ctx))
			}
		}
		for of, want := range map[string]string{
			"-stock": "counter " + name + "-stock: 42\n", "-invoices": "ids " + name + "-invoices: 1000\n",
			"-import": "barrier " + name + "-import: closed\n", "-phase": "round 1, 2 inside, 0 waiting\n",
			"-jobs": "3 shards, 1 member\n", "-jobs/2": "partition-shard " + name + "-jobs/2: 1 holding, 0 waiting\n",
		} {
			if out, said, code := s.operate(t, "inspect", name+of); code != 0 || !strings.Contains(out, want) {
				t.Errorf("inspect %s exits with %d, %s\n%s", of, code, said, out)
			}
		}
		out, said, code := s.operate(t, "list", name)
		if shown := strings.Join(strings.Fields(out), " "); code != 0 || strings.Count(out, "\n") != 3 ||
			!strings.Contains(shown, "partition "+name+"-jobs web-1 0") || !strings.Contains(shown, "double-barrier "+name+"-phase web-1, web-1 0") {
			t.Errorf("list exits with %d, %s\n%s", code, said, out)
		}
		if out, said, _ := s.operate(t, "doctor"); !strings.Contains(out, "are not empty") || strings.Contains(out, name) {
			t.Errorf("doctor: %s\n%s", said, out)
		}
	})
}
