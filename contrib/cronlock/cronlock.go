// Package cronlock runs a job of robfig/cron once per scheduled time in a fleet
// whose replicas all have it.
//
//	schedule, err := cron.ParseStandard("CRON_TZ=UTC 0 3 * * *")
//	nightly, err := once.New(client, "nightly-report")
//	c.Schedule(schedule, cronlock.Job(ctx, nightly, schedule, report, onError))
//
// A lock alone is not enough: a short job has ended, and its lock is free, when
// the timer of another replica fires.
//
// # Guaranteed
//
// What once.Once guarantees: the job is called at most once for each time of
// the schedule, also if a replica is late or its clock differs, and with
// once.WithRepeat again if a run did not complete. Runs do not overlap, however
// long they are. The context of a Job ends if its hold is lost.
//
// # Not guaranteed
//
// A time at which no replica runs is not made up for. A cron.Job that is no Job
// of this package has no context, so a loss does not stop it. All replicas must
// have the same schedule in the same time zone: write CRON_TZ. The times of
// "@every 1h" depend on the start of each process; such a job runs once in each
// hour of the clock.
package cronlock

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/baton-go/baton/recipes/once"
)

// Job returns a job that calls work, unless another replica does or has done so
// for the same time of the schedule. Meanwhile it waits: with once.WithRepeat
// it takes over if the other one dies. The wait and the context of work end
// with ctx. onError gets each error of once.Once.Do, in the job's goroutine.
func Job(ctx context.Context, o *once.Once, schedule cron.Schedule, work once.Work, onError func(error)) cron.Job {
	return cron.FuncJob(func() {
		if err := o.Do(ctx, once.At(scheduled(schedule, time.Now())), work); err != nil {
			onError(err)
		}
	})
}

// Once returns a wrapper that makes a Job of any job. With cron.Recover or
// cron.SkipIfStillRunning it must be the last of the chain: it takes the time
// at which it is called for the time of the schedule.
func Once(ctx context.Context, o *once.Once, schedule cron.Schedule, onError func(error)) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		work := func(context.Context, *once.Hold) error {
			job.Run()
			return nil
		}
		return Job(ctx, o, schedule, work, onError)
	}
}

// scheduled returns the last time of a schedule that is not after now.
func scheduled(schedule cron.Schedule, now time.Time) time.Time {
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok {
		return now.Truncate(every.Delay)
	}
	// Schedules only tell the next time. Go back until that has passed.
	for back := time.Second; back < 5*366*24*time.Hour; back *= 2 {
		last := schedule.Next(now.Add(-back))
		if last.IsZero() || last.After(now) {
			continue
		}
		for next := last; !next.IsZero() && !next.After(now); next = schedule.Next(last) {
			last = next
		}
		return last
	}
	return now.Truncate(time.Second) // a schedule of the caller's own
}
