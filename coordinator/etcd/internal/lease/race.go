package lease

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// GetFromAny reads by quorum, whichever members are silent: if one has not
// answered after a pause, it asks all at once. A single read may meet a silent
// member each time, if other requests come between at the same pace.
func (s *Session) GetFromAny(
	ctx context.Context, pause time.Duration, ops ...clientv3.Op,
) (Reading, error) {
	silent := time.NewTimer(pause)
	defer silent.Stop()
	return s.race(ctx, 1, silent.C, len(s.Conn.Client.Endpoints()), ops...)
}

// race sends a read n times at once, and more times when late has an element.
// The client sends requests to the members in turn. It returns the first
// answer, or the last error if all that were sent have failed.
func (s *Session) race(
	ctx context.Context, n int, late <-chan time.Time, more int, ops ...clientv3.Op,
) (Reading, error) {
	type reply struct {
		Reading
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	replies := make(chan reply, n+more)
	send := func() {
		r, err := s.get(ctx, ops...)
		replies <- reply{r, err}
	}
	for range n {
		go send()
	}
	for {
		select {
		case <-late:
			for range more {
				go send()
			}
			n += more
		case first := <-replies:
			if n--; first.err != nil && n > 0 {
				continue
			}
			cancel()
			for range n {
				<-replies // at once
			}
			return first.Reading, first.err
		}
	}
}
