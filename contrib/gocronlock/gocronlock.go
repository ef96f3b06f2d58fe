// Package gocronlock has an Elector and a Locker for gocron v2, so that of
// several replicas of a scheduler one runs a job.
//
//	elector := gocronlock.NewElector(e) // of election.New
//	go elector.Run(ctx)
//	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
//	gocron.WithDistributedJobLocker(gocronlock.NewLocker(client, time.Hour)) // for a job of each hour
//
// # Guaranteed
//
// With the Elector, only the leader begins a job; a replica that was cut off
// begins none before another one leads. With the Locker, a job begins at most
// once in each period, however short it is and however late a replica is, and
// not while another replica runs it, however long that takes.
//
// # Not guaranteed
//
// gocron gives no context of the lock to a job: one that is running goes on
// after a loss. With the Elector, a job can run twice if the leader changes
// between the timers of two replicas.
package gocronlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/baton-go/baton/contrib/internal/names"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/recipes/once"
)

var (
	// ErrNotLeader is the error of Elector.IsLeader.
	ErrNotLeader = errors.New("this replica does not lead")
	// ErrDone is the error of Locker.Lock if the job has run in this period.
	ErrDone = errors.New("the job has run in this period")
)

var (
	_ gocron.Elector = (*Elector)(nil)
	_ gocron.Locker  = (*Locker)(nil)
)

// Elector knows whether this replica leads. It is safe for concurrent use.
type Elector struct {
	election *election.Election

	mu   sync.Mutex
	term *election.Term // nil if another one leads
}

// NewElector returns an elector that leads while Run does. It does no I/O.
func NewElector(e *election.Election) *Elector { return &Elector{election: e} }

// Run campaigns, again after each lost term, until ctx ends. It returns the
// error of election.Election.Run.
func (e *Elector) Run(ctx context.Context, opts ...election.RunOption) error {
	return e.election.Run(ctx, func(ctx context.Context, term *election.Term) error {
		e.set(term)
		defer e.set(nil)
		<-ctx.Done()
		return nil
	}, opts...)
}

func (e *Elector) set(term *election.Term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = term
}

// IsLeader returns nil if this replica leads, without a request. It reads the
// clock, so it reports a loss also right after a pause.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	term := e.term
	e.mu.Unlock()
	if term == nil {
		return ErrNotLeader
	}
	return term.Err()
}

// Locker lets a job begin once in each period.
type Locker struct {
	client *coordinator.Client
	period time.Duration
}

// NewLocker returns a locker for jobs with this period, which begins at its
// multiples since the year 1, in UTC: so a job of each hour needs an hour.
func NewLocker(client *coordinator.Client, period time.Duration) *Locker {
	return &Locker{client: client, period: period}
}

// Lock begins the job of a name. It returns ErrDone if the job has run in this
// period, and else the errors of once.Once.TryDo: ErrTaken while it runs.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	o, err := once.New(l.client, names.Lock("gocron", job))
	if err != nil {
		return nil, err
	}
	h := &hold{begun: make(chan struct{}), end: make(chan struct{}), ended: make(chan error, 1)}
	go func() {
		h.ended <- o.TryDo(ctx, once.At(time.Now().Truncate(l.period)), h.work)
	}()
	select {
	case <-h.begun:
		return h, nil
	case err := <-h.ended:
		if err == nil {
			err = ErrDone
		}
		return nil, err
	}
}

// hold is a run of a job, whose work gocron does.
type hold struct {
	begun, end chan struct{}
	ended      chan error
}

func (h *hold) work(context.Context, *once.Hold) error {
	close(h.begun)
	<-h.end
	return nil
}

// Unlock records that the job has run. If the hold was lost, it returns why.
func (h *hold) Unlock(context.Context) error {
	close(h.end)
	return <-h.ended
}
