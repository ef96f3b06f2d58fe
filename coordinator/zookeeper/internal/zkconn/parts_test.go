package zkconn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// TestEventsEndTheWatchesOfTheirKind also makes sure that the notices of a lost connection are such events.
func TestEventsEndTheWatchesOfTheirKind(t *testing.T) {
	for event, want := range map[zk.EventType][]Kind{
		zk.EventNodeCreated:         {Exists},
		zk.EventNodeDataChanged:     {Data, Exists},
		zk.EventNodeChildrenChanged: {Children},
		zk.EventNodeDeleted:         {Children, Data, Exists},
		zk.EventSession:             nil,
	} {
		w := watches{m: make(map[watchKey]*Watch)}
		for _, node := range []string{"/a", "/b"} {
			for kind := Children; kind <= Exists; kind++ {
				w.add(Target{Kind: kind, Node: node, As: fmt.Sprint(node, kind)})
			}
		}
		all := len(w.m)
		w.fire(zk.Event{Type: event, Path: "/a"})
		for kind := Children; kind <= Exists; kind++ {
			if stands := w.find(Target{Kind: kind, As: fmt.Sprint("/a", kind)}) != nil; stands == slices.Contains(want, kind) {
				t.Errorf("after %v a watch of kind %v stands: %v", event, kind, stands)
			}
		}
		if len(w.m) != all-2*len(want) {
			t.Errorf("after %v there are %d watches of %d", event, len(w.m), all)
		}
		for _, n := range w.notices() {
			w.fire(zk.Event{Type: n.kind, Path: n.path})
		}
		if len(w.m) != 0 {
			t.Errorf("the notices leave %d watches", len(w.m))
		}
	}
}

// TestFiredWatchTellsAllWhoWait: each waiter gets the event, one that comes late as well.
func TestFiredWatchTellsAllWhoWait(t *testing.T) {
	w := watches{m: make(map[watchKey]*Watch)}
	added, _ := w.add(Target{Kind: Data, Node: "/a"})
	if _, ok := w.add(Target{Kind: Data, Node: "/a", As: "shared"}); ok {
		t.Error("a watch is set twice")
	}
	w.fire(zk.Event{Type: zk.EventNodeDeleted, Path: "/a"})
	<-added.fired
	if added.event.Type != zk.EventNodeDeleted {
		t.Errorf("the event is %+v", added.event)
	}
}

// TestLostConnectionMakesEveryWatchFire: the notices must come after what was read, whole, and
// before the error.
func TestLostConnectionMakesEveryWatchFire(t *testing.T) {
	server, client := net.Pipe()
	notices := []notice{{"/a", zk.EventNodeDataChanged}, {"/b/c", zk.EventNodeChildrenChanged}}
	l := newLink(nil, nil, time.Second, func(bool) []notice { return notices })
	s := newSocket(client, l, time.Now().Add(time.Second))
	s.greeted = true
	go func() {
		_, _ = server.Write([]byte{0, 0, 0, 3, 'x', 'y', 'z'}) // a message
		_, _ = server.Write([]byte{0, 0, 0, 9, 'l', 'o'})      // half of one
		_ = server.Close()
	}()
	all, err := io.ReadAll(s)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("after the notices: %v; want the connection's error", err)
	}
	want := notices[1].append(notices[0].append([]byte{0, 0, 0, 3, 'x', 'y', 'z'}, zk.StateDisconnected), zk.StateDisconnected)
	if !bytes.Equal(all, want) {
		t.Errorf("the Conn reads %q; want %q", all, want)
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
