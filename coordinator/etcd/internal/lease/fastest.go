package lease

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

// GetFromAny reads by quorum, whichever members are silent: if one has not
// answered after a pause, it asks all at once. A single read may meet a silent
// member each time, if other requests come between at the same pace.
func (s *Session) GetFromAny(
	ctx context.Context, pause time.Duration, ops ...clientv3.Op,
) (Reading, error) {
	silent := time.NewTimer(pause)
	defer silent.Stop()
	read := func(ctx context.Context) (Reading, error) { return s.get(ctx, ops...) }
	return fastest(ctx, 1, silent.C, len(s.Conn.Client.Endpoints()), read)
}

// fastest sends a request n times at once, and when silent fires, more times.
// The client sends requests to the members in turn. It returns the first
// answer, which may be a refusal, or the last error if all that were sent have
// failed.
func fastest[T any](
	ctx context.Context, n int, silent <-chan time.Time, more int,
	send func(context.Context) (T, error),
) (T, error) {
	if n == 1 && silent == nil {
		return send(ctx)
	}
	type reply struct {
		value T
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	replies := make(chan reply, n+more)
	sendOne := func() {
		value, err := send(ctx)
		replies <- reply{value, err}
	}
	for range n {
		go sendOne()
	}
	for {
		select {
		case <-silent:
			for range more {
				go sendOne()
			}
			n += more
		case first := <-replies:
			if n--; n > 0 && first.err != nil && !isAnswer(first.err) {
				continue
			}
			cancel()
			for range n {
				<-replies // at once
			}
			return first.value, first.err
		}
	}
}

// isAnswer reports whether another member's answer would be the same error.
func isAnswer(err error) bool {
	return !errors.Is(answer.Kind(err), driver.ErrUnavailable) || tooLarge(err)
}
