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

// flights are the joins, conversions and removals of a session that may still be
// applied, one of each contender at a time.
type flights struct {
	mu sync.Mutex
	m  map[string]*Flight // by contender
}

// Flight is one call of Join, Convert or Forget, together with the requests that
// it sent and did not wait for.
type Flight struct {
	among  *flights
	id     string        // the contender's
	parts  int           // the call and its requests
	landed chan struct{} // closed when there are none left; nil if nobody waits for that
}

// Begin starts a flight, after the one before of the same contender. After a
// sync all that the one before has done is known to this session's server. A
// request to join, or to convert, is in one of four places:
//
//   - In this process: waiting for the connection, queued in the client, or sent
//     and unanswered. The client sends what is queued even after a reconnect, so
//     Begin waits until the goroutine of each such request has returned. That
//     takes a quarter of the TTL at most, since then a connection without
//     answers is closed.
//   - On a connection that was lost, or at the server at its end. This session
//     has a connection now, or it could not sync. A server that another
//     connection of the session is made to closes the old one before it answers;
//     if it is another server, the leader has noted the move and refuses what
//     the old server passes on later.
//   - At the leader, not yet committed, or committed and not yet known to the
//     server that this session is connected to. The sync queues behind it at the
//     leader and its answer comes to this server after it.
//   - Applied, then, and in the next listing.
func (s *Session) Begin(ctx context.Context, id string) (*Flight, error) {
	for {
		f, landed := s.flights.begin(id)
		if f != nil {
			return f, nil
		}
		if err := s.Until(ctx, landed); err != nil {
			return nil, err
		}
	}
}

// begin starts a flight, unless there is one: then it returns what is closed when
// that has landed.
func (fs *flights) begin(id string) (*Flight, <-chan struct{}) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.m[id]; f != nil {
		if f.landed == nil {
			f.landed = make(chan struct{})
		}
		return nil, f.landed
	}
	f := &Flight{among: fs, id: id, parts: 1}
	fs.m[id] = f
	return f, nil
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
	delete(fs.m, f.id)
	if f.landed != nil {
		close(f.landed)
	}
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
