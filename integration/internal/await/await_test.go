package await_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
)

// testing.TB for a test that fails.
type failing struct {
	testing.TB
	end  time.Time
	logs []string
}

func (f *failing) Helper()                     {}
func (f *failing) Deadline() (time.Time, bool) { return f.end, !f.end.IsZero() }
func (f *failing) Logf(s string, args ...any)  { f.logs = append(f.logs, fmt.Sprintf(s, args...)) }
func (f *failing) Fatalf(s string, args ...any) {
	panic(fmt.Sprintf(s, args...))
}

func fails(f func()) (words string) {
	defer func() { words, _ = recover().(string) }()
	f()
	return ""
}

func TestWaitFailsOnlyWhenItHangs(t *testing.T) {
	for what, c := range map[string]struct {
		left, hangs time.Duration
	}{
		"a part of the time that is left": {3 * time.Minute, time.Minute},
		"at most five minutes":            {time.Hour, 5 * time.Minute},
		"without a deadline":              {0, 5 * time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &failing{TB: t}
				if c.left > 0 {
					f.end = time.Now().Add(c.left)
				}
				for _, hang := range []func(){
					func() { await.State(f, "the impossible", func() (string, bool) { return "found nothing", false }) },
					func() { await.Receive(f, "the impossible", make(chan int)) },
				} {
					began := time.Now()
					said := fails(hang)
					if took := time.Since(began); took < c.hangs-time.Second || took > c.hangs+time.Second || !strings.Contains(said, "the impossible") {
						t.Errorf("failed after %v with %q, want %v", took, said, c.hangs)
					}
					if c.left > 0 {
						f.end = time.Now().Add(c.left)
					}
				}
				if len(f.logs) != 2 || f.logs[0] != "waiting: the impossible: found nothing" {
					t.Errorf("said %q", f.logs)
				}
			})
		})
	}
}

func TestWaitEndsWithItsCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t, end: time.Now().Add(time.Minute)}
		began := time.Now()
		await.Until(f, "two seconds", func() bool { return time.Since(began) >= 2*time.Second })
		c := make(chan int, 1)
		time.AfterFunc(2*time.Second, func() { c <- 7 })
		if n := await.Receive(f, "seven", c); n != 7 {
			t.Errorf("received %d", n)
		}
		close(c)
		await.Receive(f, "the end", c)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		await.For(ctx, time.Hour)
		if took := time.Since(began); took > 5*time.Second || len(f.logs) != 0 {
			t.Errorf("took %v, said %q", took, f.logs)
		}
		await.Until(f, "slow", func() bool { return time.Since(began) >= 8*time.Second })
		if len(f.logs) != 1 || f.logs[0] != "waiting: slow" {
			t.Errorf("said %q", f.logs)
		}
	})
}
