package zookeeper

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// A lane is a second way to the service over a socket, past the Conn, for what an uncontended lock asks. There the caller
// itself encodes and writes its request, and whoever reads the socket decodes the reply and wakes it. The Conn takes each request
// through three goroutines, and encodes and decodes by reflection.
//
// The Conn does not know of these requests. So they have numbers that it does not use, their replies are taken out of what it
// reads, and the newest transaction that they have shown is written into its next connect request: see socket.
//
// What the lane does not take goes by the Conn: see send.
type lane struct {
	mu         sync.Mutex
	open       bool
	waiting    map[uint32]letter // by number
	unanswered int               // their bytes
	watched    bool              // watch is to be called
	writing    bool              // somebody writes, and will write what is in unsent too
	unsent     []byte
}

// letter is a request without a reply.
type letter struct {
	size int
	by   time.Time // when the connection is given up: see impatience
	to   addressee
}

// addressee is who sent a letter. land is called once, with the reply or when the connection is lost; it must not wait.
type addressee interface {
	land(reply []byte, err error)
}

const (
	// laneXid begins the numbers of the lane's requests, which go on over reconnects: a server that a session has moved to tells by
	// session and number alone which of its requests the leader has decided, and the one before it may still come. The Conn
	// counts its own from 1, and there is no lane any more should it ever come so far. The last number is closeXid.
	laneXid = 0x60000000
	laneIDs = closeXid - laneXid

	// laneMost is how many bytes may be unanswered: so many that they fit into the buffers of a connection whose peer reads
	// nothing. The caller writes them itself and must not be kept.
	laneMost = 32 << 10
)

// send sends a request that begins with 8 bytes for its length and number. If it returns false, nothing was sent: the connection
// is not there, or too much is unanswered.
func (s *socket) send(request []byte, patience time.Duration, to addressee) bool {
	l := &s.lane
	l.mu.Lock()
	if !l.open || l.unanswered+len(request) > laneMost {
		l.mu.Unlock()
		return false
	}
	xid := laneXid + s.link.letters.Add(1)%laneIDs
	l.waiting[xid] = letter{len(request), time.Now().Add(patience), to}
	l.unanswered += len(request)
	if !l.watched {
		l.watched = true
		time.AfterFunc(patience, s.watch)
	}
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	binary.BigEndian.PutUint32(request[4:], xid)
	if l.writing {
		l.unsent = append(l.unsent, request...)
		l.mu.Unlock()
		return true
	}
	l.writing = true
	others := len(l.waiting) > 1
	l.mu.Unlock()
	if others {
		// Replies come together, and so do the next requests of those whom they wake. To write them all costs as much as to write one.
		runtime.Gosched()
	}
	s.write(request)
	return true
}

// write writes letters, with what is unsent, and then what came meanwhile.
func (s *socket) write(letters []byte) {
	l := &s.lane
	for {
		l.mu.Lock()
		letters = append(letters, l.unsent...)
		l.unsent = l.unsent[:0]
		if l.writing = len(letters) > 0; !l.writing {
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		if _, err := s.Conn.Write(letters); err != nil {
			s.drop()
		}
		letters = letters[:0]
	}
}

// watch gives the connection up if a request has waited for too long. It is called once in so long while there are any, since
// a timer for each would cost more than the request.
func (s *socket) watch() {
	l := &s.lane
	l.mu.Lock()
	var first time.Time
	for _, w := range l.waiting {
		if first.IsZero() || w.by.Before(first) {
			first = w.by
		}
	}
	left := time.Until(first)
	if l.watched = len(l.waiting) > 0 && left > 0; l.watched {
		time.AfterFunc(left, s.watch)
	}
	late := len(l.waiting) > 0 && left <= 0
	l.mu.Unlock()
	if late {
		s.drop() // if it was replaced meanwhile it is closed already, and closing it again is nothing
	}
}

// take takes a message that is the reply to a request of the lane.
func (s *socket) take(message []byte) bool {
	if len(message) < replyHeader {
		return false
	}
	l := &s.lane
	xid := binary.BigEndian.Uint32(message[4:])
	l.mu.Lock()
	w, ok := l.waiting[xid]
	if ok {
		delete(l.waiting, xid)
		l.unanswered -= w.size
	}
	l.mu.Unlock()
	if !ok {
		return false
	}
	s.link.saw(int64(binary.BigEndian.Uint64(message[8:])))
	w.to.land(message[replyHeader:], codeError(int32(binary.BigEndian.Uint32(message[16:]))))
	return true
}

// replyHeader is the length of a reply without its body: length, number, transaction and code.
const replyHeader = 4 + 4 + 8 + 4

// openLane lets requests pass.
func (s *socket) openLane() {
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	s.lane.open, s.lane.waiting = !s.link.crowded.Load(), make(map[uint32]letter)
}

// closeLane lets no more requests pass, and with lost says of those that had no reply that the connection is.
func (s *socket) closeLane(lost bool) {
	l := &s.lane
	l.mu.Lock()
	l.open = false
	var waiting map[uint32]letter
	if lost {
		waiting, l.waiting, l.unanswered = l.waiting, nil, 0
	}
	l.mu.Unlock()
	for _, w := range waiting {
		w.to.land(nil, zk.ErrConnectionClosed)
	}
}

// errand is a request that goes by the lane, as a part of a flight.
type errand[T any] struct {
	reply[T]
	session *session
	flight  *flight
	read    func(reply []byte, err error) (T, error)
}

func (e *errand[T]) land(reply []byte, err error) {
	value, err := e.read(reply, err)
	err = e.session.judge(err)
	e.flight.end()
	e.set(value, err)
	e.session.leave(e.session.slots)
}

// express sends a request by the lane, and waits for its reply as call does. If it is not sent, nothing was done: the Conn has to
// send it. read gets the reply; it must not wait.
//
// A session with credentials has no lane: the Conn repeats them on each new connection, and what comes before is refused.
func express[T any](
	ctx context.Context, s *session, f *flight, request []byte, read func(reply []byte, err error) (T, error),
) (value T, sent bool, err error) {
	if s.own.credentials {
		return value, false, nil
	}
	if err := s.enter(ctx, s.slots); err != nil {
		return value, true, err
	}
	f.extend()
	e := &errand[T]{reply[T]{come: make(chan struct{})}, s, f, read}
	if !s.own.link.current().send(request, s.patience(), e) {
		f.end()
		s.leave(s.slots)
		return value, false, nil
	}
	value, err = await(ctx, s, &e.reply)
	return value, true, err
}

// multi sends a transaction, as a part of a flight: Forget waits until it has landed, whether or not its caller still does.
func (s *session) multi(ctx context.Context, f *flight, ops []operation) (outcome, error) {
	o, sent, err := express(ctx, s, f, appendMulti(make([]byte, 8, 512), ops, s.acl), readMulti)
	if !sent {
		o, err = s.multiByConn(ctx, f, ops)
	}
	if err == nil && o.count != len(ops) {
		return o, driver.Wrap(driver.ErrUnavailable, errRecord)
	}
	return o, err
}

// multiByConn is multi past the lane.
func (s *session) multiByConn(ctx context.Context, f *flight, ops []operation) (outcome, error) {
	f.extend()
	requests := requestsOf(ops, s.acl)
	r, err := start(ctx, s, s.slots, func() (outcome, error) {
		defer f.end()
		results, err := s.conn.Multi(requests...)
		return outcomeOf(results), err
	})
	if err != nil {
		f.end()
		return outcome{}, err
	}
	return await(ctx, s, r)
}

// remove deletes a node.
func (s *session) remove(ctx context.Context, node string) error {
	request := appendVersion(newRequest(opDelete, len(node)), node, -1)
	if _, sent, err := express(ctx, s, nil, request, readNothing); sent {
		return err
	}
	_, err := call(ctx, s, func() (struct{}, error) { return struct{}{}, s.conn.Delete(node, -1) })
	return err
}
