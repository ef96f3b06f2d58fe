// Cron: a job that runs once in each period, whichever replica of a fleet runs
// it, and whoever crashes.
//
//	go run ./examples/cron                                                # no server: three replicas; one crashes in the middle of the job
//	go run ./examples/cron -mode at-most-once                             # the run that crashed is not run again
//	go run ./examples/cron -url etcd://127.0.0.1:2379 -every 5s -for 1m   # one replica: start several, kill -9 one at work
//	go run ./examples/cron -url zk://127.0.0.1:2181 -every 5s -for 1m
//
// A lock alone does not do it: it keeps two from running at once, and the
// second one gets it when the first is done, and runs the job again. What has
// been run is a fact that outlives the lock, so it is in a record, which the
// holder of the lock reads and writes. Each access shows the lock's token, and
// the record refuses late ones: a replica that was stopped in the middle cannot
// say, after others have gone on, that a period is done.
//
// The lock is waited for and not tried, so that somebody is there when the
// holder crashes: within its TTL the next one goes on, in the same period. What
// becomes of the run that crashed is a choice, -mode, that no lock can take
// from you.
//
// At-least-once: the record says "done" after the job, and a run that was begun
// and not done is run again. At-most-once: the record says "begun" before the
// job, and what was begun is not begun again. Exactly once is had if the job's
// effects are written together with "done", in one transaction of one database.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/baton-go/baton/examples/internal/fleet"
	"github.com/baton-go/baton/examples/internal/records"
)

// config is what the flags say.
type config struct {
	url, dir, mode      string
	job                 string
	replicas, crash     int
	every, work, length time.Duration
}

const (
	atLeastOnce = "at-least-once"
	atMostOnce  = "at-most-once"
)

func main() {
	var c config
	flag.StringVar(&c.url, "url", fleet.InMemory, "the service: memory://, etcd://host:port/namespace, zk://host:port/chroot")
	flag.StringVar(&c.dir, "dir", "", "the directory of the records, the same for all replicas: by default one in the system's for temporary files")
	flag.StringVar(&c.mode, "mode", atLeastOnce, "what becomes of a run that crashed: at-least-once runs it again, at-most-once does not")
	flag.StringVar(&c.job, "job", "nightly", "the job's name, which is the lock's too")
	flag.IntVar(&c.replicas, "replicas", 0, "replicas in this process; 0: three on memory://, else one")
	flag.IntVar(&c.crash, "crash", 2, "which run of the job crashes in the middle, on memory://; 0: none")
	flag.DurationVar(&c.every, "every", time.Second, "the period")
	flag.DurationVar(&c.work, "work", 200*time.Millisecond, "how long the job takes")
	flag.DurationVar(&c.length, "for", 6*time.Second, "how long to run")
	fleet.Main(func(ctx context.Context, out io.Writer) error {
		return run(ctx, out, c)
	})
}

// check says which flag breaks which rule.
func (c config) check() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"every", c.every}, {"work", c.work}, {"for", c.length}} {
		if f.value <= 0 {
			return fmt.Errorf("-%s %v: must be positive", f.name, f.value)
		}
	}
	switch {
	case c.mode != atLeastOnce && c.mode != atMostOnce:
		return fmt.Errorf("-mode %q: must be %s or %s", c.mode, atLeastOnce, atMostOnce)
	case c.replicas < 0:
		return fmt.Errorf("-replicas %d: must be at least 0", c.replicas)
	case c.crash < 0:
		return fmt.Errorf("-crash %d: must be at least 0", c.crash)
	}
	return nil
}

// run is main without the process: replicas, until the time is over or ctx ends.
func run(ctx context.Context, out io.Writer, c config) error {
	if err := c.check(); err != nil {
		return err
	}
	dir, remove, err := fleet.Dir("cron", c.dir, c.url, c.job)
	if err != nil {
		return err
	}
	defer remove()
	if c.replicas == 0 {
		c.replicas = fleet.Size(c.url)
	}
	during, cancel := context.WithTimeout(ctx, c.length)
	defer cancel()
	schedule := schedule{config: c, store: records.Store(dir)}
	err = fleet.Run(during, out, c.url, c.replicas, func(ctx context.Context, r *fleet.Replica) error {
		return schedule.serve(ctx, r)
	})
	if err != nil {
		return err
	}
	rec, err := records.Read[record](schedule.store, c.job)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d periods; the job was begun %d times and done %d times\n", rec.Periods, rec.Begins, rec.Ends)
	return nil
}
