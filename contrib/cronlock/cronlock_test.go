package cronlock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/baton-go/baton/contrib/cronlock"
	"github.com/baton-go/baton/contrib/internal/lab"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/recipes/once"
)

// fleet is replicas with the same job, and what it did.
type fleet struct {
	*testing.T
	svc      *memory.Service
	schedule cron.Schedule
	opts     []once.Option
	takes    time.Duration // the work, if its context does not end

	mu     sync.Mutex
	begun  []time.Duration // since the start of the test
	began  time.Time
	busy   int
	errors []error
}

func play(t *testing.T, spec string, test func(*fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		schedule, err := cron.ParseStandard(spec)
		if err != nil {
			t.Fatal(err)
		}
		test(&fleet{T: t, svc: memory.NewService(), schedule: schedule, began: time.Now()})
	})
}

// start starts a replica whose timer is late.
func (f *fleet) start(late time.Duration, wrap bool) *memory.Driver {
	f.Helper()
	client, link := lab.Replica(f.T, f.svc)
	o, err := once.New(client, "job", f.opts...)
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	onError := func(err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.errors = append(f.errors, err)
	}
	job := cronlock.Job(ctx, o, f.schedule, func(ctx context.Context, _ *once.Hold) error { return f.work(ctx) }, onError)
	if wrap {
		job = cronlock.Once(ctx, o, f.schedule, onError)(cron.FuncJob(func() { _ = f.work(ctx) }))
	}
	c := cron.New(cron.WithLocation(time.UTC))
	c.Schedule(f.schedule, cron.FuncJob(func() {
		time.Sleep(late)
		job.Run()
	}))
	c.Start()
	f.Cleanup(func() {
		cancel()
		link.Heal()
		<-c.Stop().Done()
	})
	return link
}

func (f *fleet) work(ctx context.Context) error {
	f.mu.Lock()
	f.begun = append(f.begun, time.Since(f.began).Truncate(time.Second))
	if f.busy++; f.busy > 1 {
		f.Error("two runs at a time")
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.busy--
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(f.takes):
		return nil
	}
}

func (f *fleet) check(begun ...time.Duration) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.begun, begun) {
		f.Errorf("the job began at %v, want %v", f.begun, begun)
	}
}

// TestShortJobRunsOncePerTime, although it has ended when the timers of other
// replicas fire.
func TestShortJobRunsOncePerTime(t *testing.T) {
	play(t, "CRON_TZ=UTC * * * * *", func(f *fleet) {
		for i := range 3 {
			f.start(time.Duration(i)*5*time.Second, i == 1)
		}
		time.Sleep(4*time.Minute + 30*time.Second)
		f.check(time.Minute, 2*time.Minute, 3*time.Minute, 4*time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.errors) > 0 {
			f.Error(f.errors)
		}
	})
}

// TestLongJobKeepsItsHold for many TTLs, and for longer than the period.
func TestLongJobKeepsItsHold(t *testing.T) {
	play(t, "CRON_TZ=UTC 0 * * * *", func(f *fleet) {
		f.takes = 90 * time.Minute
		for i := range 3 {
			f.start(time.Duration(i)*time.Second, i == 1)
		}
		time.Sleep(4*time.Hour - time.Minute)
		f.check(time.Hour, 150*time.Minute)
	})
}

// TestAnotherReplicaTakesOver from one that is cut off during the work, which
// ends before the other begins.
func TestAnotherReplicaTakesOver(t *testing.T) {
	play(t, "CRON_TZ=UTC 0 * * * *", func(f *fleet) {
		f.opts = append(f.opts, once.WithRepeat())
		f.takes = 10 * time.Minute
		first := f.start(0, false)
		f.start(time.Second, false)
		time.Sleep(time.Hour + time.Minute)
		first.Cut()
		time.Sleep(30 * time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.begun) != 2 || f.begun[1] < 61*time.Minute || f.begun[1] > 61*time.Minute+lab.TTL {
			f.Errorf("the job began at %v", f.begun)
		}
		if len(f.errors) != 1 || !errors.Is(f.errors[0], coordinator.ErrSessionLost) {
			f.Errorf("errors: %v", f.errors)
		}
	})
}
