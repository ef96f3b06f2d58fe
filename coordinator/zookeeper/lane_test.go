package zookeeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// laned returns a socket whose lane is open, and the server's end of it.
func laned(t *testing.T) (server net.Conn, s *socket) {
	t.Helper()
	server, client := net.Pipe()
	l := newLink(nil, nil, time.Second, func() []notice { return nil })
	s = newSocket(client, l, time.Now().Add(time.Second))
	s.greeted, s.asked = true, true
	s.openLane()
	t.Cleanup(func() {
		_ = s.Close()
		_ = server.Close()
	})
	return server, s
}

// request is one of n bytes.
func request(n int) []byte { return make([]byte, n) }

// telling is an addressee who tells with what error a reply has come.
type telling chan error

func (t telling) land(_ []byte, err error) { t <- err }

// nobody is an addressee who does not care.
type nobody struct{}

func (nobody) land([]byte, error) {}

// replyTo is a reply without a body.
func replyTo(xid uint32, zxid int64, code int32) []byte {
	b := binary.BigEndian.AppendUint32(appendInt(nil, 16), xid)
	return appendInt(binary.BigEndian.AppendUint64(b, uint64(zxid)), code)
}

// TestLaneTakesItsRepliesOutOfWhatTheConnReads: and nothing else.
func TestLaneTakesItsRepliesOutOfWhatTheConnReads(t *testing.T) {
	server, s := laned(t)
	landed := make(chan error, 2)
	var xids []uint32
	go func() {
		for range 2 {
			if !s.send(request(20), time.Minute, telling(landed)) {
				t.Error("not sent")
			}
		}
	}()
	for range 2 {
		m := make([]byte, 20)
		if _, err := io.ReadFull(server, m); err != nil || binary.BigEndian.Uint32(m) != 16 {
			t.Fatalf("%x, %v", m, err)
		}
		xids = append(xids, binary.BigEndian.Uint32(m[4:]))
	}
	if xids[0] == xids[1] || xids[0] < laneXid || xids[1] < laneXid {
		t.Errorf("numbers %x", xids)
	}
	own := replyTo(5, 7, 0)
	go func() {
		_, _ = server.Write(replyTo(xids[1], 9, -101))
		_, _ = server.Write(own)
		_, _ = server.Write(replyTo(xids[0], 8, 0))
		_, _ = server.Write(replyTo(xids[0], 8, 0)) // of no request any more
		_ = server.Close()
	}()
	all, _ := io.ReadAll(s)
	if want := append(own, replyTo(xids[0], 8, 0)...); !bytes.Equal(all, want) {
		t.Errorf("the Conn reads %x; want %x", all, want)
	}
	if first, second := <-landed, <-landed; !errors.Is(first, zk.ErrNoNode) || second != nil {
		t.Errorf("landed with %v and %v", first, second)
	}
	if s.link.newest.Load() != 9 {
		t.Errorf("newest transaction %d", s.link.newest.Load())
	}
}

// TestLettersThatComeWhileOneIsWrittenAreWrittenTogether: and those who send them do not wait.
func TestLettersThatComeWhileOneIsWrittenAreWrittenTogether(t *testing.T) {
	server, s := laned(t)
	send := func() {
		if !s.send(request(20), time.Minute, nobody{}) {
			t.Error("not sent")
		}
	}
	writing := func() bool {
		s.lane.mu.Lock()
		defer s.lane.mu.Unlock()
		return s.lane.writing
	}
	_ = server.SetReadDeadline(time.Now().Add(10 * time.Second))
	for range 3 { // what was written once is not written again
		go send() // which the server reads below
		for !writing() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Millisecond) // else the other two may go along with the first
		send()
		send()
		var xids []uint32
		m := make([]byte, 100)
		for len(xids) < 3 {
			n, err := server.Read(m) // of a pipe it is what one Write has written, at most
			if err != nil || n%20 != 0 || len(xids) == 0 && n < 20 {
				t.Fatalf("%d bytes, %v", n, err)
			}
			if len(xids) == 1 && n != 40 {
				t.Errorf("%d bytes in the second write; want those of two requests", n)
			}
			for ; n > 0; n -= 20 {
				xids = append(xids, binary.BigEndian.Uint32(m[n-16:]))
			}
		}
		if slices.Sort(xids); len(slices.Compact(xids)) != 3 {
			t.Errorf("numbers %x; want three", xids)
		}
		for writing() {
			time.Sleep(time.Millisecond)
		}
	}
}

func TestLaneIsNotForTooMuchAtOnce(t *testing.T) {
	server, s := laned(t)
	go func() { _, _ = io.Copy(io.Discard, server) }()
	send := func(n int) bool { return s.send(request(n), time.Minute, nobody{}) }
	if send(laneMost+1) || !send(laneMost) || send(20) {
		t.Errorf("sends what does not fit, or not what does")
	}
	xid := uint32(laneXid + 1)
	if !s.take(replyTo(xid, 1, 0)) || !send(20) {
		t.Error("sends nothing after the answer")
	}
}

// TestLostConnectionLandsWhatIsInTheLane: once, and nothing can be sent after that.
func TestLostConnectionLandsWhatIsInTheLane(t *testing.T) {
	for name, lose := range map[string]func(server net.Conn, s *socket){
		"by the server": func(server net.Conn, s *socket) {
			_ = server.Close()
			_, _ = io.ReadAll(s)
			s.drop()
		},
		"by the Conn": func(_ net.Conn, s *socket) { _ = s.Close() },
	} {
		server, s := laned(t)
		go func() { _, _ = io.Copy(io.Discard, server) }()
		landed := make(chan error, 2)
		s.send(request(20), time.Minute, telling(landed))
		lose(server, s)
		if err := <-landed; !errors.Is(err, zk.ErrConnectionClosed) || len(landed) > 0 {
			t.Errorf("%s: landed with %v", name, err)
		}
		if s.send(request(20), time.Minute, nobody{}) {
			t.Errorf("%s: sent on a lost connection", name)
		}
	}
}

// TestLaneIsClosedWhenTheConnComesToItsNumbers: what is under way is answered still.
func TestLaneIsClosedWhenTheConnComesToItsNumbers(t *testing.T) {
	server, s := laned(t)
	go func() { _, _ = io.Copy(io.Discard, server) }()
	landed := make(chan error, 1)
	s.send(request(20), time.Minute, telling(landed))
	for _, xid := range []uint32{1, laneXid - 1, 1<<32 - 2} {
		_, _ = s.Write(replyTo(xid, 0, 0))
		if !s.lane.open {
			t.Errorf("closed by %x", xid)
		}
	}
	_, _ = s.Write(replyTo(laneXid, 0, 0))
	if s.send(request(20), time.Minute, nobody{}) {
		t.Error("not closed")
	}
	if !s.take(replyTo(laneXid+1, 1, 0)) || <-landed != nil {
		t.Error("the reply is not taken")
	}
}

// TestConnectRequestNamesWhatTheLaneHasSeen: else a server that has not seen it could take the session.
func TestConnectRequestNamesWhatTheLaneHasSeen(t *testing.T) {
	f, _, s := openTree(t)
	l := s.own.link
	l.saw(50)
	l.saw(20)
	f.cut()
	eventually(t, "the connection is back", func() bool { return s.presence.number() == 2 && s.presence.now() })
	f.set(func() {
		if len(f.seen) != 2 || f.seen[0] != 0 || f.seen[1] != 50 {
			t.Errorf("the connect requests name transactions %d", f.seen)
		}
	})
	b := hello{session: 1}.appendConnect(nil)
	if got := l.seenIn(b); int64(binary.BigEndian.Uint64(got[8:])) != 50 || binary.BigEndian.Uint64(b[8:]) != 0 {
		t.Errorf("%x of %x", got, b)
	}
	binary.BigEndian.PutUint64(b[8:], 60)
	if got := l.seenIn(b); int64(binary.BigEndian.Uint64(got[8:])) != 60 {
		t.Errorf("%x of %x", got, b)
	}
}

// TestSilentServerIsLeftForARequestInTheLane: as for one that the Conn has sent.
func TestSilentServerIsLeftForARequestInTheLane(t *testing.T) {
	f, tr, s := openTree(t)
	pairs(t, s, 1)
	var lost atomic.Bool
	tr.on(func(op int32, _ string) treeFate {
		return treeFate{lost: op == opMulti && lost.CompareAndSwap(false, true)}
	})
	_, err := s.Join(soon(t, time.Minute), "m/a", driver.Contender{ID: testID, Mode: "x"})
	if !errors.Is(err, driver.ErrUnavailable) || !lost.Load() {
		t.Fatalf("got %v", err)
	}
	eventually(t, "another connection", func() bool { return len(f.greeted()) == 2 })
}

// TestSessionWithCredentialsHasNoLane: on a new connection its requests must come after them.
func TestSessionWithCredentialsHasNoLane(t *testing.T) {
	f := newFake(t)
	plant(f)
	d, err := Open(parse(t, "zk://user:password@"+f.listener.Addr().String()+"/app"))
	if err != nil {
		t.Fatal(err)
	}
	opened, err := d.Open(soon(t, 5*time.Second), testTTL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close(soon(t, time.Millisecond)) })
	s := opened.(*session)
	pairs(t, s, 4)
	if s.own.link.newest.Load() != 0 {
		t.Error("a request went by the lane")
	}
}

// TestLaneNumbersGoOnOverConnections: a server that a session has moved to tells its requests apart by their numbers, and may still hear
// of one that was sent to the server before.
func TestLaneNumbersGoOnOverConnections(t *testing.T) {
	server, first := laned(t)
	go func() { _, _ = io.Copy(io.Discard, server) }()
	other, second := laned(t)
	go func() { _, _ = io.Copy(io.Discard, other) }()
	second.link = first.link
	seen := make(map[uint32]bool)
	for range 10 {
		for _, s := range []*socket{first, second} {
			if !s.send(request(20), time.Minute, nobody{}) {
				t.Fatal("not sent")
			}
			for xid := range s.lane.waiting {
				seen[xid] = true
			}
		}
	}
	if len(seen) != 20 {
		t.Errorf("%d numbers for 20 requests", len(seen))
	}
	if seen[closeXid] {
		t.Error("a request has the number of the closing one")
	}
	first.link.crowded.Store(true)
	if second.openLane(); second.send(request(20), time.Minute, nobody{}) {
		t.Error("a lane after the Conn has come to its numbers")
	}
}

// TestReplyAboutAnotherNodeIsNoJoin: what it says of who is first is of another line, or of another contender.
func TestReplyAboutAnotherNodeIsNoJoin(t *testing.T) {
	f, l := newFake(t), &oneLine{}
	f.reply = l.reply
	s := openFake(t, f, testTTL)
	join := func(line driver.Line, id string) error {
		_, err := s.Join(soon(t, time.Second), line, driver.Contender{ID: id, Mode: "x"})
		return err
	}
	l.set(func() { l.session = s.ID() })
	if err := join("m/a", testID); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		line driver.Line
		id   string
	}{{"m/b", testID}, {"m/a", strings.Repeat("f", 32)}} {
		if err := join(x.line, x.id); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%v: %v", x, err)
		}
	}
	l.set(func() { l.session = "7" })
	if err := join("m/a", testID); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("of another session: %v", err)
	}
}

// pairs joins and leaves the line "m/a" n times.
func pairs(t *testing.T, s *session, n int) {
	t.Helper()
	for range n {
		j := testFollow(t, s, 1)
		if !j.First {
			t.Fatalf("not first in an empty line: %+v", j)
		}
		ok(t, s.Leave(soon(t, time.Second), "m/a", j.Place))
	}
}
