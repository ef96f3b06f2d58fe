package nodes

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// flights are the joins and conversions of a session that may still be applied,
// by contender: the latest of each, which knows the others.
type flights struct {
	mu sync.Mutex
	m  map[string]*Flight
}

// Flight is one call of Join or Convert, together with the requests that it sent
// and did not wait for.
type Flight struct {
	among  *flights
	id     string        // the contender's
	before *Flight       // one of the same contender
	parts  int           // the call and its requests
	landed chan struct{} // closed when there are none left
}

// Begin starts a flight, and returns those of the same contender that began
// before.
func (s *Session) Begin(id string) (f *Flight, earlier []*Flight) { return s.flights.begin(id) }

// Flights returns what is under way for a contender.
func (s *Session) Flights(id string) []*Flight {
	s.flights.mu.Lock()
	defer s.flights.mu.Unlock()
	return s.flights.of(id)
}

func (fs *flights) begin(id string) (f *Flight, earlier []*Flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	earlier = fs.of(id)
	f = &Flight{among: fs, id: id, before: fs.m[id], parts: 1, landed: make(chan struct{})}
	fs.m[id] = f
	return f, earlier
}

// of is called with the mutex held.
func (fs *flights) of(id string) (all []*Flight) {
	for f := fs.m[id]; f != nil; f = f.before {
		all = append(all, f)
	}
	return all
}

// extend adds a request to a flight.
func (f *Flight) extend() {
	f.among.mu.Lock()
	defer f.among.mu.Unlock()
	f.parts++
}

// End ends the call or a request.
func (f *Flight) End() {
	fs := f.among
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.parts--; f.parts > 0 {
		return
	}
	close(f.landed)
	if latest := fs.m[f.id]; latest != f {
		latest.without(f)
	} else if fs.m[f.id] = f.before; f.before == nil {
		delete(fs.m, f.id)
	}
}

// without takes a flight out of those before this one.
func (f *Flight) without(other *Flight) {
	for f.before != other {
		f = f.before
	}
	f.before = other.before
}

// Settled waits until the given flights have landed and all that they have done
// is known to this session's server. A request to join, or to convert, is in one
// of four places:
//
//   - In this process: waiting for the connection, queued in the client, or sent and unanswered.
//     The client sends what is queued even after a reconnect, so Settled waits until the
//     goroutine of each such request has returned. That takes a quarter of the TTL
//     at most, since then an unanswered request closes its connection.
//   - On a connection that was lost, or at the server at its end. This session has a
//     connection now, or Settled could not ask. A server that another connection of the session
//     is made to closes the old one before it answers; if it is another server, the leader has
//     noted the move and refuses what the old server passes on later.
//   - At the leader, not yet committed, or committed and not yet known to the server that
//     this session is connected to. The sync queues behind it at the leader and its answer
//     comes to this server after it.
//   - Applied, then, and in the next listing.
func (s *Session) Settled(ctx context.Context, queue driver.Queue, flights []*Flight) error {
	for _, f := range flights {
		if err := s.Until(ctx, f.landed); err != nil {
			return err
		}
	}
	return s.Sync(ctx, s.Layout.Path(queue))
}

// Outcome is what the reply to a transaction says.
type Outcome struct {
	Failed int       // which request has failed, counted from 1; 0 if the reply does not say
	Made   [2]string // the first nodes that were made
	Stat   zk.Stat   // of the last node that was written to
}

var errTransaction = errors.New("zookeeper: unexpected reply to a transaction")

// Multi sends a transaction, as a part of a flight if that is not nil: a call
// that waits for the flight waits until the transaction has been answered,
// whether or not its caller still does. So the requests may outlive the call,
// and must not share memory with its arguments.
func (s *Session) Multi(ctx context.Context, f *Flight, requests []any) (Outcome, error) {
	ended := func() {}
	if f != nil {
		f.extend()
		ended = f.End
	}
	r, err := zkconn.Start(ctx, s.Conn, func(client *zk.Conn) ([]zk.MultiResponse, error) {
		defer ended()
		return client.Multi(requests...)
	})
	if err != nil {
		ended()
		return Outcome{}, err
	}
	results, err := r.Wait(ctx)
	if err == nil && len(results) != len(requests) {
		return Outcome{}, driver.Wrap(driver.ErrUnavailable, errTransaction)
	}
	return outcomeOf(results), err
}

// outcomeOf reads the reply. The requests before one that has failed have no
// error, since they would have succeeded; those after it have one that says
// that they were not tried.
func outcomeOf(results []zk.MultiResponse) (o Outcome) {
	made := o.Made[:0]
	for i, r := range results {
		if r.Error != nil && o.Failed == 0 {
			o.Failed = i + 1
		}
		if r.Stat != nil {
			o.Stat = *r.Stat
		}
		if r.String != "" && len(made) < len(o.Made) {
			made = append(made, r.String)
		}
	}
	copy(o.Made[:], made)
	return o
}

// Misdirected is the error of a join whose reply is about another node.
func Misdirected(path string) error {
	return driver.Wrap(driver.ErrUnavailable,
		fmt.Errorf("zookeeper: the reply to a join is about node %q", path))
}
