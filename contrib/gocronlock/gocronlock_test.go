package gocronlock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/baton-go/baton/contrib/gocronlock"
	"github.com/baton-go/baton/contrib/internal/lab"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
	"github.com/baton-go/baton/election"
)

// runs are those of a job in all replicas, by the minute in which they began.
type runs struct {
	mu     sync.Mutex
	begun  []int
	busy   int
	atOnce int
}

func (r *runs) job(replica int, began time.Time, takes time.Duration, who *[]int) func() {
	return func() {
		r.mu.Lock()
		r.begun = append(r.begun, int(time.Since(began)/time.Minute))
		*who = append(*who, replica)
		r.busy++
		r.atOnce = max(r.atOnce, r.busy)
		r.mu.Unlock()
		time.Sleep(takes)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.busy--
	}
}

// schedule starts a scheduler whose job begins in each minute, late.
func schedule(t *testing.T, late time.Duration, job func(), opt gocron.SchedulerOption) {
	t.Helper()
	s, err := gocron.NewScheduler(opt)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(job), gocron.WithName("job"),
		gocron.WithStartAt(gocron.WithStartDateTime(time.Now().Add(time.Minute+late))))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}

// TestShortJobRunsOncePerPeriod, although its lock is free when the timer of
// the other replica fires.
func TestShortJobRunsOncePerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, began, all, who := memory.NewService(), time.Now(), &runs{}, []int{}
		for i := range 2 {
			client, _ := lab.Replica(t, svc)
			schedule(t, time.Duration(i)*5*time.Second, all.job(i, began, 0, &who),
				gocron.WithDistributedLocker(gocronlock.NewLocker(client, time.Minute)))
		}
		time.Sleep(4*time.Minute + 30*time.Second)
		all.mu.Lock()
		defer all.mu.Unlock()
		if !slices.Equal(all.begun, []int{1, 2, 3, 4}) {
			t.Errorf("the job began in the minutes %v", all.begun)
		}
	})
}

// TestLongJobKeepsItsHold: other replicas skip it meanwhile.
func TestLongJobKeepsItsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, began, all, who := memory.NewService(), time.Now(), &runs{}, []int{}
		for i := range 2 {
			client, _ := lab.Replica(t, svc)
			schedule(t, time.Duration(i)*5*time.Second, all.job(i, began, 3*lab.TTL, &who),
				gocron.WithDistributedLocker(gocronlock.NewLocker(client, time.Minute)))
		}
		time.Sleep(4*time.Minute + 45*time.Second)
		all.mu.Lock()
		defer all.mu.Unlock()
		if all.atOnce != 1 || !slices.Equal(all.begun, []int{1, 3}) {
			t.Errorf("the job began in the minutes %v, up to %d at once", all.begun, all.atOnce)
		}
	})
}

func TestLockerSaysWhyAJobDoesNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.NewService()
		client, link := lab.Replica(t, svc)
		l := gocronlock.NewLocker(client, time.Minute)
		lock, err := l.Lock(t.Context(), "pkg.job")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Lock(t.Context(), "pkg.job"); !errors.Is(err, coordinator.ErrTaken) {
			t.Errorf("Lock of a job that runs = %v", err)
		}
		if err := lock.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := l.Lock(t.Context(), "pkg.job"); !errors.Is(err, gocronlock.ErrDone) {
			t.Errorf("Lock of a job that has run = %v", err)
		}
		time.Sleep(time.Minute)
		lock, err = l.Lock(t.Context(), "pkg.job")
		if err != nil {
			t.Fatal(err)
		}
		link.Expire()
		synctest.Wait()
		if err := lock.Unlock(t.Context()); !errors.Is(err, coordinator.ErrSessionLost) {
			t.Errorf("Unlock after a loss = %v", err)
		}
	})
}

// TestReplicaThatWasCutOffBeginsNoJob once another one leads.
func TestReplicaThatWasCutOffBeginsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, began, all, who := memory.NewService(), time.Now(), &runs{}, []int{}
		var first *memory.Driver
		for i := range 2 {
			client, link := lab.Replica(t, svc)
			if i == 0 {
				first = link
			}
			e, err := election.New(client, "scheduler")
			if err != nil {
				t.Fatal(err)
			}
			elector := gocronlock.NewElector(e)
			if err := elector.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
				t.Errorf("IsLeader before Run = %v", err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- elector.Run(ctx) }()
			t.Cleanup(func() {
				link.Heal()
				cancel()
				<-done
			})
			synctest.Wait() // the first leads
			schedule(t, 0, all.job(i, began, 0, &who), gocron.WithDistributedElector(elector))
		}
		time.Sleep(2*time.Minute + 20*time.Second) // a TTL before the third minute, and more
		first.Cut()
		time.Sleep(2 * time.Minute)
		all.mu.Lock()
		defer all.mu.Unlock()
		if !slices.Equal(all.begun, []int{1, 2, 3, 4}) || !slices.Equal(who, []int{0, 0, 1, 1}) {
			t.Errorf("the job began in the minutes %v, in the replicas %v", all.begun, who)
		}
	})
}
