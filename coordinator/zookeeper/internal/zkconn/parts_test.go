package zkconn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

// TestEventsEndTheWatchesOfTheirKind: the key of First is the parent, but only
// events of the child fire it.
func TestEventsEndTheWatchesOfTheirKind(t *testing.T) {
	for event, want := range map[zk.EventType][]Kind{
		zk.EventNodeCreated:         {Exists},
		zk.EventNodeDataChanged:     {Data, First, Exists},
		zk.EventNodeChildrenChanged: {Children},
		zk.EventNodeDeleted:         {Children, Data, First, Exists},
		zk.EventSession:             nil,
	} {
		w := watches{m: make(map[Target]*Watch)}
		for _, node := range []string{"/a/b", "/c/d"} {
			for kind := Children; kind <= Exists; kind++ {
				w.add(Target{kind, node})
			}
		}
		all := len(w.m)
		w.fire(zk.Event{Type: event, Path: "/a/b"})
		w.fire(zk.Event{Type: event, Path: "/c/other"})
		for kind := Children; kind <= Exists; kind++ {
			on := Target{kind, "/a/b"}
			if kind == First {
				on.Node = "/a/"
			}
			if active := w.find(on) != nil; active == slices.Contains(want, kind) {
				t.Errorf("after %v a watch of kind %v is active: %v", event, kind, active)
			}
		}
		if len(w.m) != all-len(want) {
			t.Errorf("after %v there are %d watches of %d", event, len(w.m), all)
		}
	}
}

// TestEventOfAnEarlierWatchShowsNothing: until a watch is set, an event for its
// node can only be of an earlier one. As an event of the watch, a change of a
// successor node would admit its follower.
func TestEventOfAnEarlierWatchShowsNothing(t *testing.T) {
	w := watches{m: make(map[Target]*Watch)}
	for _, kind := range []zk.EventType{zk.EventNodeDataChanged, zk.EventNodeDeleted} {
		added, _ := w.add(Target{Data, "/a"})
		w.fire(zk.Event{Type: kind, Path: "/a"})
		<-added.fired
		if added.event != (zk.Event{}) {
			t.Errorf("the event is %+v", added.event)
		}
	}
}

// TestFiredWatchNotifiesAllWaiters, also a late one.
func TestFiredWatchNotifiesAllWaiters(t *testing.T) {
	w := watches{m: make(map[Target]*Watch)}
	added, _ := w.add(Target{Data, "/a"})
	if _, ok := w.add(Target{Data, "/a"}); ok {
		t.Error("a watch is set twice")
	}
	close(added.ready)
	w.fire(zk.Event{Type: zk.EventNodeDeleted, Path: "/a"})
	<-added.fired
	if added.event.Type != zk.EventNodeDeleted {
		t.Errorf("the event is %+v", added.event)
	}
}

// TestLostConnectionMakesEveryWatchFire: the client reads the notices after the
// last whole message, and before the error.
func TestLostConnectionMakesEveryWatchFire(t *testing.T) {
	for kind := Children; kind <= Exists; kind++ {
		server, client := net.Pipe()
		session := newConn(&Config{}, time.Second)
		provider{session}.Connected()
		w, _ := session.watches.add(Target{kind, "/b/c"})
		s := newSocket(client, session)
		s.handshakeDone = true
		message := append([]byte{0, 0, 0, 19}, make([]byte, 19)...)
		go func() {
			_, _ = server.Write(message)
			_, _ = server.Write([]byte{0, 0, 0, 9, 'l', 'o'}) // half of one
			_ = server.Close()
		}()
		all, err := io.ReadAll(s)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after the notices: %v; want the connection's error", err)
		}
		event := zk.EventNodeDataChanged
		if kind == Children {
			event = zk.EventNodeChildrenChanged
		}
		if want := appendNotice(message, "/b/c", event); !bytes.Equal(all, want) {
			t.Errorf("the client reads %q; want %q", all, want)
		}
		select {
		case <-w.fired:
		default:
			t.Errorf("a watch of kind %v has not fired", kind)
		}
		if _, ok := session.watches.add(Target{kind, "/b/c"}); !ok || !kind.firedBy(event) {
			t.Errorf("a watch of kind %v is active", kind)
		}
	}
}

// TestMessageWithoutAHeaderEndsTheConnection: the client would panic.
func TestMessageWithoutAHeaderEndsTheConnection(t *testing.T) {
	for n := range byte(replyHeader) {
		server, client := net.Pipe()
		s := newSocket(client, newConn(&Config{}, time.Second))
		s.handshakeDone = true
		go func() {
			_, _ = server.Write(append([]byte{0, 0, 0, n}, make([]byte, n)...))
			_ = server.Close()
		}()
		if all, err := io.ReadAll(s); len(all) > 0 || err == nil || !strings.Contains(err.Error(), "without a header") {
			t.Errorf("after a message of %d bytes the client reads %q, %v", n, all, err)
		}
	}
}

func TestMalformedHandshakesAreErrors(t *testing.T) {
	good := hello{timeout: time.Second, session: 5, passwd: make([]byte, 16)}
	b := good.appendConnect(nil)
	answer := append(b[:8:8], b[16:]...)
	if h, err := parseHello(answer); err != nil || h.session != 5 || h.timeout != time.Second || len(h.passwd) != 16 {
		t.Errorf("parseHello = %+v, %v", h, err)
	}
	for n := range answer {
		if _, err := parseHello(answer[:n]); err == nil {
			t.Errorf("the first %d bytes are no error", n)
		}
	}
	for _, length := range []uint32{17, 1 << 31, 1<<32 - 1} {
		bad := append([]byte(nil), answer...)
		binary.BigEndian.PutUint32(bad[20:], length)
		if _, err := parseHello(bad); err == nil {
			t.Errorf("a password of %d bytes is no error", length)
		}
	}
}

// TestWatchThatFiredWhileItWasSetIsNotUsedAgain: it would never fire.
func TestWatchThatFiredWhileItWasSetIsNotUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(&Config{}, time.Second)
		target := Target{Data, "/a"}
		w, _ := c.watches.add(target)
		found := make(chan *Watch)
		go func() {
			w, _ := c.ActiveWatch(t.Context(), target)
			found <- w
		}()
		synctest.Wait()
		c.watches.fire(zk.Event{Type: zk.EventNodeDataChanged, Path: "/a"})
		close(w.ready)
		if again := <-found; again != nil {
			t.Errorf("found %+v", again)
		}
	})
}
