package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/examples/internal/fleet"
	"github.com/baton-go/baton/examples/internal/records"
	"github.com/baton-go/baton/mutex"
)

func inMemory(t *testing.T) config {
	return config{url: fleet.InMemory, dir: t.TempDir(), mode: atLeastOnce, job: "nightly",
		every: 10 * time.Second, work: 2 * time.Second, length: 125 * time.Second}
}

// play runs the program for 13 periods, in virtual time, and returns what it printed and noted.
func play(t *testing.T, c config) (out string, rec record) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		if err := run(t.Context(), &b, c); err != nil {
			t.Errorf("%v\n%s", err, &b)
		}
		out = b.String()
	})
	rec, err := records.Read[record](records.Store(c.dir), c.job)
	if err != nil {
		t.Fatal(err)
	}
	return out, rec
}

func TestJobRunsOnceInEachPeriod(t *testing.T) {
	for _, c := range []struct {
		replicas int
		mode     string
	}{{1, atLeastOnce}, {3, atLeastOnce}, {3, atMostOnce}, {6, atLeastOnce}} {
		cfg := inMemory(t)
		cfg.replicas, cfg.mode = c.replicas, c.mode
		if out, rec := play(t, cfg); rec.Periods != 13 || rec.Begins != 13 || rec.Ends != 13 {
			t.Errorf("%+v: %+v\n%s", c, rec, out)
		}
	}
}

// TestCrashInTheMiddle: another replica goes on in the same period; whether with the run that crashed is the mode's choice.
func TestCrashInTheMiddle(t *testing.T) {
	for mode, ends := range map[string]int{atLeastOnce: 13, atMostOnce: 12} {
		c := inMemory(t)
		c.mode, c.crash = mode, 5
		out, rec := play(t, c)
		if rec.Periods != 13 || rec.Ends != ends || rec.Begins != ends+1 || strings.Count(out, "crashes") != 1 {
			t.Errorf("%s: %+v\n%s", mode, rec, out)
		}
		_, after, _ := strings.Cut(out, "crashes")
		again := strings.Split(strings.TrimSpace(after), "\n")[0] // the next to happen
		if want := map[string]string{atLeastOnce: "runs nightly of 00:00:40", atMostOnce: "runs nightly of 00:00:50"}[mode]; !strings.Contains(again, want) {
			t.Errorf("%s: after the crash: %q, want %q", mode, again, want)
		}
	}
}

// TestLateReplicaNotesNothing: it was stopped in the middle, and another one has gone on.
func TestLateReplicaNotesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inMemory(t)
		s := schedule{config: c, store: records.Store(c.dir)}
		replicas, err := fleet.Open(t.Context(), io.Discard, c.url, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer fleet.Close(t.Context(), replicas)
		take := func(r *fleet.Replica) fence.Sequencer {
			m, err := mutex.New(r.Client, "cron/"+c.job)
			if err != nil {
				t.Fatal(err)
			}
			lock, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			seq, err := lock.Sequencer(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return seq
		}
		late := take(replicas[0])
		period, due, err := s.begin(late)
		if err != nil || !due {
			t.Fatal(due, err)
		}
		replicas[0].Crash()
		next := take(replicas[1])
		if again, due, err := s.begin(next); err != nil || !due || !again.Equal(period) {
			t.Errorf("the next one begins %v, %v, %v; want %v", again, due, err, period)
		}
		if err := s.end(late, period); !errors.Is(err, fence.ErrStale) {
			t.Errorf("the late one: %v", err)
		}
		if _, _, err := s.begin(late); !errors.Is(err, fence.ErrStale) {
			t.Errorf("the late one begins: %v", err)
		}
		if err := s.end(next, period); err != nil {
			t.Error(err)
		}
	})
}

// TestFleetThatWasAwayRunsTheLatestPeriod and none of those that it has missed.
func TestFleetThatWasAwayRunsTheLatestPeriod(t *testing.T) {
	c := inMemory(t)
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			c.length = 5 * time.Second
			if err := run(t.Context(), io.Discard, c); err != nil {
				t.Error(err)
			}
			// Tokens of another service in memory are refused, as they should be: this one's data is gone, and the record starts anew.
			if err := records.Update(records.Store(c.dir), c.job, func(rec *record) error { rec.Guard = records.Guard{}; return nil }); err != nil {
				t.Error(err)
			}
			time.Sleep(100*time.Second - c.length)
		}
	})
	if rec, err := records.Read[record](records.Store(c.dir), c.job); err != nil || rec.Ends != 2 || rec.Periods != 2 {
		t.Errorf("%+v, %v", rec, err)
	}
}

// TestToldToStop: it is no error, the run that was begun is done, and no other is begun, though one is due when the job is longer than its period.
func TestToldToStop(t *testing.T) {
	for _, work := range []time.Duration{2 * time.Second, 15 * time.Second} {
		stop(t, work)
	}
}

func stop(t *testing.T, work time.Duration) {
	t.Helper()
	c := inMemory(t)
	c.work, c.crash = work, 0
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // in the middle of the job
		defer cancel()
		began := time.Now()
		if err := run(ctx, io.Discard, c); err != nil || time.Since(began) > c.work+time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
	if rec, err := records.Read[record](records.Store(c.dir), c.job); err != nil || rec.Begins != 1 || rec.Ends != 1 {
		t.Errorf("%+v, %v", rec, err)
	}
}

func TestBadFlagsAreTold(t *testing.T) {
	for want, change := range map[string]func(*config){
		"-every 0s: must be positive":                         func(c *config) { c.every = 0 },
		"-work -1s: must be positive":                         func(c *config) { c.work = -time.Second },
		"-for 0s: must be positive":                           func(c *config) { c.length = 0 },
		`-mode "once": must be at-least-once or at-most-once`: func(c *config) { c.mode = "once" },
		"-replicas -1: must be at least 0":                    func(c *config) { c.replicas = -1 },
		"-crash -1: must be at least 0":                       func(c *config) { c.crash = -1 },
		"redis":                                               func(c *config) { c.url = "redis://here" },
		"name":                                                func(c *config) { c.job = "a//b" },
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			c := inMemory(t)
			change(&c)
			if err := run(t.Context(), &out, c); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
				t.Errorf("run = %v, want %q; output:\n%s", err, want, &out)
			}
		})
	}
}
