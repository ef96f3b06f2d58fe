package zkconn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

func TestSweepKeepsWatchesThatMayFire(t *testing.T) {
	w := newWatches()
	for i := range 10 * minSweep {
		added, mine := w.add(Target{Kind: Children, Node: fmt.Sprint("/", i)})
		if !mine {
			t.Fatal("a new path has a watch")
		}
		fired := make(chan zk.Event, 1)
		added.fired = fired
		switch {
		case i == 0: // being set
		case i == 1: // set
			close(added.ready)
		case i%2 == 0: // fired, and nobody waited
			fired <- zk.Event{Type: zk.EventNodeDeleted}
			close(fired)
			close(added.ready)
		default: // could not be set
			added.err = driver.ErrUnavailable
			close(added.ready)
		}
	}
	if w.find(watchKey{Children, "/0"}) == nil || w.find(watchKey{Children, "/1"}) == nil {
		t.Error("a live watch was thrown out")
	}
	if n := len(w.m); n > 2*minSweep {
		t.Errorf("%d watches are kept; 2 are alive", n)
	}
	if _, mine := w.add(Target{Kind: Children, Node: "/1"}); mine {
		t.Error("a watch is set twice")
	}
	if notices := w.lapse(); len(notices) < 2 || len(w.m) != 1 || w.find(watchKey{Children, "/0"}) == nil {
		t.Errorf("lapse returned %d notices and kept %d; want all, and the one that is being set", len(notices), len(w.m))
	}
}

// TestLapseMakesEveryKindOfWatchFire: the Conn fires a watch only for a notice of its kind.
func TestLapseMakesEveryKindOfWatchFire(t *testing.T) {
	w := newWatches()
	want := map[notice]bool{}
	for kind, event := range map[Kind]zk.EventType{
		Children: zk.EventNodeChildrenChanged, Data: zk.EventNodeDataChanged, Exists: zk.EventNodeDataChanged,
	} {
		node := fmt.Sprint("/", kind)
		w.add(Target{Kind: kind, Node: node, As: "shared"})
		want[notice{node, event}] = true
	}
	for _, n := range w.lapse() {
		if !want[n] {
			t.Errorf("unexpected notice %+v", n)
		}
		delete(want, n)
	}
	if len(want) != 0 {
		t.Errorf("no notice for %v", want)
	}
}

func TestPresenceAnnouncesEachConnectionOnce(t *testing.T) {
	p := newPresence()
	is := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	before := p.reconnected()
	p.set(false)
	if is(p.connected()) || is(before) || p.generation() != 0 {
		t.Error("connected before the first connection")
	}
	p.set(true)
	after := p.reconnected()
	p.set(true) // said twice
	if !is(p.connected()) || !is(before) || is(after) || p.generation() != 1 {
		t.Error("the first connection is not announced, or twice")
	}
	p.set(false)
	if is(p.connected()) || is(after) {
		t.Error("the loss is not seen, or announced as a connection")
	}
	p.set(true)
	if !is(after) || p.generation() != 3 {
		t.Error("the second connection is not announced")
	}
}

// TestLostConnectionMakesEveryWatchFire: the notices must come after what was read, whole, and
// before the error.
func TestLostConnectionMakesEveryWatchFire(t *testing.T) {
	server, client := net.Pipe()
	notices := []notice{{"/a", zk.EventNodeDataChanged}, {"/b/c", zk.EventNodeChildrenChanged}}
	l := newLink(nil, nil, time.Second, func() []notice { return notices })
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
