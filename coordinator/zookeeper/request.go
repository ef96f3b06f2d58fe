package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// The Conn knows no contexts: a request blocks until its reply comes or its
// connection is lost. So each request runs in a goroutine of its own, and the
// caller waits for the reply, its context, or the end of the session, whichever
// comes first. A reply that comes later is dropped; the goroutine ends with it.

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

// enter waits until a request can be sent and takes a place for it, which run
// gives back, or leave. Requests are not handed to a Conn that is not
// connected: it has room for 16 and then blocks its callers without end.
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

// toSend waits for a connection and a place. (Nearly always both are there, and
// to ask for one thing costs much less than to wait for one of three.)
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

// impatience gives a connection up on which a request stays unanswered for a
// quarter of the TTL. The Conn notices silence after two thirds, and a server
// that still answers pings but nothing else, because it lost its leader, it
// never notices. A quarter leaves time to find another server before the
// session's user has to take it for lost.
//
// Nothing is given up too early by it: the request may be applied either way,
// and its caller is told so.
func (s *session) impatience() (answered func()) {
	// If the socket is replaced meanwhile it is closed already, and closing it
	// again is nothing.
	t := time.AfterFunc(s.patience(), s.own.link.current().drop)
	return func() { t.Stop() }
}

func (s *session) patience() time.Duration { return max(s.ttl/4, 200*time.Millisecond) }

// joins are the joins and conversions of a session that may still be applied,
// by contender: the latest of each, which knows the others.
type joins struct {
	mu sync.Mutex
	m  map[string]*flight
}

// flight is one call of Join or Convert, together with the requests that it
// sent and did not wait for. Requests that belong to none have nil.
type flight struct {
	among  *joins
	queue  driver.Queue
	id     string        // the contender's
	before *flight       // one of the same contender
	parts  int           // the call and its requests
	landed chan struct{} // closed when there are none left; made for those who wait
}

func newJoins() *joins { return &joins{m: make(map[string]*flight)} }

// begin starts a flight, and returns those of the same contender that began
// before.
func (j *joins) begin(queue driver.Queue, id string) (f *flight, earlier []*flight) {
	j.mu.Lock()
	defer j.mu.Unlock()
	earlier = j.awaited(id)
	f = &flight{among: j, queue: queue, id: id, before: j.m[id], parts: 1}
	j.m[id] = f
	return f, earlier
}

// extend adds a request to a flight.
func (f *flight) extend() {
	if f == nil {
		return
	}
	f.among.mu.Lock()
	defer f.among.mu.Unlock()
	f.parts++
}

// end ends the call or a request.
func (f *flight) end() {
	if f == nil {
		return
	}
	j := f.among
	j.mu.Lock()
	defer j.mu.Unlock()
	if f.parts--; f.parts > 0 {
		return
	}
	if f.landed != nil {
		close(f.landed)
	}
	if latest := j.m[f.id]; latest != f {
		latest.without(f)
	} else if j.m[f.id] = f.before; f.before == nil {
		delete(j.m, f.id)
	}
}

// without takes a flight out of those before this one.
func (f *flight) without(other *flight) {
	for f.before != other {
		f = f.before
	}
	f.before = other.before
}

// flights returns what is under way for a contender.
func (j *joins) flights(id string) []*flight {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.awaited(id)
}

// awaited returns what is under way for a contender to somebody who waits for
// it. It is called with the mutex held.
func (j *joins) awaited(id string) (all []*flight) {
	for f := j.m[id]; f != nil; f = f.before {
		if f.landed == nil {
			f.landed = make(chan struct{})
		}
		all = append(all, f)
	}
	return all
}

// outcome is what the reply to a transaction says.
type outcome struct {
	failed int       // which request has failed, counted from 1; 0 if the reply does not say
	made   [2]string // the first nodes that were made
	stat   zk.Stat   // of the last node that was written to
}

var errTransaction = errors.New("zookeeper: unexpected reply to a transaction")

// multi sends a transaction, as a part of a flight: Forget waits until it has
// landed, whether or not its caller still does. So the requests may outlive
// the call, and must not share memory with its arguments.
func (s *session) multi(ctx context.Context, f *flight, requests []any) (outcome, error) {
	f.extend()
	r, err := start(ctx, s, s.slots, func() ([]zk.MultiResponse, error) {
		defer f.end()
		return s.conn.Multi(requests...)
	})
	if err != nil {
		f.end()
		return outcome{}, err
	}
	results, err := await(ctx, s, r)
	if err == nil && len(results) != len(requests) {
		return outcome{}, driver.Wrap(driver.ErrUnavailable, errTransaction)
	}
	return outcomeOf(results), err
}

// outcomeOf reads the reply. The requests before one that has failed have no
// error, since they would have succeeded; those after it have one that says
// that they were not tried.
func outcomeOf(results []zk.MultiResponse) (o outcome) {
	made := o.made[:0]
	for i, r := range results {
		if r.Error != nil && o.failed == 0 {
			o.failed = i + 1
		}
		if r.Stat != nil {
			o.stat = *r.Stat
		}
		if r.String != "" && len(made) < len(o.made) {
			made = append(made, r.String)
		}
	}
	copy(o.made[:], made)
	return o
}

// creating is the request to make a node with a copy of the value.
func (s *session) creating(node string, value []byte, flags int32) *zk.CreateRequest {
	return &zk.CreateRequest{Path: node, Data: append([]byte(nil), value...), Acl: s.acl, Flags: flags}
}

func deleting(node string) *zk.DeleteRequest { return &zk.DeleteRequest{Path: node, Version: -1} }

// remove deletes a node.
func (s *session) remove(ctx context.Context, node string) error {
	_, err := call(ctx, s, func() (struct{}, error) { return struct{}{}, s.conn.Delete(node, -1) })
	return err
}

// Why a session of this process is over. They come with driver.ErrSessionLost.
var (
	errClosed  = errors.New("zookeeper: session was closed")
	errExpired = errors.New("zookeeper: session expired")
	errMoved   = errors.New("zookeeper: the connection has gone on with another session")
)

var errNotMine = errors.New("zookeeper: the entry belongs to another session")

// Error codes of the service that the client library has no name for. It
// reports them as text only.
const (
	codeUnimplemented    = -6
	codeEphemeralOnLocal = -120
	codeNeedsSASL        = -124
	codeQuota            = -125
)

// translate gives an error of the client library its kind. It is the one place
// that does. Callers look for the cause (zk.ErrNoNode, say) where it means
// something else to them.
func translate(err error) error {
	if err == nil {
		return nil
	}
	var known *driver.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, zk.ErrSessionExpired):
		return driver.Wrap(driver.ErrSessionLost, err)
	case errors.Is(err, zk.ErrNoNode):
		return driver.Wrap(driver.ErrGone, err)
	case errors.Is(err, zk.ErrBadVersion):
		return driver.Wrap(driver.ErrStale, err)
	case errors.Is(err, zk.ErrInvalidPath), errors.Is(err, zk.ErrShortBuffer):
		return driver.Wrap(driver.ErrInvalid, err) // found before anything was sent
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrInvalidACL),
		errors.Is(err, zk.ErrNoChildrenForEphemerals), errors.Is(err, zk.ErrBadArguments):
		return driver.Wrap(driver.ErrRefused, err)
	}
	switch code(err) {
	case codeUnimplemented, codeEphemeralOnLocal, codeNeedsSASL, codeQuota:
		return driver.Wrap(driver.ErrRefused, err)
	}
	// The rest says nothing about the outcome: ErrConnectionClosed,
	// ErrNoServer, ErrClosing, throttling (-127), a server in read-only mode
	// (-119). ErrSessionMoved belongs here too: the session lives, another
	// connection has it.
	return driver.Wrap(driver.ErrUnavailable, err)
}

// code is the service's error code where the library knows no better than
// "unknown error: -125"; else 0.
func code(err error) int {
	if err == nil {
		return 0
	}
	_, number, ok := strings.Cut(err.Error(), "unknown error: ")
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(number)
	return n
}

// away is the error of a call whose context ended before anything could be
// sent. It is both ErrUnavailable and the context's error: the caller was kept
// waiting by the service.
func away(ctx context.Context, why error) error {
	cause := context.Cause(ctx)
	if why != nil {
		cause = fmt.Errorf("%w (last attempt: %w)", cause, why)
	}
	return driver.Wrap(driver.ErrUnavailable, cause)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}
