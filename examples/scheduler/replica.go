package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
)

// replica is one candidate.
type replica struct {
	config
	client *coordinator.Client
	jobs   *ledger
	health election.Health
	place  place
	out    *printer
}

func (r *replica) say(format string, args ...any) {
	r.out.printf("%-5s %s\n", r.name, fmt.Sprintf(format, args...))
}

// close gives back what is held, if anything: at once, not after the TTL.
func (r *replica) close(ctx context.Context) error {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return r.client.Close(bound)
}

// run is the replica's life: candidate, leader, candidate again should it lose
// the lead, until ctx ends.
func (r *replica) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	// A first session within five seconds, so that a wrong address shows at once.
	first, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := r.client.Session(first); ctx.Err() != nil {
		return nil // told to stop
	} else if err != nil {
		return err
	}
	e, err := election.New(r.client, "scheduler")
	if err != nil {
		return err
	}
	r.say("is a candidate")
	err = e.Run(ctx, r.lead,
		election.WithHealth(&r.health),
		election.WithDrain(r.drain),
		election.WithOnOverrun(func() { r.say("does not stop; others take over in spite of it") }),
		election.WithOnError(func(err error) { r.say("goes on after: %v", err) }))
	if ctx.Err() != nil && err == context.Cause(ctx) { //nolint:errorlint // that and nothing else: it stopped as it was told
		r.say("has stopped")
		return nil
	}
	return err
}

// lead runs job after job. ctx ends when the replica is to stop or has lost the
// lead; the job that it is at then is finished, for which it stays leader if it
// was only told to stop.
func (r *replica) lead(ctx context.Context, t *election.Term) error {
	r.say("leads with token %d", t.Token())
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		if err := r.job(t); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		switch {
		case ctx.Err() == nil:
			continue
		case t.Err() == nil:
			r.say("hands over (%v)", context.Cause(ctx)) // told to stop, and leader until it has returned
		default:
			r.say("stops (%v)", t.Err()) // another may lead by now
		}
		return nil
	}
}

// job is one job. It is done when the ledger has it, and not at all if the lead is lost before.
func (r *replica) job(t *election.Term) error {
	number := r.jobs.next()
	select {
	case <-time.After(r.every / 2): // the work
	case <-t.Context().Done(): // lost: somebody else may do it by now
		r.say("drops job %d", number)
		return nil
	}
	if err := r.jobs.done(number, t.Token()); err != nil {
		return err
	}
	r.say("ran job %d (token %d)", number, t.Token())
	return nil
}

// ledger stands for the database that jobs write to. It refuses tokens smaller
// than the greatest it has seen: a leader that was paused, and goes on after
// another one was elected, can do no harm. With -url each process has a ledger
// of its own, so numbers begin at 1 in each.
type ledger struct {
	mu       sync.Mutex
	last     int
	terms    int
	greatest coordinator.Token
}

// next is the number of the job that is due.
func (l *ledger) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last + 1
}

// done notes a job.
func (l *ledger) done(number int, token coordinator.Token) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case token < l.greatest:
		return fmt.Errorf("job %d refused: token %d, after %d", number, token, l.greatest)
	case number != l.last+1:
		return fmt.Errorf("job %d after job %d", number, l.last)
	case token > l.greatest:
		l.greatest = token
		l.terms++
	}
	l.last = number
	return nil
}

func (l *ledger) summary() (jobs, terms int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, l.terms
}
