package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

// Silence is what a driver remembers of members that have taken a request and
// not answered it, while they answer pings.
//
// The client sends requests to the members in turn. So the repetition of such a
// request goes to the next member, unless other requests of the client come
// between. With a wrong number of them, each attempt meets the silent member.
//
// Reads, and the request that ends a session, are sent twice at once then: they
// go to two members. Of other writes that would be wrong: the answer to a copy
// that finds the other one applied says nothing about the time before, and a
// copy that is still under way can be applied after the call. Instead, after a
// second silence, the driver moves the turn on by a random number of small
// reads before the request is repeated. Of n members, k of them silent, each
// further attempt then meets a silent one with a probability of k/n, whatever
// other requests come between.
type Silence struct{ until atomic.Pointer[time.Time] }

// recent reports whether a member was silent within the last two TTLs. An
// attempt to open a session may last for one.
func (s *Silence) recent() bool {
	until := s.until.Load()
	return until != nil && time.Now().Before(*until)
}

// copies is how often a request is sent at once that may be sent twice.
func (s *Silence) copies() int {
	if s.recent() {
		return 2
	}
	return 1
}

// Failed makes an error of the contract of err, the error of a request. If the
// attempt has lasted as long as it may, a member was silent.
func (c Conn) Failed(ctx context.Context, err error) error {
	if err != nil && (errors.Is(ctx.Err(), context.DeadlineExceeded) ||
		errors.Is(context.Cause(ctx), context.DeadlineExceeded)) {
		c.noteSilence()
	}
	return answer.Wrap(ctx, err)
}

// noteSilence is called when a member has not answered a request.
func (c Conn) noteSilence() {
	again, until := c.Silence.recent(), time.Now().Add(2*c.TTL)
	c.Silence.until.Store(&until)
	if again && c.Several && c.Ready() { // else no member was silent
		c.Go(c.shift) // no call may last longer for it
	}
}

// Ready reports whether the client is connected with a member.
func (c Conn) Ready() bool {
	conn := c.Client.ActiveConnection() // nil in tests
	return conn != nil && conn.GetState() == connectivity.Ready
}

// shiftTime is how long a shift may take, all the time if a read meets the
// silent member. The turn has moved when the reads are sent.
const shiftTime = 20 * time.Millisecond

// shift moves the turn on by a random number of members. The answers to its
// reads do not count, not even refusals.
func (c Conn) shift() {
	ctx, cancel := context.WithTimeout(c.Client.Ctx(), shiftTime)
	defer cancel()
	var wg sync.WaitGroup
	for range rand.IntN(len(c.Client.Endpoints())) {
		wg.Go(func() { _, _ = c.Client.Get(ctx, c.Any, clientv3.WithSerializable()) })
	}
	wg.Wait()
}
