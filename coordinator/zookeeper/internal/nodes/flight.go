package nodes

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// Flight is one call of Join, Convert or Forget, together with the requests
// that it sent and did not wait for.
type Flight struct {
	of    *Session
	id    string        // the contender's
	parts int           // the call and its requests
	done  chan struct{} // closed when there are none left
}

// Begin starts a flight, after the one before of the same contender. After a
// sync all that the one before has done is known to this session's server. A
// request to join, or to convert, is in one of four places:
//
//   - In this process: waiting for the connection, queued in the client, or
//     sent and unanswered. The client sends what is queued even after a
//     reconnect, so Begin waits until the goroutine of each such request has
//     returned: for a quarter of the TTL at most, since then a connection
//     without answers is closed.
//   - On a connection that was lost, or at the server at its end. This session
//     has a connection now, or it could not sync. Its server closes an older
//     one of the session to itself before it answers; if the older one is to
//     another server, the leader has noted the move and refuses what that
//     passes on later.
//   - At the leader, not yet committed, or committed and not yet known to this
//     session's server. The sync queues behind it at the leader, and its answer
//     comes to this server after it.
//   - Applied, then, and in the next listing.
func (s *Session) Begin(ctx context.Context, id string) (*Flight, error) {
	f := &Flight{of: s, id: id, parts: 1, done: make(chan struct{})}
	for {
		s.mu.Lock()
		before := s.flights[id]
		if before == nil {
			s.flights[id] = f
		}
		s.mu.Unlock()
		if before == nil {
			return f, nil
		}
		if err := s.Until(ctx, before.done); err != nil {
			return nil, err
		}
	}
}

// add adds a request to a flight, or takes one away. No flight is none of it.
func (f *Flight) add(n int) {
	if f == nil {
		return
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.parts += n; f.parts == 0 {
		delete(f.of.flights, f.id)
		close(f.done)
	}
}

// End ends the call.
func (f *Flight) End() { f.add(-1) }

// Outcome is what the reply to a transaction says.
type Outcome struct {
	Failed int       // which request has failed, counted from 1; 0 if the reply does not say
	Made   [2]string // the first nodes that were made
	Stat   zk.Stat   // of the last node that was written to
}

// Multi sends a transaction, as a part of a flight if that is not nil: a call
// that waits for the flight waits until the transaction has been answered,
// whether or not its caller still does. So the requests may outlive the call,
// and must not share memory with its arguments.
func (s *Session) Multi(ctx context.Context, f *Flight, requests []any) (Outcome, error) {
	f.add(1)
	r, err := zkconn.Start(ctx, s.Conn, func(client *zk.Conn) ([]zk.MultiResponse, error) {
		defer f.add(-1)
		return client.Multi(requests...)
	})
	if err != nil {
		f.add(-1)
		return Outcome{}, err
	}
	results, err := r.Wait(ctx)
	return outcomeOf(results), err
}

// outcomeOf reads the reply. The requests before one that has failed have no
// error, since they would have succeeded; those after it have one that says
// that they were not tried.
func outcomeOf(results []zk.MultiResponse) (o Outcome) {
	made := 0
	for i, r := range results {
		if r.Error != nil && o.Failed == 0 {
			o.Failed = i + 1
		}
		if r.Stat != nil {
			o.Stat = *r.Stat
		}
		if r.String != "" && made < len(o.Made) {
			o.Made[made] = r.String
			made++
		}
	}
	return o
}

// Misdirected is the error of a join whose reply is about another node.
func WrongNode(path string) error {
	return driver.Wrap(driver.ErrUnavailable,
		fmt.Errorf("zookeeper: the reply to a join is about node %q", path))
}
