package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/batonbin"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/semaphore"
)

// operate runs baton on the site.
func (s site) operate(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := s.operation(await.Context(t), t, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func (s site) operation(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, batonbin.Path(t), args...)
	cmd.Env = append(cmd.Environ(), "BATON_URL="+s.url(10*time.Second))
	return cmd
}

// shownQueue is a queue in the output of inspect -o json.
type shownQueue struct {
	Kind        string
	Limit, Held int
	Contenders  []struct {
		Holding                          bool
		Mode, Identity, Session, Payload string
		Permits                          int
		Since                            time.Time
		Token                            coordinator.Token
	}
}

// inspected returns what inspect prints for a name.
func (s site) inspected(t *testing.T, name string) (lines []shownQueue) {
	t.Helper()
	out, errs, code := s.operate(t, "inspect", name, "-o", "json")
	if code != 0 {
		t.Fatalf("inspect: code %d, %s", code, errs)
	}
	return parsedLines(t, out)
}

func parsedLines(t *testing.T, text string) []shownQueue {
	t.Helper()
	var shown struct{ Queues []shownQueue }
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return shown.Queues
}

// contendAs locks a mutex in the background, with a client of its own.
func (s site) contendAs(t *testing.T, who, name string) (locks <-chan *mutex.Lock, errs <-chan error) {
	t.Helper()
	c, err := coordinator.Open(s.url(10*time.Second), coordinator.WithIdentity(who), logTo(t))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, c)
	got, failed := make(chan *mutex.Lock, 1), make(chan error, 1)
	m, before := newMutex(t, c, name), inQueue(t, newMutex(t, c, name))
	ctx := await.Context(t)
	go func() {
		l, err := m.Lock(ctx)
		if err != nil {
			failed <- err
			return
		}
		got <- l
	}()
	awaitQueue(t, m, before+1)
	return got, failed
}

func getsLock(t *testing.T, locks <-chan *mutex.Lock, errs <-chan error) *mutex.Lock {
	t.Helper()
	var l *mutex.Lock
	await.Until(t, "the grant", func() bool {
		select {
		case l = <-locks:
			return true
		case err := <-errs:
			t.Fatal(err)
		default:
		}
		return false
	})
	return l
}

// The holder hangs, and the operator breaks its lock.
func TestBreakAdmitsTheNextWaiter(t *testing.T) {
	t.Parallel()
	together(t, func(t *testing.T, s site) {
		name, began := "ops/"+servers.Name(t), time.Now().Add(-time.Second) // a service may round
		locks, errs := s.contendAs(t, "web-1", name)
		first := getsLock(t, locks, errs)
		_, gone := s.contendAs(t, "web-2", name)
		locks, errs = s.contendAs(t, "web-3", name)

		lines := s.inspected(t, name)
		if len(lines) != 1 || lines[0].Kind != "mutex" || len(lines[0].Contenders) != 3 {
			t.Fatalf("inspect: %+v", lines)
		}
		all := lines[0].Contenders
		for i, c := range all {
			if c.Identity != fmt.Sprintf("web-%d", i+1) || c.Holding != (i == 0) || c.Session == "" || c.Since.Before(began) {
				t.Errorf("number %d: %+v", i+1, c)
			}
		}
		if all[0].Token != first.Token() || all[0].Session != first.Session() {
			t.Errorf("the holder has token %d, shown is %+v", first.Token(), all[0])
		}

		wrong := all[2].Token + 1000
		out, said, code := s.operate(t, "break", name, "--token", wrong.String())
		if code != 3 || out != "" || !strings.Contains(said, wrong.String()) || !strings.Contains(said, "web-1 (token "+first.Token().String()+")") {
			t.Errorf("break with another token: code %d, %q, %q", code, out, said)
		}
		if now := s.inspected(t, name); len(now) != 1 || !slices.Equal(now[0].Contenders, all) || first.Err() != nil {
			t.Errorf("changed by it: %+v, holder: %v", now, first.Err())
		}

		if _, said, code := s.operate(t, "break", name, "--token", all[1].Token.String()); code != 0 {
			t.Errorf("break of a waiter: code %d, %s", code, said)
		}
		if err := await.Receive(t, "the waiter's error", gone); !errors.Is(err, coordinator.ErrRemoved) {
			t.Errorf("the waiter got %v", err)
		}

		out, said, code = s.operate(t, "break", name, "--token", first.Token().String())
		if code != 0 || said != "" || !strings.Contains(out, "web-1") {
			t.Errorf("break: code %d, %q, %q", code, out, said)
		}
		next := getsLock(t, locks, errs)
		await.Until(t, "the holder to be notified", func() bool { return first.Err() != nil })
		if cause := context.Cause(first.Context()); !errors.Is(cause, coordinator.ErrRemoved) {
			t.Errorf("the holder got %v", cause)
		}
		if now := s.inspected(t, name); len(now) != 1 || len(now[0].Contenders) != 1 || now[0].Contenders[0].Token != next.Token() || !now[0].Contenders[0].Holding {
			t.Errorf("afterwards: %+v", now)
		}
		if _, said, code := s.operate(t, "break", name, "--token", first.Token().String()); code != 3 || !strings.Contains(said, "web-3") {
			t.Errorf("break once more: code %d, %s", code, said)
		}
		unlock(t, next)
		// The queue still works.
		l := lock(t, newMutex(t, s.client(t, 10*time.Second), name))
		if l.Token() <= next.Token() {
			t.Errorf("token %d after %d", l.Token(), next.Token())
		}
		unlock(t, l)
	})
}

func TestListAndInspectShowAllKinds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		ctx, c, prefix := await.Context(t), s.client(t, 10*time.Second), "kinds-"+servers.Name(t)
		sem, err := semaphore.New(c, prefix+"/b", 5)
		if err != nil {
			t.Fatal(err)
		}
		e, err := election.New(c, prefix+"/a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sem.Acquire(ctx, 3); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = sem.Acquire(ctx, 4) }() // ends with ctx
		term, err := e.Campaign(ctx, []byte("10.0.0.1:80"))
		if err != nil {
			t.Fatal(err)
		}
		held := lock(t, newMutex(t, c, prefix+"/a"))
		unlock(t, lock(t, newMutex(t, c, prefix+"/empty")))
		awaitCount(t, 2, func(ctx context.Context) (int, error) {
			l, err := sem.List(ctx)
			return len(l.Contenders), err
		})

		out, errs, code := s.operate(t, "list", prefix)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if code != 0 || errs != "" || len(lines) != 4 {
			t.Fatalf("list: code %d, %s%s", code, out, errs)
		}
		for i, want := range []string{"KIND NAME HOLDERS WAITING", "election " + prefix + "/a " + c.Identity() + " 0",
			"mutex " + prefix + "/a " + c.Identity() + " 0", "semaphore " + prefix + "/b " + c.Identity() + " 1"} {
			if got := strings.Join(strings.Fields(lines[i]), " "); !strings.HasPrefix(got, want+" ") {
				t.Errorf("list: %s, want %s", got, want)
			}
		}
		out, _, _ = s.operate(t, "list", prefix, "-o", "json")
		var rows []struct {
			Kind, Name string
			Holders    []string
			Waiting    int
		}
		if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 3 || rows[2].Waiting != 1 {
			t.Errorf("list as JSON: %v, %s", err, out)
		}

		shown := s.inspected(t, prefix+"/a")
		if len(shown) != 2 || shown[0].Kind != "mutex" || shown[1].Kind != "election" {
			t.Fatalf("inspect: %+v", shown)
		}
		if m, l := shown[0].Contenders[0], shown[1].Contenders[0]; m.Token != held.Token() || l.Token != term.Token() || l.Payload != "10.0.0.1:80" {
			t.Errorf("inspect: %+v", shown)
		}
		if out, _, _ := s.operate(t, "inspect", prefix+"/b"); !strings.Contains(out, "3 of 5 permits held, 1 holding, 1 waiting") || !strings.Contains(out, "asks for 4 permits") {
			t.Errorf("inspect of a semaphore:\n%s", out)
		}
		if shown := s.inspected(t, prefix+"/empty"); len(shown) != 0 {
			t.Errorf("inspect of an empty queue: %+v", shown)
		}
	})
}

func TestInspectWatchPrintsEachHandover(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		name := servers.Name(t)
		locks, errs := s.contendAs(t, "web-1", name)
		first := getsLock(t, locks, errs)
		ctx, cancel := context.WithCancel(await.Context(t))
		cmd := s.operation(ctx, t, "inspect", name, "--watch", "-o", "json")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cancel(); _ = cmd.Wait() }()
		changes := bufio.NewScanner(out)
		next := func() string {
			t.Helper()
			if !changes.Scan() {
				t.Fatalf("the watch has ended: %v", changes.Err())
			}
			who := []string{}
			for _, l := range parsedLines(t, changes.Text()) {
				for _, c := range l.Contenders {
					who = append(who, c.Identity)
				}
			}
			return strings.Join(who, " ")
		}
		if got := next(); got != "web-1" {
			t.Errorf("at first: %q", got)
		}
		locks, errs = s.contendAs(t, "web-2", name)
		if got := next(); got != "web-1 web-2" {
			t.Errorf("with a waiter: %q", got)
		}
		if _, said, code := s.operate(t, "break", name, "--token", first.Token().String()); code != 0 {
			t.Errorf("break: code %d, %s", code, said)
		}
		if got := next(); got != "web-2" {
			t.Errorf("handed over: %q", got)
		}
		unlock(t, getsLock(t, locks, errs))
		if got := next(); got != "" {
			t.Errorf("at last: %q", got)
		}
	})
}

// Operations that a foreign layout cannot support fail with an error that says
// so.
func TestOperatorCommandsOnForeignLayouts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s site) {
		layout := map[string]string{"etcd": "concurrency", "zk": "curator"}[s.service]
		url, name := s.url(10*time.Second)+"&layout="+layout, servers.Name(t)
		c, err := coordinator.Open(url, logTo(t))
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, c)
		l := lock(t, newMutex(t, c, name))
		for _, args := range [][]string{{"list"}, {"inspect", name}, {"break", name, "--token", l.Token().String()}} {
			if out, said, code := s.operate(t, append(args, "--url", url)...); code != 2 || out != "" || !strings.Contains(said, layout) && !strings.Contains(said, "--kind") {
				t.Errorf("%v: code %d, %q, %q", args, code, out, said)
			}
		}
		out, said, code := s.operate(t, "inspect", name, "--kind", "mutex", "--url", url)
		if code != 0 || !strings.Contains(out, " "+l.Token().String()+" ") || !strings.Contains(out, "holds") {
			t.Errorf("inspect: code %d, %q, %q", code, out, said)
		}
		if _, said, code := s.operate(t, "break", name, "--kind", "mutex", "--token", l.Token().String(), "--url", url); code != 0 {
			t.Errorf("break: code %d, %q", code, said)
		}
		await.Until(t, "the holder to be notified", func() bool { return l.Err() != nil })
		if cause := context.Cause(l.Context()); !errors.Is(cause, coordinator.ErrRemoved) {
			t.Errorf("the holder got %v", cause)
		}
		unlock(t, lock(t, newMutex(t, c, name)))
	})
}

// The queues of other clients have no place for the service's identity, and so
// no sequencers. The command runs without one.
func TestCommandRunsOnForeignLayoutsWithoutASequencer(t *testing.T) {
	t.Parallel()
	eachOne(t, func(t *testing.T, s site) {
		layouts := map[string][]string{"etcd": {"concurrency"}, "zk": {"curator", "kazoo"}}[s.service]
		kinds := map[string][][]string{
			"etcd": {{"lock"}, {"elect"}},
			"zk":   {{"lock"}, {"elect"}, {"rlock"}, {"wlock"}, {"sem", "--limit", "1"}},
		}[s.service]
		for _, layout := range layouts {
			for _, kind := range kinds {
				url, name := s.url(20*time.Second)+"&layout="+layout, servers.Name(t)+layout+kind[0]
				c := baton(t, url, append(kind, name, "--", "sh", "-c",
					`echo "$BATON_NAME, ${BATON_SEQUENCER-none}, $BATON_TOKEN"; exit 3`)...)
				c.wants(3)
				if out := c.out.String(); !regexp.MustCompile("^" + name + ", none, [1-9][0-9]*\n$").MatchString(out) {
					t.Errorf("%s, %s: the command prints %q", layout, kind[0], out)
				}
			}
		}
		// Several names, each with a token.
		url, name := s.url(20*time.Second)+"&layout="+layouts[0], servers.Name(t)
		c := baton(t, url, "lock", name+"-a", name+"-b", "--", "sh", "-c", `test "$BATON_TOKEN_1" -lt "$BATON_TOKEN_2"; exit $?`)
		c.wants(0)
	})
}
