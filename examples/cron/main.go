// Cron runs a job once per period on one of several replicas, also if a replica
// crashes.
//
//	go run ./examples/cron                              # no server: three replicas in memory
//	go run ./examples/cron -at-most-once
//	go run ./examples/cron -url etcd://127.0.0.1:2379
//	go run ./examples/cron -url zk://127.0.0.1:2181
//
// The lock alone is not enough: a replica whose timer fires late finds the lock
// free, and would run the job again. So the holder of the lock stores which
// period is done in a record. Every access passes the lock's token, and the
// record refuses tokens smaller than the greatest it has seen, so a replica
// that was paused cannot write late.
//
// Replicas wait for the lock instead of trying it, so that one of them takes
// over in the same period if the holder crashes. Choose whether it runs the job
// again: at least once, or at most once. For exactly once, write the job's
// effects in the same transaction as "done".
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/examples/internal/demo"
	"github.com/baton-go/baton/mutex"
)

// cron is the job. All replicas have the same.
type cron struct {
	every time.Duration
	job   func(ctx context.Context, period time.Time) error
	rec   *record
}

// replica runs what is due in each period, until ctx ends.
func (c cron) replica(ctx context.Context, client *coordinator.Client, out *log.Logger) error {
	m, err := mutex.New(client, "cron/nightly")
	if err != nil {
		return err
	}
	for {
		if err := c.runDue(ctx, m); ctx.Err() != nil {
			return err
		} else if err != nil {
			out.Printf("%s continues after: %v", client.Identity(), err)
		}
		now := time.Now()
		next := now.Truncate(c.every).Add(c.every)
		if err := demo.Sleep(ctx, next.Sub(now)); err != nil {
			return err
		}
	}
}

// runDue waits for the lock, and runs the job if it is due.
func (c cron) runDue(ctx context.Context, m *mutex.Mutex) error {
	lock, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return errors.Join(c.runLocked(lock), lock.Unlock(ctx))
}

func (c cron) runLocked(lock *mutex.Lock) error {
	ctx := lock.Context() // ends when the lock is lost, not when the replica is told to stop
	seq, err := lock.Sequencer(ctx)
	if err != nil {
		return err
	}
	period, due, err := c.rec.begin(ctx, seq, time.Now().Truncate(c.every))
	if err != nil || !due {
		return err
	}
	if err := c.job(ctx, period); err != nil {
		return err
	}
	return c.rec.end(ctx, seq, period)
}

// record represents a row in a database, where package sqlfence replaces the
// gate. begin and end are one transaction each.
type record struct {
	gate       *fence.Gate
	atMostOnce bool

	begun, done  time.Time // the last period that was begun, and done
	begins, ends int
}

// begin stores that a period is begun, if one is due, and returns it.
func (r *record) begin(
	ctx context.Context, seq fence.Sequencer, now time.Time,
) (period time.Time, due bool, err error) {
	err = r.gate.Do(ctx, seq, func(context.Context) error {
		switch {
		case r.begun.After(r.done) && !r.atMostOnce: // its run was interrupted
			period = r.begun
		case now.After(r.begun):
			period, r.begun = now, now
		default:
			return nil
		}
		due = true
		r.begins++
		return nil
	})
	return period, due, err
}

// end stores that a period is done.
func (r *record) end(ctx context.Context, seq fence.Sequencer, period time.Time) error {
	return r.gate.Do(ctx, seq, func(context.Context) error {
		r.done = period
		r.ends++
		return nil
	})
}

func main() {
	url := demo.URL()
	every := flag.Duration("every", time.Second, "the period")
	length := flag.Duration("for", 5*time.Second, "how long to run")
	atMostOnce := flag.Bool("at-most-once", false, "do not repeat an interrupted run")
	demo.Main(func(ctx context.Context, out *log.Logger) error {
		rec := &record{gate: fence.NewGate(fence.Scope{}), atMostOnce: *atMostOnce}
		c := cron{max(*every, time.Millisecond), func(ctx context.Context, period time.Time) error {
			out.Printf("nightly of %s", period.Format(time.TimeOnly))
			return demo.Sleep(ctx, *every/5)
		}, rec}
		ctx, cancel := context.WithTimeout(ctx, *length)
		defer cancel()
		err := demo.Run(ctx, *url, 3, func(ctx context.Context, client *coordinator.Client) error {
			return c.replica(ctx, client, out)
		})
		out.Printf("the job was begun %d times and done %d times", rec.begins, rec.ends)
		return err
	})
}
