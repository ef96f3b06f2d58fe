package nodes

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
)

// Flight is one call of Join, Convert or Forget, together with its requests,
// even if no caller waits for them.
type Flight struct {
	of    *Session
	id    string        // of the contender
	parts int           // the call and its requests
	done  chan struct{} // nil until it is waited for; closed when no parts are left
}

// BeginFlight starts a flight, after the contender's previous flight has ended.
// A sync then shows this session's server everything that flight did. Its
// request to join or to convert is in one of four places:
//
//   - In this process: waiting for the connection, queued in the client, or
//     sent and unanswered. The client sends queued requests even after a
//     reconnect, so BeginFlight waits until each request's goroutine has
//     returned: for a quarter of the TTL at most, when a connection without
//     replies is closed.
//   - On a lost connection, or at its server. This session is connected now, or
//     it could not sync. Its server first closes an older connection of the
//     session to itself. If the older one is to another server, the leader has
//     noted the move and refuses requests of the session from that server.
//     Not covered is a server that is paused before it passes on the request,
//     if the session leaves it, forgets the contender elsewhere, and is back
//     when the server resumes: the leader then accepts the request.
//   - At the leader, uncommitted, or committed and not yet known to this
//     session's server. The sync queues behind it at the leader, and the reply
//     comes to this server after it.
//   - Applied, and in the next listing.
func (s *Session) BeginFlight(ctx context.Context, id string) (*Flight, error) {
	f := &Flight{of: s, id: id, parts: 1}
	for {
		before := s.addFlight(f)
		if before == nil {
			return f, nil
		}
		if err := s.Until(ctx, before); err != nil {
			return nil, err
		}
	}
}

// addFlight adds a flight unless there is one of its contender. Then it returns
// a channel that is closed when that has ended.
func (s *Session) addFlight(f *Flight) (before <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	other := s.flights[f.id]
	if other == nil {
		s.flights[f.id] = f
		return nil
	}
	if other.done == nil {
		other.done = make(chan struct{})
	}
	return other.done
}

// add adds requests to a flight; n may be negative. A nil flight counts none.
func (f *Flight) add(n int) {
	if f == nil {
		return
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.parts += n; f.parts == 0 {
		delete(f.of.flights, f.id)
		if f.done != nil {
			close(f.done)
		}
	}
}

// End ends the call.
func (f *Flight) End() { f.add(-1) }

// Outcome is the content of the reply to a transaction.
type Outcome struct {
	Failed int       // the first failed request, counted from 1; 0 if unknown or none
	Made   [2]string // the first nodes created
	Stat   zk.Stat   // of the last node written to
}

// Multi sends a transaction, as a part of the flight unless that is nil: who
// waits for the flight waits for the reply, even after the caller has gone. So
// the requests may outlive the call, and must not share memory with its
// arguments.
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

// outcomeOf parses the reply. Requests before the failed one have no error;
// those after it have one that says that they were not tried.
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

// WrongNode is the error of a join whose reply is about another node.
func WrongNode(path string) error {
	return driver.Wrap(driver.ErrUnavailable,
		fmt.Errorf("zookeeper: the reply to a join is about node %q", path))
}
