package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/barrier"
	"github.com/baton-go/baton/recipes/counter"
	"github.com/baton-go/baton/recipes/doublebarrier"
	"github.com/baton-go/baton/recipes/group"
	oncejob "github.com/baton-go/baton/recipes/once"
	"github.com/baton-go/baton/recipes/partition"
)

// It is not in virtual time, where signals cannot be received.
func TestNamesAreLockedTogetherOrNotAtAll(t *testing.T) {
	name := strings.ToLower(t.Name())
	s := &stage{t, memory.NewService(), "admin://" + name, map[string]*coordinator.Client{}}
	stages.Store(name, s.svc)
	client := s.client("web-1")
	defer client.Close(t.Context())
	must(must(mutex.New(client, "b"))(s).Lock(t.Context()))(s)
	for args, code := range map[string]int{"-n": 1, "-w 3 -E 75": 75} {
		r := s.baton(append(append([]string{"lock"}, strings.Fields(args)...), "c", "a", "b", "--", "true")...)
		if r.code != code || r.out != "" || !strings.Contains(r.err, `"b"`) || !strings.Contains(r.err, "by web-1") {
			t.Errorf("lock %s: %+v", args, r)
		}
	}
	if r := s.baton("list"); r.out != "KIND   NAME  HOLDERS  WAITING  HELD FOR  OLDEST WAIT\nmutex  b     web-1    0        3s        -\n" {
		t.Errorf("left behind: %+v", r)
	}
}

// After the loss of one name its command still has the grace to end.
func TestDeadlineOfSeveralNamesIsThatOfTheirSession(t *testing.T) {
	onStage(t, func(s *stage) {
		names := must((&runFlags{}).mutex(s.client("web-1"), []string{"b", "a"}))(s)
		g := must(names.wait(s.Context()))(s)
		if r := s.baton("break", "b", "--token", s.tokens("mutex/b")[0].String()); r.code != 0 {
			t.Fatalf("%+v", r)
		}
		time.Sleep(time.Second)
		if left := time.Until(g.Deadline()); g.Err() == nil || left < 5*time.Second {
			t.Errorf("%v, and %v are left", g.Err(), left)
		}
		if err := g.release(s.Context()); !errors.Is(err, coordinator.ErrRemoved) {
			t.Errorf("release: %v", err)
		}
		if r := s.baton("list"); r.out != "KIND  NAME  HOLDERS  WAITING  HELD FOR  OLDEST WAIT\n" {
			t.Errorf("left behind: %+v", r)
		}
	})
}

func TestGroupListShowsTheMembers(t *testing.T) {
	onStage(t, func(s *stage) {
		if r := s.baton("group", "list", "workers"); r.code != 0 || r.out != "nobody\n" || r.err != "" {
			t.Errorf("an empty group: %+v", r)
		}
		if r := s.baton("group", "list", "workers", "-o", "json"); r.out != "[]\n" {
			t.Errorf("an empty group: %+v", r)
		}
		out, errs, stop := s.watched("group", "list", "workers", "--watch")
		if got := news(out); got != "nobody\n" {
			t.Errorf("at first: %q", got)
		}
		m := must(must(group.New(s.client("web-1"), "workers"))(s).Join(s.Context(), []byte("10.0.0.1:80")))(s)
		must(must(group.New(s.client("web-2"), "workers"))(s).Join(s.Context(), []byte("\x1b[2J")))(s)
		want := fmt.Sprintf("10.0.0.1:80 (web-1, token %d, since 2000-01-01T00:00:00Z)\n\"\\x1b[2J\" (web-2, token ", m.Token())
		for _, got := range []string{s.baton("group", "list", "workers").out, news(out)} {
			if !strings.Contains(got, want) {
				t.Errorf("the list %q, want %q", got, want)
			}
		}
		var shown []struct {
			Identity, Value string
			Token           coordinator.Token
		}
		r := s.baton("group", "list", "workers", "-o", "json")
		if err := json.Unmarshal([]byte(r.out), &shown); err != nil || len(shown) != 2 || shown[0].Value != "10.0.0.1:80" || shown[0].Token != m.Token() {
			t.Errorf("%v: %+v", err, r)
		}
		if err := m.Leave(s.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if got := news(out); !strings.HasPrefix(got, "\n") || strings.Contains(got, "web-1") || !strings.Contains(got, "web-2") {
			t.Errorf("after a leave: %q", got)
		}
		if code := stop(); code == exitUsage {
			t.Errorf("code %d, %s", code, errs)
		}
	})
}

// use makes one of each kind that stores more than a queue.
func (s *stage) use() {
	s.Helper()
	ctx := s.Context()
	must(must(counter.New(s.client("web-1"), "stock"))(s).Add(ctx, 42))(s)
	must(must(counter.NewIDs(s.client("web-1"), "invoices", 1000))(s).Next(ctx))(s)
	if err := must(barrier.New(s.client("web-1"), "import"))(s).Set(ctx); err != nil {
		s.Fatal(err)
	}
	must(must(group.New(s.client("web-1"), "workers"))(s).Join(ctx, []byte("10.0.0.1:80")))(s)
	for _, who := range []string{"web-1", "web-2", "web-3"} {
		go func() { _, _ = must(doublebarrier.New(s.client(who), "phase", 2))(s).Enter(ctx) }()
		time.Sleep(time.Second)
	}
	for _, who := range []string{"web-1", "web-2"} {
		p := must(partition.New(s.client(who), "jobs/new", 5))(s)
		go func() {
			_ = p.Run(ctx, func(ctx context.Context, _ *partition.Shard) error {
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(time.Second)
	}
	synctest.Wait()
}

func TestInspectShowsWhatRecordsStore(t *testing.T) {
	onStage(t, func(s *stage) {
		s.use()
		for name, parts := range map[string]string{
			"stock":      "counter stock: 42\n",
			"invoices":   "ids invoices: 1000\n",
			"import":     "barrier import: closed\n",
			"workers":    "group workers: 1 member\n;VALUE;is a member web-1;10.0.0.1:80",
			"phase":      "double-barrier phase: round 1, 2 inside, 1 waiting\n;is inside web-1;is inside web-2;waits to enter web-3",
			"jobs/new":   "partition jobs/new: 5 shards, 2 members\n;SHARDS;is a member web-1;0-2;is a member web-2;3-4",
			"jobs/new/3": "partition-shard jobs/new/3: 1 holding, 0 waiting\n;holds web-2",
		} {
			r := s.baton("inspect", name)
			first, _, _ := strings.Cut(parts, ";")
			shown := strings.Join(strings.Fields(r.out), " ")
			if r.code != 0 || !strings.HasPrefix(r.out, first) {
				t.Errorf("inspect %s: %+v, want %q", name, r, first)
			}
			for part := range strings.SplitSeq(strings.TrimSpace(parts[len(first):]), ";") {
				if !strings.Contains(shown, part) {
					t.Errorf("inspect %s does not print %q:\n%s", name, part, r.out)
				}
			}
		}
		for name, want := range map[string]string{
			"stock": `"kind":"counter","name":"stock","value":42,`, "import": `"set":true,`, "phase": `"round":1,`, "jobs/new": `"shards":5,`,
		} {
			if r := s.baton("inspect", name, "-o", "json"); !strings.Contains(r.out, want) {
				t.Errorf("inspect: %+v, want %s", r, want)
			}
		}
	})
}

func TestInspectShowsTheLatestRunOfAOnce(t *testing.T) {
	onStage(t, func(s *stage) {
		run := func(name, key string, work error) {
			err := must(oncejob.New(s.client("web-1"), name))(s).Do(s.Context(), key,
				func(context.Context, *oncejob.Hold) error { return work })
			if (err == nil) != (work == nil) {
				s.Error(err)
			}
		}
		run("nightly", "mon", io.EOF)
		run("nightly", "tue", nil)
		run("failed", "mon", io.EOF)
		go func() {
			_ = must(oncejob.New(s.client("web-2"), "running"))(s).Do(s.Context(), "mon",
				func(ctx context.Context, _ *oncejob.Hold) error {
					<-ctx.Done()
					return nil
				})
		}()
		synctest.Wait()
		for name, want := range map[string]string{
			"nightly": "once nightly: 0 holding, 0 waiting; the latest run, of tue by web-1, is complete since ",
			"failed":  "once failed: 0 holding, 0 waiting; the latest run, of mon by web-1, is over and not complete\n",
			"running": "once running: 1 holding, 0 waiting; the latest run, of mon by web-2, is not over\n",
		} {
			if r := s.baton("inspect", name); r.code != 0 || !strings.HasPrefix(r.out, want) {
				t.Errorf("inspect %s: %+v, want %q", name, r, want)
			}
		}
		var shown struct {
			Queues []struct{ Runs []oncejob.Run }
		}
		r := s.baton("inspect", "nightly", "-o", "json")
		err := json.Unmarshal([]byte(r.out), &shown)
		if err != nil || len(shown.Queues) != 1 || len(shown.Queues[0].Runs) != 2 ||
			shown.Queues[0].Runs[0].Key != "mon" || shown.Queues[0].Runs[1].Ended.IsZero() || strings.Count(r.out, "ended") != 1 {
			t.Errorf("%v: %+v", err, r)
		}
		s.overwrite("once", "nightly", "junk")
		if r := s.baton("inspect", "nightly", "--kind", "once"); r.code != exitFailed || !strings.Contains(r.err, "not that of a once") {
			t.Errorf("inspect: %+v", r)
		}
	})
}

func TestListShowsAPartitionOnce(t *testing.T) {
	onStage(t, func(s *stage) {
		s.use()
		want := `KIND            NAME      HOLDERS       WAITING  HELD FOR  OLDEST WAIT
partition       jobs/new  web-1, web-2  0        2s        -
double-barrier  phase     web-1, web-2  1        5s        3s
group           workers   web-1         0        5s        -
`
		if r := s.baton("list"); r.code != 0 || r.out != want || r.err != "" {
			t.Errorf("list: %+v\nwant %s", r, want)
		}
		for prefix, want := range map[string]bool{"jobs": true, "jobs/new/3": false, "partition/": false} {
			if r := s.baton("list", prefix); strings.Contains(r.out, "jobs/new") != want {
				t.Errorf("list %s: %+v", prefix, r)
			}
		}
	})
}

func TestDoctorFindsNothingWrongWithAnyKind(t *testing.T) {
	onStage(t, func(s *stage) {
		s.use()
		s.fill()
		if r := s.baton("doctor"); r.code != 0 || strings.Contains(r.out, "warning") || !strings.Contains(r.out, "are not empty") {
			t.Errorf("doctor: %+v", r)
		}
	})
}

func TestBreakEndsAMembershipInAPartition(t *testing.T) {
	onStage(t, func(s *stage) {
		g := must(group.New(s.client("web-9"), "partition/jobs/new"))(s)
		s.use()
		first := must(g.Members(s.Context()))(s)[0]
		r := s.baton("break", "jobs/new", "--token", first.Token.String())
		if r.code != 0 || !strings.HasPrefix(r.out, "broken: partition jobs/new") {
			t.Fatalf("break: %+v", r)
		}
		time.Sleep(20 * time.Second) // it joins again
		all := must(g.Members(s.Context()))(s)
		if len(all) != 2 || all[1].Token == first.Token || all[1].Identity != first.Identity {
			t.Errorf("members: %+v", all)
		}
	})
}

// The record of another program is reported, with the name of its kind.
func TestRecordOfAnotherProgramIsReported(t *testing.T) {
	onStage(t, func(s *stage) {
		s.use()
		for kind, name := range map[string]string{"counter": "stock", "barrier": "import", "double-barrier": "phase", "partition": "jobs/new", "ids": "invoices"} {
			s.overwrite(kind, name, "junk")
			if r := s.baton("inspect", name, "--kind", kind); r.code != exitFailed || !strings.Contains(r.err, "not that of a "+kind) || !strings.Contains(r.err, "junk") {
				t.Errorf("inspect: %+v", r)
			}
		}
		s.overwrite("counter", "stock", "7") // by hand
		if r := s.baton("inspect", "stock"); r.out != "counter stock: 7\n" {
			t.Errorf("inspect: %+v", r)
		}
	})
}

func TestEveryKindIsDescribed(t *testing.T) {
	help := strings.Join(strings.Fields(helpOf(t, []string{"inspect"})), " ")
	for _, kind := range kinds {
		if readers[kind] == nil || !regexp.MustCompile(`KIND is(?: [^.]*)? `+kind+`[ ,.]`).MatchString(help) {
			t.Errorf("the help of inspect does not name %q", kind)
		}
	}
	if len(readers) != len(kinds) {
		t.Errorf("%d readers of %d kinds", len(readers), len(kinds))
	}
}
