package election_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

// workThatPanics is a name to find in the stack.
func workThatPanics(v any) func(context.Context, *election.Term) error {
	return func(context.Context, *election.Term) error { panic(v) }
}

func TestPanicOfWorkPassesThroughAfterResigning(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		for _, v := range []any{"boom", errMine} {
			func() {
				defer func() {
					got, ok := recover().(error)
					if !ok || !strings.Contains(got.Error(), fmt.Sprint(v)) ||
						!strings.Contains(got.Error(), "workThatPanics") {
						t.Errorf("panic of %v passed through as %v", v, got)
					}
					if errors.Is(got, errMine) != (v == errMine) { //nolint:errorlint // itself
						t.Errorf("%v: wraps the wrong error: %v", v, got)
					}
				}()
				_ = p[0].e.Run(t.Context(), workThatPanics(v))
			}()
			p[1].free()
		}
	})
}

// rude is a cause whose Error panics.
type rude struct{}

func (rude) Error() string { panic("rude") }

func TestCauseThatPanicsDoesNotKeepTheName(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		r := p[0].run(idle)
		r.stop(rude{})
		if err := r.ended(); err != error(rude{}) { //nolint:errorlint // itself
			t.Error("another error")
		}
		p[1].resign(p[1].campaign())
	})
}

// TestForeignCodeThatPanicsDoesNotKeepTheName: the hook when the work does not
// stop, an observer when the term ends, and one when a candidate joins.
func TestForeignCodeThatPanicsDoesNotKeepTheName(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		rude := func(kind event.Kind) coordinator.Option {
			return coordinator.WithObserver(event.DirectFunc(func(e event.Event) {
				if e.Kind == kind {
					panic("rude")
				}
			}))
		}
		for what, c := range map[string]struct {
			foreign coordinator.Option
			hook    func()
			left    bool // the work still runs
		}{
			"hook":     {rude(0), func() { panic("rude") }, true},
			"released": {rude(event.Released), func() {}, true},
			"joined":   {rude(event.Joined), func() {}, false},
		} {
			a := join(t, p[0].svc, "a", c.foreign)
			h := new(election.Health)
			stuck := make(chan struct{})
			free := sync.OnceFunc(func() { close(stuck) })
			defer free()
			ctx, stop := context.WithCancel(t.Context())
			func() {
				defer func() {
					if v := recover(); v != "rude" {
						t.Errorf("%s: recovered %v", what, v)
					}
				}()
				_ = a.e.Run(ctx, func(context.Context, *election.Term) error {
					stop()
					<-stuck
					return nil
				}, election.WithDrain(time.Second), election.WithHealth(h), election.WithOnOverrun(c.hook))
			}()
			if c.left {
				check(t, h, 503, "not a candidate", 503, "still runs")
				p[1].free()
			}
			free() // its goroutine ends, or the test fails
			check(t, h, 503, "not a candidate", 200, "ok")
			stop()
			_ = a.client.Close(t.Context())
		}
	})
}

// TestOnErrorThatPanicsInAnOutagePassesThrough: the report of a campaign
// without an answer has its own goroutine. Its panic reaches the caller of Run,
// and the name is free, also if the service has answered meanwhile.
func TestOnErrorThatPanicsInAnOutagePassesThrough(t *testing.T) {
	for name, answers := range map[string]bool{"away": false, "back": true} {
		parties(t, 2, func(t *testing.T, p ...party) {
			p[0].svc.Stop()
			func() {
				defer func() {
					got, ok := recover().(error)
					if !ok || !strings.Contains(got.Error(), "rude") || !strings.Contains(got.Error(), "panic_test.go") {
						t.Errorf("%s: recovered %v", name, got)
					}
				}()
				err := p[0].e.Run(t.Context(), idle, election.WithOnError(func(error) {
					if answers {
						p[0].svc.Start()
						time.Sleep(time.Minute)
					}
					panic("rude")
				}))
				t.Errorf("%s: Run = %v", name, err)
			}()
			p[0].svc.Start()
			synctest.Wait()
			p[1].free()
		})
	}
}

// TestWorkThatEndsItsGoroutineEndsTheCallers: FailNow in work must neither hang
// the test nor let it continue.
func TestWorkThatEndsItsGoroutineEndsTheCallers(t *testing.T) {
	parties(t, 2, func(t *testing.T, p ...party) {
		ended := make(chan bool, 1)
		go func() {
			returned := false
			defer func() { ended <- returned }()
			_ = p[0].e.Run(t.Context(), func(context.Context, *election.Term) error {
				runtime.Goexit()
				return nil
			})
			returned = true
		}()
		if <-ended {
			t.Error("Run returned")
		}
		p[1].free()
	})
}

// TestPanicOfWorkAfterErrOverrunEndsTheProcess: it must not get lost. The test
// runs itself in another process.
func TestPanicOfWorkAfterErrOverrunEndsTheProcess(t *testing.T) {
	const child = "BATON_TEST_PANIC_LEFT_BEHIND"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=30s")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("boom, left behind")) ||
			bytes.Contains(out, []byte("survived")) {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	svc := memory.NewService()
	a := join(t, svc, "a")
	ctx, stop := context.WithCancel(context.Background())
	stop2 := make(chan struct{})
	err := a.e.Run(ctx, func(context.Context, *election.Term) error {
		stop()
		<-stop2
		panic("boom, left behind")
	}, election.WithDrain(time.Millisecond))
	if !errors.Is(err, election.ErrOverrun) {
		t.Fatalf("survived: %v", err)
	}
	close(stop2)
	<-time.After(10 * time.Second)
	t.Fatal("survived")
}
