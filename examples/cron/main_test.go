package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/mutex"
)

var quiet = log.New(io.Discard, "", 0)

func newRecord() *record { return &record{gate: fence.NewGate(fence.Scope{})} }

// play runs replicas for 13 periods of 10 s, and returns the periods of the
// runs. crash, if not nil, is called in the middle of each run, with the link
// of the replica that runs it.
func play(
	t *testing.T, replicas int, rec *record, crash func(runs int, link *memory.Driver),
) (ran []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		ctx, cancel := context.WithTimeout(t.Context(), 125*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range replicas {
			link := svc.Driver()
			client, err := coordinator.New(link, coordinator.WithTTL(coordinator.MinTTL),
				coordinator.WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			c := cron{every: 10 * time.Second, rec: rec}
			c.job = func(ctx context.Context, period time.Time) error {
				ran = append(ran, period.Format(time.TimeOnly))
				if crash != nil {
					crash(len(ran), link)
				}
				select {
				case <-time.After(2 * time.Second):
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			wg.Go(func() {
				err := c.replica(ctx, client, quiet)
				link.Heal()
				if err := client.Close(context.WithoutCancel(ctx)); err != nil {
					t.Error(err)
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	return ran
}

func TestJobRunsOnceInEachPeriod(t *testing.T) {
	for _, replicas := range []int{1, 3, 6} {
		rec := newRecord()
		ran := play(t, replicas, rec, nil)
		if len(ran) != 13 || rec.begins != 13 || rec.ends != 13 {
			t.Errorf("%d replicas: begun %d, done %d: %v", replicas, rec.begins, rec.ends, ran)
		}
	}
}

// TestCrashInTheMiddle: another replica takes over in the same period, and runs
// the job again unless it has to run at most once.
func TestCrashInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		atMostOnce   bool
		begins, ends int
		next         string // the period that is run after the crash
	}{
		{false, 14, 13, "00:00:40"},
		{true, 13, 12, "00:00:50"},
	} {
		rec := newRecord()
		rec.atMostOnce = c.atMostOnce
		ran := play(t, 3, rec, func(runs int, link *memory.Driver) {
			if runs == 5 {
				link.Cut()
			}
		})
		if rec.begins != c.begins || rec.ends != c.ends ||
			ran[4] != "00:00:40" || ran[5] != c.next {
			t.Errorf("%+v: begun %d, done %d: %v", c, rec.begins, rec.ends, ran)
		}
	}
}

// TestLateReplicaStoresNothing after a pause in the middle of the job, when its
// successor has taken over.
func TestLateReplicaStoresNothing(t *testing.T) {
	rec, svc := newRecord(), memory.NewService()
	take := func() fence.Sequencer {
		link := svc.Driver()
		client, err := coordinator.New(link, coordinator.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(t.Context())
		m, err := mutex.New(client, "cron/nightly")
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
	now := time.Now()
	begin := func(seq fence.Sequencer) string {
		period, due, err := rec.begin(t.Context(), seq, now)
		return fmt.Sprint(period.Equal(now), due, err)
	}
	late := take()
	if got := begin(late); got != "true true <nil>" {
		t.Fatal(got)
	}
	next := take()
	if got := begin(next); got != "true true <nil>" {
		t.Errorf("the successor begins: %s", got)
	}
	if err := rec.end(t.Context(), late, now); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the late replica ends: %v", err)
	}
	if err := rec.end(t.Context(), next, now); err != nil {
		t.Error(err)
	}
}

// TestMissedPeriodsAreNotRun, except the latest.
func TestMissedPeriodsAreNotRun(t *testing.T) {
	rec := newRecord()
	play(t, 1, rec, nil)
	rec.gate = fence.NewGate(fence.Scope{}) // the next service has another identity
	rec.begun = rec.begun.Add(-time.Hour)
	rec.done = rec.begun
	rec.begins = 0
	if play(t, 1, rec, nil); rec.begins != 13 {
		t.Errorf("begun %d times", rec.begins)
	}
}
