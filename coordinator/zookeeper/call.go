package zookeeper

import (
	"context"
	"errors"
	"time"
)

// The Conn knows no contexts: a request blocks until its reply comes or its
// connection is lost. So each request runs in a goroutine of its own, and the caller waits for
// the reply, its context, or the end of the session, whichever comes first. A
// reply that comes later is dropped; the goroutine ends with it.

// reply is the outcome of a request, once come is closed.
type reply[T any] struct {
	value T
	err   error
	come  chan struct{}
}

func (r *reply[T]) set(value T, err error) {
	r.value, r.err = value, err
	close(r.come)
}

var errBusy = errors.New("zookeeper: too many requests are waiting for an answer")

// call sends a request and waits for its reply.
func call[T any](ctx context.Context, s *session, request func() (T, error)) (T, error) {
	r, err := start(ctx, s, s.slots, request)
	if err != nil {
		var zero T
		return zero, err
	}
	return await(ctx, s, r)
}

// start sends a request. On failure nothing was and will be sent.
func start[T any](ctx context.Context, s *session, slots chan struct{}, request func() (T, error)) (*reply[T], error) {
	if err := s.enter(ctx, slots); err != nil {
		return nil, err
	}
	r := &reply[T]{come: make(chan struct{})}
	s.run(slots, func() {
		value, err := request()
		r.set(value, s.judge(err))
	})
	return r, nil
}

// await waits for the reply to a request that was started.
func await[T any](ctx context.Context, s *session, r *reply[T]) (T, error) {
	var err error
	select {
	case <-r.come:
		return r.value, r.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-s.over:
		err = s.reason()
	}
	select {
	case <-r.come: // both at once: the reply says more
		return r.value, r.err
	default:
		var zero T
		return zero, err
	}
}

// enter waits until a request can be sent and takes a place for it, which run gives back, or
// leave. Requests are not handed to a Conn that is not connected: it has room for 16 and then blocks
// its callers without end.
func (s *session) enter(ctx context.Context, slots chan struct{}) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.toSend(ctx, slots); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil { // who ends the session waits for what runs, so nothing may start now
		<-slots
		return s.cause
	}
	s.running.Add(1)
	return nil
}

// toSend waits for a connection and a place. (Nearly always both are there, and to ask for one thing costs much less than to wait
// for one of three.)
func (s *session) toSend(ctx context.Context, slots chan struct{}) error {
	if up := s.presence.connected(); !isClosed(up) {
		select {
		case <-up:
		case <-ctx.Done():
			return away(ctx, s.own.link.why())
		case <-s.over:
			return s.reason()
		}
	}
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return away(ctx, errBusy)
	case <-s.over:
		return s.reason()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// leave gives back what enter took.
func (s *session) leave(slots chan struct{}) {
	<-slots
	s.running.Done()
}

// run runs a request in the place that enter took.
func (s *session) run(slots chan struct{}, request func()) {
	answered := s.impatience()
	go func() {
		defer s.leave(slots)
		defer answered()
		request()
	}()
}

// impatience gives a connection up on which a request stays unanswered for a quarter
// of the TTL. The Conn notices silence after two thirds, and a server that still answers pings but
// nothing else, because it lost its leader, it never notices. A quarter leaves time to
// find another server before the session's user has to take it for lost.
//
// Nothing is given up too early by it: the request may be applied either way, and its
// caller is told so.
func (s *session) impatience() (answered func()) {
	// If the socket is replaced meanwhile it is closed already, and closing it again is nothing.
	t := time.AfterFunc(s.patience(), s.own.link.current().drop)
	return func() { t.Stop() }
}

func (s *session) patience() time.Duration { return max(s.ttl/4, 200*time.Millisecond) }
