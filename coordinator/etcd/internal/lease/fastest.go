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
	return s.fastest(ctx, 1, silent.C, ops...)
}

// fastest sends a read n times at once, and when silent fires once more for
// each address. The client sends requests to the members in turn. It returns
// the first answer, or the last error if all that were sent have failed.
func (s *Session) fastest(
	ctx context.Context, n int, silent <-chan time.Time, ops ...clientv3.Op,
) (Reading, error) {
	type reply struct {
		Reading
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	all := len(s.Conn.Client.Endpoints())
	replies := make(chan reply, n+all)
	send := func() {
		r, err := s.get(ctx, ops...)
		replies <- reply{r, err}
	}
	for range n {
		go send()
	}
	for {
		select {
		case <-silent:
			for range all {
				go send()
			}
			n += all
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
