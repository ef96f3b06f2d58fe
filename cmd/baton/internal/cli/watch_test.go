package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/semaphore"
)

// watched starts a command line that runs until the returned function ends it.
// While a test reads the output, virtual time stands still.
func (s *stage) watched(args ...string) (out, errs *bytes.Buffer, stop func() int) {
	ctx, cancel := context.WithCancel(s.Context())
	out, errs = new(bytes.Buffer), new(bytes.Buffer)
	code := make(chan int, 1)
	go func() { code <- Main(ctx, args, s.env(out, errs)) }()
	synctest.Wait()
	return out, errs, func() int {
		cancel()
		return <-code
	}
}

// news returns the output since the last call.
func news(b *bytes.Buffer) string {
	synctest.Wait()
	defer b.Reset()
	return b.String()
}

func TestWatchWritesEachChange(t *testing.T) {
	onStage(t, func(s *stage) {
		out, errs, stop := s.watched("inspect", "x", "--watch")
		if got := news(out); got != "x: nobody holds it or waits for it\n" {
			t.Errorf("at first: %q", got)
		}
		m := must(mutex.New(s.client("web-1"), "x"))(s)
		l := must(m.Lock(s.Context()))(s)
		time.Sleep(1500 * time.Millisecond)
		if got := news(out); !strings.HasPrefix(got, "\nmutex x: 1 holding, 0 waiting\n") || strings.Count(got, "web-1") != 1 {
			t.Errorf("locked: %q", got)
		}
		time.Sleep(10 * time.Second)
		if got := news(out); got != "" {
			t.Errorf("without a change: %q", got)
		}
		s.lock("web-2", "x")
		time.Sleep(time.Second)
		if got := news(out); !strings.HasPrefix(got, "\nmutex x: 1 holding, 1 waiting\n") {
			t.Errorf("with a waiter: %q", got)
		}
		if err := l.Unlock(s.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if got := news(out); !strings.HasPrefix(got, "\nmutex x: 1 holding, 0 waiting\n") || !strings.Contains(got, "web-2") {
			t.Errorf("handed over: %q", got)
		}
		if code := stop(); code != 0 || errs.String() != "" {
			t.Errorf("code %d, %s", code, errs)
		}
	})
}

func TestWatchReportsAnOutageOnceAndContinues(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lock("web-1", "x")
		out, errs, stop := s.watched("inspect", "x", "--watch")
		news(out)
		s.svc.Stop()
		time.Sleep(time.Minute)
		if got := news(errs); strings.Count(got, "trying again") != 1 || strings.Count(got, "\n") != 1 || !strings.Contains(got, "no answer within 3s") {
			t.Errorf("while the service is away: %q", got)
		}
		s.svc.Start()
		time.Sleep(15 * time.Second)
		s.lock("web-2", "x")
		time.Sleep(time.Second)
		if got := news(out); !strings.Contains(got, "web-2") {
			t.Errorf("afterwards: %q", got)
		}
		s.svc.Expire(s.svc.Sessions()[0])
		time.Sleep(time.Second)
		if code := stop(); code != 0 {
			t.Errorf("code %d, %s", code, errs)
		}
	})
}

func TestWatchPrintsAJSONLineForEachChange(t *testing.T) {
	onStage(t, func(s *stage) {
		out, _, stop := s.watched("inspect", "x", "--watch", "-o", "json")
		time.Sleep(watchEvery / 2) // the changes are between two reads
		for _, who := range []string{"web-1", "web-2", "web-3"} {
			s.lock(who, "x")
		}
		stop()
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 4 {
			t.Fatalf("%d lines: %s", len(lines), out)
		}
		for n, line := range lines {
			var shown struct{ Queues []queueView }
			if err := json.Unmarshal([]byte(line), &shown); err != nil {
				t.Fatal(err)
			}
			if n == 0 && len(shown.Queues) != 0 || n > 0 && len(shown.Queues[0].Contenders) != n {
				t.Errorf("line %d: %s", n, line)
			}
		}
	})
}

func TestWatchEndsAtAPermanentError(t *testing.T) {
	onStage(t, func(s *stage) {
		if _, errs, stop := s.watched("inspect", "a//b", "--watch"); stop() != exitUsage || !strings.Contains(errs.String(), `"a//b"`) {
			t.Errorf("%s", errs)
		}
	})
}

func TestListIsWatched(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lock("web-1", "a")
		out, errs, stop := s.watched("list", "--watch")
		if got := news(out); !strings.Contains(got, "web-1    0") || strings.Contains(got, "\n\n") {
			t.Errorf("at first: %q", got)
		}
		time.Sleep(10 * time.Second) // ages alone are no change
		if got := news(out); got != "" {
			t.Errorf("without a change: %q", got)
		}
		s.lock("web-2", "a")
		time.Sleep(time.Second)
		if got := news(out); !strings.HasPrefix(got, "\nKIND") || !strings.Contains(got, "web-1    1        12s       1s\n") {
			t.Errorf("with a waiter: %q", got)
		}
		must(must(semaphore.New(s.client("web-1"), "calls", 5))(s).Acquire(s.Context(), 4))(s)
		s.overwrite("semaphore", "calls", "junk")
		time.Sleep(10 * time.Second)
		if got := news(out); !strings.Contains(got, "calls  ?        ?") || strings.Count(news(errs), "junk") != 1 {
			t.Errorf("with a queue that cannot be read: %q", got)
		}
		if code := stop(); code != 0 {
			t.Errorf("code %d, %s", code, errs)
		}
	})
}

func TestInspectShowsTheFirstOfAQueue(t *testing.T) {
	onStage(t, func(s *stage) {
		for _, who := range []string{"web-1", "web-2", "web-3", "web-4"} {
			s.lock(who, "x")
		}
		if r := s.baton("inspect", "x", "--limit", "2"); !strings.HasPrefix(r.out, "mutex x: 1 holding, 3 waiting\n") ||
			!strings.HasSuffix(r.out, "\nand 2 more\n") || strings.Contains(r.out, "web-3") {
			t.Errorf("%+v", r)
		}
		if r := s.baton("inspect", "x", "--limit", "4"); !strings.Contains(r.out, "web-4") || strings.Contains(r.out, "more") {
			t.Errorf("%+v", r)
		}
		if r := s.baton("inspect", "x", "--limit", "1", "-o", "json"); !strings.Contains(r.out, `"left_out":3`) || strings.Contains(r.out, "web-2") {
			t.Errorf("%+v", r)
		}
		if r := s.baton("inspect", "x", "--limit", "0"); r.code != exitUsage || !strings.Contains(r.err, "--limit 0") {
			t.Errorf("%+v", r)
		}
	})
}
