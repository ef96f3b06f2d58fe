package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
)

// play runs the program, in virtual time.
func play(t *testing.T, c config) (out string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		err = run(t.Context(), &b, c)
		out = b.String()
	})
	return out, err
}

func inMemory(t *testing.T) config {
	return config{url: "memory://", name: "examples/cache", dir: t.TempDir(), maxAge: 500 * time.Millisecond, length: 10 * time.Second}
}

func TestNoReaderSeesAHalfWrittenCache(t *testing.T) {
	out, err := play(t, inMemory(t))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	rebuilds := strings.Count(out, "has rebuilt the cache")
	last := rebuilds - strings.Count(out, "goes on with") // the end may come between the last rebuild and its reading
	if rebuilds < 10 || last < 0 || last > 1 || strings.Count(out, " reads what was written") < 2*(rebuilds-1) ||
		!strings.HasSuffix(lines[len(lines)-1], "in this process; a half-written cache was seen 0 times") {
		t.Errorf("output:\n%s", out)
	}
}

// TestNobodyWaitsForWhatIsALittleTooOld, and it is rebuilt by one.
func TestNobodyWaitsForWhatIsALittleTooOld(t *testing.T) {
	c := inMemory(t)
	if out, err := play(t, c); err != nil || !strings.Contains(out, "the longest wait for another's rebuild was 100 ms") {
		t.Errorf("%v; without -stale:\n%s", err, out)
	}
	c.dir, c.stale = t.TempDir(), time.Second
	out, err := play(t, c)
	if err != nil || !strings.Contains(out, "the longest wait for another's rebuild was 0 ms") {
		t.Errorf("%v; with -stale:\n%s", err, out)
	}
	if n := strings.Count(out, "has rebuilt the cache"); n < 10 || n > 20 {
		t.Errorf("%d rebuilds in ten seconds, by four replicas:\n%s", n, out)
	}
}

// TestWhatIsMuchTooOldIsWaitedFor, with -stale too.
func TestWhatIsMuchTooOldIsWaitedFor(t *testing.T) {
	c := inMemory(t)
	c.stale, c.length = time.Millisecond, 2*time.Second
	if out, err := play(t, c); err != nil || !strings.Contains(out, "the longest wait for another's rebuild was 100 ms") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestDamageIsNoticedAndMended: the check is worth something.
func TestDamageIsNoticedAndMended(t *testing.T) {
	c := inMemory(t)
	c.dir = t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := store{c.dir}
		if err := errors.Join(s.write(t.Context(), 1), os.Remove(file(s.path(1), 3))); err != nil {
			t.Fatal(err)
		}
		if token, _, err := s.look(); token != 1 || err == nil {
			t.Fatalf("look = %d, %v", token, err)
		}
	})
	out, err := play(t, c)
	if err == nil || !strings.Contains(out, "finds the cache damaged") || !strings.Contains(out, "has rebuilt the cache") ||
		strings.Contains(out, "in this process") {
		t.Errorf("%v; output:\n%s", err, out)
	}
}

// TestLateWriterChangesNothingThatIsRead: the late one was paused, and does not know that it has lost the lock.
func TestLateWriterChangesNothingThatIsRead(t *testing.T) {
	look := func(t *testing.T, s store, want coordinator.Token) {
		t.Helper()
		if token, _, err := s.look(); token != want || err != nil {
			t.Errorf("look = %d, %v; want %d", token, err, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := store{t.TempDir()}
		late := make(chan error, 1)
		go func() { late <- s.write(t.Context(), 5) }() // takes 100 ms
		time.Sleep(50 * time.Millisecond)
		look(t, s, 0) // half of it is written
		next := make(chan error, 1)
		go func() { next <- s.write(t.Context(), 7) }()
		time.Sleep(60 * time.Millisecond)
		look(t, s, 5) // nothing has been written since
		if err := errors.Join(<-late, <-next); err != nil {
			t.Fatal(err)
		}
		look(t, s, 7)
		if err := os.Mkdir(s.path(6), 0o700); err != nil { // the last step of another one
			t.Fatal(err)
		}
		look(t, s, 7)
		s.clean()
		if left, _ := os.ReadDir(s.dir); len(left) != 1 {
			t.Errorf("not cleaned up: %v", left)
		}
		if err := s.write(t.Context(), 6); err == nil || !strings.Contains(err.Error(), "this is token 6") {
			t.Errorf("write = %v", err)
		}
		look(t, s, 7)
	})
}

// TestWhatAWriterLeavesIsRemoved: of one that was stopped nothing stays, of one that died what the next one removes. What is not
// the store's own stays.
func TestWhatAWriterLeavesIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store{t.TempDir()}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := s.write(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(s.dir); len(left) != 0 {
			t.Errorf("left: %v, %v", left, err)
		}
		if err := errors.Join(os.Mkdir(s.path(2)+".123", 0o700), os.Mkdir(file(s.dir, 1), 0o700)); err != nil {
			t.Fatal(err)
		}
		if err := s.write(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(s.dir); len(left) != 2 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

func TestBadFlagsAreTold(t *testing.T) {
	for want, change := range map[string]func(*config){
		"-for 0s: must be positive":      func(c *config) { c.length = 0 },
		"-for -1s: must be positive":     func(c *config) { c.length = -time.Second },
		"-max-age -1s: must be positive": func(c *config) { c.maxAge = -time.Second },
		"-stale -1s: must not be":        func(c *config) { c.stale = -time.Second },
		"name":                           func(c *config) { c.name = "" },
	} {
		c := inMemory(t)
		change(&c)
		if out, err := play(t, c); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("run = %v, want %q; output:\n%s", err, want, out)
		}
	}
}

// TestToldToStop: it is no error, and the temporary directory is removed.
func TestToldToStop(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	c := inMemory(t)
	c.dir = ""
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1050*time.Millisecond, cancel)
		began := time.Now()
		if err := run(ctx, io.Discard, c); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("run = %v after %v", err, time.Since(began))
		}
	})
	if left, err := os.ReadDir(tmp); len(left) != 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestWrongURLIsToldAtOnce(t *testing.T) {
	c := inMemory(t)
	c.url = "memory://host"
	if _, err := play(t, c); !errors.Is(err, coordinator.ErrInvalid) {
		t.Errorf("run = %v", err)
	}
}
