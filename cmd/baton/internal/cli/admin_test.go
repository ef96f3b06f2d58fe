package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/internal/engine"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/rwlock"
	"github.com/baton-go/baton/semaphore"
)

// stages are the services behind URLs admin://<name>, which command lines and
// clients share.
var stages sync.Map

func init() {
	coordinator.Register("admin", func(u *url.URL) (driver.Driver, error) {
		s, _ := stages.Load(u.Host)
		if u.Path == "/shared" {
			return sharing{s.(*memory.Service).Driver()}, nil
		}
		return s.(*memory.Service).Driver(), nil
	})
}

// sharing is a service with the queue layout of another client.
type sharing struct{ driver.Driver }

func (sharing) SharedName(_, name string) (string, error) { return name, nil }

func (sharing) SharedValue(_, identity string, _ []byte) ([]byte, error) {
	return []byte(identity), nil
}

// stage is a service with clients, in virtual time.
type stage struct {
	*testing.T
	svc     *memory.Service
	url     string
	clients map[string]*coordinator.Client
}

// onStage runs a test in virtual time.
func onStage(t *testing.T, f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t, memory.NewService(), "admin://" + strings.ToLower(t.Name()), map[string]*coordinator.Client{}}
		stages.Store(strings.ToLower(t.Name()), s.svc)
		f(s)
		for _, c := range s.clients {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// client returns the client with an identity.
func (s *stage) client(who string) *coordinator.Client {
	s.Helper()
	if s.clients[who] == nil {
		c, err := coordinator.Open(s.url, coordinator.WithIdentity(who), coordinator.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			s.Fatal(err)
		}
		s.clients[who] = c
	}
	return s.clients[who]
}

func (s *stage) baton(args ...string) result {
	s.Helper()
	var out, errs bytes.Buffer
	code := Main(s.Context(), args, s.env(&out, &errs))
	return result{code, out.String(), errs.String()}
}

// env is the process of a command line without --url.
func (s *stage) env(out, errs io.Writer) Env {
	return Env{In: strings.NewReader(""), Out: out, Err: errs, Environ: func() []string { return nil },
		Getenv: func(name string) string { return map[string]string{"BATON_URL": s.url}[name] }}
}

// lock locks a mutex in the background. The channel receives the error of Lock
// or the cause of the hold's end.
func (s *stage) lock(who, name string, opts ...mutex.Option) <-chan error {
	s.Helper()
	m, err := mutex.New(s.client(who), name, opts...)
	if err != nil {
		s.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		l, err := m.Lock(s.Context())
		if err != nil {
			over <- err
			return
		}
		<-l.Context().Done()
		over <- context.Cause(l.Context())
	}()
	time.Sleep(time.Second)
	return over
}

// tokens returns the tokens in a queue.
func (s *stage) tokens(queue driver.Queue) (all []driver.Token) {
	for _, e := range s.svc.Snapshot(queue) {
		all = append(all, e.Token)
	}
	return all
}

// must returns v, or makes the test fail.
func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// overwrite writes the record of a name.
func (s *stage) overwrite(kind, name, text string) {
	s.Helper()
	queue := driver.NewQueue(kind, name)
	session := must(engine.Of(s.client("web-9")).Session(s.Context()))(s)
	must(session.SetRecord(s.Context(), queue, []byte(text), must(session.Record(s.Context(), queue, driver.Any))(s).Version))(s)
}

// fill puts holders and waiters into queues of each kind.
func (s *stage) fill() {
	s.Helper()
	ctx := s.Context()
	s.lock("web-1", "orders/nightly", mutex.WithPayload([]byte("run 7")))
	s.lock("web-2", "orders/nightly", mutex.WithPayload([]byte{0xff, 0}))
	s.lock("web-3", "orders/nightly")
	l := must(rwlock.New(s.client("web-1"), "orders"))(s)
	must(l.RLock(ctx))(s)
	go func() { _, _ = must(rwlock.New(s.client("web-2"), "orders"))(s).Lock(ctx) }()
	time.Sleep(time.Second)
	go func() { _, _ = must(rwlock.New(s.client("web-3"), "orders"))(s).RLock(ctx) }()
	time.Sleep(time.Second)
	must(must(semaphore.New(s.client("web-1"), "calls", 5))(s).Acquire(ctx, 4))(s)
	must(must(semaphore.New(s.client("web-3"), "calls", 5))(s).Acquire(ctx, 1))(s)
	go func() { _, _ = must(semaphore.New(s.client("web-2"), "calls", 5))(s).Acquire(ctx, 2) }()
	time.Sleep(time.Second)
	must(must(election.New(s.client("web-1"), "orders"))(s).Campaign(ctx, []byte("10.0.0.1:80")))(s)
	go func() { _, _ = must(election.New(s.client("web-2"), "orders"))(s).Campaign(ctx, nil) }()
	time.Sleep(time.Second)
}

func TestListShowsEachQueue(t *testing.T) {
	onStage(t, func(s *stage) {
		if r := s.baton("list"); r.code != 0 || r.out != "KIND  NAME  HOLDERS  WAITING  HELD FOR  OLDEST WAIT\n" || r.err != "" {
			t.Errorf("an empty list: %+v", r)
		}
		if r := s.baton("list", "-o", "json"); r.code != 0 || r.out != "[]\n" {
			t.Errorf("an empty list: %+v", r)
		}
		s.fill()
		s.svc.AddForeign("latch/x")
		want := `KIND       NAME            HOLDERS       WAITING  HELD FOR  OLDEST WAIT
semaphore  calls           web-1, web-3  1        2s        2s
election   orders          web-1         1        1s        1s
rwlock     orders          web-1         2        4s        4s
mutex      orders/nightly  web-1         2        7s        6s
latch      x               ?             ?        ?         ?
`
		if r := s.baton("list"); r.code != 0 || r.out != want || r.err != "" {
			t.Errorf("list: %+v\nwant %s", r, want)
		}
		r := s.baton("list", "orders/", "-o", "json")
		if want := `[{"kind":"mutex","name":"orders/nightly","holders":["web-1"],"waiting":2,"held_since":"2000-01-01T00:00:00Z","waiting_since":"2000-01-01T00:00:01Z"}]` + "\n"; r.out != want {
			t.Errorf("list: %+v\nwant %s", r, want)
		}
		if r := s.baton("list", "x", "-o", "json"); r.out != `[{"kind":"latch","name":"x","holders":null,"waiting":null}]`+"\n" {
			t.Errorf("list: %+v", r)
		}
		for i := range 5 {
			must(must(rwlock.New(s.client(fmt.Sprint("reader-", i)), "many"))(s).RLock(s.Context()))(s)
		}
		if r := s.baton("list", "many"); !strings.Contains(r.out, "reader-0, reader-1, reader-2, and 2 more  0        0s        -\n") {
			t.Errorf("list: %+v", r)
		}
	})
}

func TestListPutsFirstWhatIsAskedFor(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lock("web-1", "long-held")
		time.Sleep(time.Minute)
		s.lock("web-1", "long-waited")
		s.lock("web-2", "long-waited")
		time.Sleep(time.Minute)
		s.lock("web-1", "a")
		s.lock("web-2", "a")
		s.svc.AddForeign("latch/b")
		for order, want := range map[string]string{
			"name": "[a b long-held long-waited]", "held": "[long-held long-waited a b]", "wait": "[long-waited a b long-held]",
		} {
			var names []string
			for _, line := range strings.Split(strings.TrimSpace(s.baton("list", "--sort", order).out), "\n")[1:] {
				names = append(names, strings.Fields(line)[1])
			}
			if got := fmt.Sprint(names); got != want {
				t.Errorf("by %s: %s, want %s", order, got, want)
			}
		}
		if r := s.baton("list", "--sort", "age"); r.code != exitUsage {
			t.Errorf("%+v", r)
		}
	})
}

// The operator who repairs an unreadable queue needs to see the others.
func TestListShowsOtherQueuesWhenOneCannotBeRead(t *testing.T) {
	onStage(t, func(s *stage) {
		s.fill()
		s.overwrite("semaphore", "calls", "junk")
		r := s.baton("list")
		if r.code != exitFailed || !strings.Contains(r.out, "web-1") || !strings.Contains(r.err, "1 of 4 queues") || !strings.Contains(r.err, "junk") ||
			!strings.Contains(strings.Join(strings.Fields(r.out), " "), "semaphore calls ? ? ") {
			t.Errorf("list: %+v", r)
		}
		if r := s.baton("list", "-o", "json"); !strings.Contains(r.out, `"name":"calls","holders":null,"waiting":null,"error":"`) {
			t.Errorf("list: %+v", r)
		}
		s.lock("web-1", "calls")
		if r := s.baton("inspect", "calls"); r.code != exitFailed || !strings.Contains(r.err, "--kind") {
			t.Errorf("inspect: %+v", r)
		}
		if r := s.baton("inspect", "calls", "--kind", "mutex"); r.code != 0 || !strings.Contains(r.out, "holds") {
			t.Errorf("inspect: %+v", r)
		}
	})
}

func TestInspectShowsEachKindOfQueue(t *testing.T) {
	onStage(t, func(s *stage) {
		s.fill()
		r := s.baton("inspect", "orders/nightly")
		lines := strings.Split(r.out, "\n")
		if r.code != 0 || r.err != "" || len(lines) != 6 || lines[0] != "mutex orders/nightly: 1 holding, 2 waiting" {
			t.Fatalf("inspect: %+v", r)
		}
		tokens := s.tokens("mutex/orders%2Fnightly")
		for i, want := range []string{"# DOES IDENTITY SINCE FOR TOKEN SESSION PAYLOAD",
			fmt.Sprintf("1 holds web-1 %s 7s %d 0000000000000001 run 7", since(0), tokens[0]),
			fmt.Sprintf("2 waits web-2 %s 6s %d 0000000000000002 \"\\xff\\x00\"", since(1), tokens[1]),
			fmt.Sprintf("3 waits web-3 %s 5s %d 0000000000000003 -", since(2), tokens[2])} {
			if got := strings.Join(strings.Fields(lines[i+1]), " "); got != want {
				t.Errorf("line %d: %s\nwant %s", i+1, got, want)
			}
		}
		for _, c := range []struct{ name, parts string }{
			{"orders", "rwlock orders: 1 holding, 2 waiting;reads web-1;waits to write web-2;waits to read web-3;" +
				"election orders: 1 holding, 1 waiting;PROCLAIMS;leads web-1;10.0.0.1:80;waits to lead web-2"},
			{"calls", "semaphore calls: 5 of 5 permits held, 2 holding, 1 waiting;has 4 permits web-1;has 1 permit web-3;asks for 2 permits web-2"},
		} {
			r := s.baton("inspect", c.name)
			shown := strings.Join(strings.Fields(r.out), " ")
			for part := range strings.SplitSeq(c.parts, ";") {
				if !strings.Contains(shown, part) {
					t.Errorf("inspect %s does not print %q:\n%s", c.name, part, r.out)
				}
			}
		}
		if r := s.baton("inspect", "orders", "--kind", "election"); strings.Contains(r.out, "rwlock") || !strings.Contains(r.out, "leads") {
			t.Errorf("inspect of one kind: %+v", r)
		}
	})
}

// since formats a time after the beginning of virtual time.
func since(seconds int) string {
	return time.Date(2000, 1, 1, 0, 0, seconds, 0, time.UTC).Local().Format(time.RFC3339)
}

func TestInspectOfAnEmptyQueueSucceeds(t *testing.T) {
	onStage(t, func(s *stage) {
		if r := s.baton("inspect", "x"); r.code != 0 || r.out != "x: nobody holds it or waits for it\n" || r.err != "" {
			t.Errorf("inspect: %+v", r)
		}
		r := s.baton("inspect", "x", "-o", "json")
		if want := `{"time":"2000-01-01T00:00:00Z","name":"x","queues":[]}` + "\n"; r.code != 0 || r.out != want || r.err != "" {
			t.Errorf("inspect: %+v", r)
		}
		p := must(must(semaphore.New(s.client("web-1"), "x", 5))(s).Acquire(s.Context(), 1))(s)
		if err := p.Release(s.Context()); err != nil {
			t.Fatal(err)
		}
		if r := s.baton("inspect", "x"); r.out != "semaphore x: 0 of 5 permits held, 0 holding, 0 waiting\n" {
			t.Errorf("inspect of a limit: %+v", r)
		}
	})
}

func TestInspectExplainsTheQueueOfALogLine(t *testing.T) {
	onStage(t, func(s *stage) {
		for name, use := range map[string]string{"mutex/x": "--kind mutex x", "rwlock/a%2Fb": "--kind rwlock a/b",
			"mutex/a%3Bsh": "--kind mutex 'a;sh'"} {
			want := fmt.Sprintf("%s: nobody holds it or waits for it; for the queue %q of a log line use %s\n", name, name, use)
			if r := s.baton("inspect", name); r.code != 0 || r.out != want {
				t.Errorf("inspect: %+v\nwant %s", r, want)
			}
		}
		for _, name := range []string{"mutex", "jobs/x"} {
			if r := s.baton("inspect", name); strings.Contains(r.out, "--kind") {
				t.Errorf("inspect: %+v", r)
			}
		}
		s.lock("web-1", "mutex/x")
		if r := s.baton("inspect", "mutex/x"); strings.Contains(r.out, "--kind") || !strings.Contains(r.out, "web-1") {
			t.Errorf("inspect: %+v", r)
		}
	})
}

func TestRefusalNamesKindOnlyIfAnotherKindCanBeRead(t *testing.T) {
	onStage(t, func(s *stage) {
		var refused string // the prefix of the queues that cannot be read
		s.svc.OnRequest(func(r memory.Request) (f memory.Fate) {
			if r.Op == memory.OpList && strings.HasPrefix(string(r.Queue), refused) {
				f.Err = errors.New("permission denied")
			}
			return f
		})
		if r := s.baton("inspect", "x"); r.code != exitFailed || !strings.Contains(r.err, "permission denied") || strings.Contains(r.err, "--kind") {
			t.Errorf("inspect: %+v", r)
		}
		refused = "mutex/"
		if r := s.baton("inspect", "x"); r.code != exitFailed || !strings.Contains(r.err, "permission denied; use --kind") {
			t.Errorf("inspect: %+v", r)
		}
	})
}

func TestInspectPrintsJSON(t *testing.T) {
	onStage(t, func(s *stage) {
		s.fill()
		s.svc.AddForeign("mutex/orders%2Fnightly")
		r := s.baton("inspect", "orders/nightly", "-o", "json")
		var shown struct {
			Time   time.Time
			Name   string
			Queues []queueView
		}
		if err := json.Unmarshal([]byte(r.out), &shown); err != nil || strings.Count(r.out, "\n") != 1 {
			t.Fatalf("%v: %+v", err, r)
		}
		if len(shown.Queues) != 1 || len(shown.Queues[0].Contenders) != 4 || !shown.Time.Equal(time.Now()) || shown.Name != "orders/nightly" {
			t.Fatalf("%+v", shown)
		}
		all := shown.Queues[0].Contenders
		if c := all[0]; !c.Holding || c.Mode != "exclusive" || c.Identity != "web-1" || c.Payload != "run 7" || c.Session == "" || c.Since.IsZero() ||
			c.Token != s.tokens("mutex/orders%2Fnightly")[0] {
			t.Errorf("the holder: %+v", c)
		}
		if c := all[1]; c.Holding || c.Payload != `"\xff\x00"` {
			t.Errorf("the first waiter: %+v", c)
		}
		if c := all[3]; c.Mode != "unknown" || c.Since != nil || c.Identity != "" {
			t.Errorf("the foreign entry: %+v", c)
		}
	})
}

func TestBreakAdmitsTheNextAndNotifiesTheHolder(t *testing.T) {
	onStage(t, func(s *stage) {
		first, second, third := s.lock("web-1", "x"), s.lock("web-2", "x"), s.lock("web-3", "x")
		tokens := s.tokens("mutex/x")
		if r := s.baton("break", "x", "--token", tokens[1].String()); r.code != 0 ||
			r.out != fmt.Sprintf("broken: mutex x, token %d, of web-2\n", tokens[1]) || r.err != "" {
			t.Errorf("break of a waiter: %+v", r)
		}
		if err := <-second; !errors.Is(err, coordinator.ErrRemoved) {
			t.Errorf("the waiter got %v", err)
		}
		for _, token := range []driver.Token{tokens[1], tokens[2] + 1} {
			r := s.baton("break", "x", "--token", token.String())
			if want := fmt.Sprintf("baton: x: no holder or waiter has token %d, and nothing was removed; the mutex is held by web-1 (token %d)\n",
				token, tokens[0]); r.code != exitMovedOn || r.out != "" || r.err != want {
				t.Errorf("break with another token: %+v\nwant %s", r, want)
			}
		}
		if got := s.tokens("mutex/x"); len(got) != 2 {
			t.Errorf("in the queue: %v", got)
		}
		if r := s.baton("break", "x", "--token", tokens[0].String(), "--kind", "election"); r.code != exitMovedOn || !strings.Contains(r.err, "nobody holds it now") {
			t.Errorf("break of another kind: %+v", r)
		}
		if r := s.baton("break", "x", "--token", tokens[0].String(), "--kind", "mutex"); r.code != 0 {
			t.Errorf("break of the holder: %+v", r)
		}
		if err := <-first; !errors.Is(err, coordinator.ErrRemoved) {
			t.Errorf("the holder got %v", err)
		}
		time.Sleep(time.Second)
		if all, err := must(mutex.New(s.client("web-1"), "x"))(s).Contenders(s.Context()); err != nil || len(all) != 1 || !all[0].Holding || all[0].Identity != "web-3" {
			t.Errorf("in the queue: %+v, %v", all, err)
		}
		select {
		case err := <-third:
			t.Errorf("the next holder got %v", err)
		default:
		}
	})
}

// Other queues with the same name keep their entries.
func TestBreakFindsTheQueueOfAToken(t *testing.T) {
	onStage(t, func(s *stage) {
		s.fill()
		before := len(s.tokens("rwlock/orders"))
		leader := s.tokens("election/orders")[0]
		if r := s.baton("break", "orders", "--token", leader.String()); r.code != 0 || !strings.HasPrefix(r.out, "broken: election orders") {
			t.Errorf("break: %+v", r)
		}
		if got := s.tokens("rwlock/orders"); len(got) != before {
			t.Errorf("in the queue of the lock: %v", got)
		}
		permit := s.tokens("semaphore/calls")[0] // which was converted
		if r := s.baton("break", "calls", "--token", permit.String()); r.code != 0 {
			t.Errorf("break: %+v", r)
		}
		time.Sleep(time.Second)
		if r := s.baton("inspect", "calls"); !strings.Contains(r.out, "3 of 5 permits held, 2 holding, 0 waiting") {
			t.Errorf("after the break: %+v", r)
		}
	})
}

func TestAdminCommandsRefuseBadArguments(t *testing.T) {
	onStage(t, func(s *stage) {
		for args, want := range map[string]string{
			"break a;sh":                 "baton inspect 'a;sh' shows",
			"break x":                    "--token is missing: baton inspect x shows the tokens",
			"break x --token 007":        `"007"`,
			"break x --token -1":         `"-1"`,
			"break x --token 1 --kind z": "want one of mutex, rwlock, semaphore, election, group",
			"break a//b --token 1":       `"a//b"`,
			"inspect a//b":               `"a//b"`,
			"inspect x -o yaml":          "want one of text, json",
			"list -o yaml":               "want one of text, json",
		} {
			if r := s.baton(strings.Fields(args)...); r.code != exitUsage || r.out != "" || !strings.Contains(r.err, want) {
				t.Errorf("baton %s: %+v, want %q", args, r, want)
			}
		}
		s.svc.Stop()
		for _, args := range []string{"list", "inspect x", "break x --token 1"} {
			if r := s.baton(strings.Fields(args)...); r.code != exitFailed || r.out != "" || !strings.Contains(r.err, "unavailable") {
				t.Errorf("baton %s: %+v", args, r)
			}
		}
	})
}

func TestSharedLayoutRequiresAKind(t *testing.T) {
	onStage(t, func(s *stage) {
		s.url += "/shared"
		s.lock("web-1", "x")
		for _, args := range []string{"inspect x", "break x --token 1"} {
			if r := s.baton(strings.Fields(args)...); r.code != exitUsage || !strings.Contains(r.err, "--kind") {
				t.Errorf("baton %s: %+v", args, r)
			}
		}
		if r := s.baton("inspect", "x", "--kind", "mutex"); r.code != 0 || !strings.Contains(r.out, "holds") || !strings.Contains(r.out, "web-1") {
			t.Errorf("inspect: %+v", r)
		}
	})
}

func TestCounterAddsAndPrints(t *testing.T) {
	onStage(t, func(s *stage) {
		for _, c := range []struct {
			args []string
			want string
			code int
		}{
			{[]string{"get", "stock"}, "0\n", 0},
			{[]string{"add", "stock"}, "1\n", 0},
			{[]string{"add", "stock", "41"}, "42\n", 0},
			{[]string{"add", "--", "stock", "-2"}, "40\n", 0},
			{[]string{"get", "stock"}, "40\n", 0},
			{[]string{"add", "stock", "9223372036854775807"}, "", exitFailed},
			{[]string{"add", "stock", "1.5"}, "", exitUsage},
			{[]string{"add"}, "", exitUsage},
			{[]string{"get", ""}, "", exitUsage},
		} {
			r := s.baton(append([]string{"counter"}, c.args...)...)
			if r.out != c.want || r.code != c.code || (c.code != 0) != (r.err != "") {
				s.Errorf("%q: %+v", c.args, r)
			}
		}
	})
}

// TestLeaderIsTransferred to a candidate that is not the next, and to nobody
// else.
func TestLeaderIsTransferred(t *testing.T) {
	onStage(t, func(s *stage) {
		ctx, stop := context.WithCancel(s.Context())
		var running sync.WaitGroup
		for _, who := range []string{"a", "b", "c"} {
			e := must(election.New(s.client(who), "transfer"))(s)
			running.Go(func() {
				_ = e.Run(ctx, func(ctx context.Context, _ *election.Term) error {
					<-ctx.Done()
					time.Sleep(5 * time.Second)
					return nil
				}, election.WithPause(time.Hour, time.Hour))
			})
			time.Sleep(time.Second)
		}
		if r := s.baton("leader", "transfer", "transfer", "--to", "d"); r.code != 1 || !strings.Contains(r.err, "no candidate d") {
			s.Errorf("to nobody: %+v", r)
		}
		if r := s.baton("leader", "transfer", "transfer", "--to", "c", "-w", "2"); r.code != 1 {
			s.Errorf("while the work drains: %+v", r)
		}
		for range 2 { // also if it leads
			if r := s.baton("leader", "transfer", "transfer", "--to", "c"); r.code != 0 || r.out+r.err != "" {
				s.Errorf("to c: %+v", r)
			}
		}
		if r := s.baton("leader", "--", "transfer"); r.code != 0 || !strings.Contains(r.out, "(c, ") {
			s.Errorf("leader: %+v", r)
		}
		stop()
		running.Wait()
	})
}
