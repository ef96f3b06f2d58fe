package zookeeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

func TestLaterJoinsWaitForEarlierOnesOnly(t *testing.T) {
	j := newJoins()
	landed := func(f *flight) bool {
		select {
		case <-f.landed:
			return true
		default:
			return false
		}
	}
	first, earlier := j.begin("m/a", "a")
	if len(earlier) != 0 {
		t.Errorf("flights before the first: %d", len(earlier))
	}
	first.extend()
	first.end() // the call has returned, its request is under way
	second, earlier := j.begin("m/a", "a")
	if len(earlier) != 1 || earlier[0] != first || landed(first) {
		t.Error("the second join does not wait for the request of the first")
	}
	if other, earlier := j.begin("m/a", "b"); len(earlier) != 0 {
		t.Error("another contender's join waits")
	} else {
		other.end()
	}
	third, earlier := j.begin("m/a", "a")
	if len(earlier) != 2 {
		t.Errorf("the third join waits for %d", len(earlier))
	}
	first.end()
	if all := j.flights("a"); !landed(first) || landed(second) || len(all) != 2 {
		t.Error("only the first has landed now")
	}
	third.end()
	if all := j.flights("a"); !landed(third) || landed(second) || len(all) != 1 || all[0] != second {
		t.Error("the third has landed before the second")
	}
	second.end()
	if !landed(second) || len(j.m) != 0 {
		t.Error("landed flights are kept")
	}
}

func TestSweepKeepsWatchesThatMayFire(t *testing.T) {
	w := newWatches()
	for i := range 10 * minSweep {
		added, mine := w.add(placeKey(i), fmt.Sprint("/", i))
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
	if w.find(placeKey(0)) == nil || w.find(placeKey(1)) == nil {
		t.Error("a live watch was thrown out")
	}
	if n := len(w.m); n > 2*minSweep {
		t.Errorf("%d watches are kept; 2 are alive", n)
	}
	if _, mine := w.add(placeKey(1), "/1"); mine {
		t.Error("a watch is set twice")
	}
	if notices := w.lapse(); len(notices) < 2 || len(w.m) != 1 || w.find(placeKey(0)) == nil {
		t.Errorf("lapse returned %d notices and kept %d; want all, and the one that is being set", len(notices), len(w.m))
	}
}

func placeKey(i int) watchKey { return watchKey{onPlace, fmt.Sprint("/", i)} }

// TestLapseMakesEveryKindOfWatchFire: the Conn fires a watch only for a notice of its kind.
func TestLapseMakesEveryKindOfWatchFire(t *testing.T) {
	w := newWatches()
	want := map[notice]bool{}
	for kind, event := range map[watchKind]zk.EventType{
		onPlace: zk.EventNodeChildrenChanged, onSuccessor: zk.EventNodeDataChanged, onQueue: zk.EventNodeChildrenChanged, onHead: zk.EventNodeDataChanged,
		onRecord: zk.EventNodeDataChanged, onAbsence: zk.EventNodeDataChanged,
	} {
		node := fmt.Sprint("/", kind)
		w.add(watchKey{kind, "/key"}, node)
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
	if is(p.connected()) || is(before) || p.number() != 0 {
		t.Error("connected before the first connection")
	}
	p.set(true)
	after := p.reconnected()
	p.set(true) // said twice
	if !is(p.connected()) || !is(before) || is(after) || p.number() != 1 {
		t.Error("the first connection is not announced, or twice")
	}
	p.set(false)
	if is(p.connected()) || is(after) {
		t.Error("the loss is not seen, or announced as a connection")
	}
	p.set(true)
	if !is(after) || p.number() != 2 {
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

// TestReplyToAJoinIsAboutIt: whatever else a reply names, it is not known what the join has made, so that it has to be looked for.
func TestReplyToAJoinIsAboutIt(t *testing.T) {
	const asked = "/baton/mutex/orders/x_" + testID + "_1000a2b3c4d5e6f_"
	n, err := made(asked, asked+"0000000007")
	if err != nil || n.ID != testID || n.Mode != "x" || n.Session != "1000a2b3c4d5e6f" || n.seq != 7 || n.Key != "x_"+testID+"_1000a2b3c4d5e6f_0000000007" {
		t.Errorf("made %+v, %v", n, err)
	}
	for _, other := range []string{
		"", asked, asked + "7", asked + "lock-0000000007", asked + "1/0000000007",
		asked + "0000000000000007_1_0000000007",
		asked + "/x_" + testID + "_1000a2b3c4d5e6f_0000000007",
		"/baton/mutex/invoices/x_" + testID + "_1000a2b3c4d5e6f_0000000007",
		"/baton/mutex/orders/r_" + testID + "_1000a2b3c4d5e6f_0000000007",
		"/baton/mutex/orders/x_" + testID + "_1000a2b3c4d5e70_0000000007",
		"/baton/mutex/orders/x_00" + testID[2:] + "_1000a2b3c4d5e6f_0000000007",
	} {
		if n, err := made(asked, other); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), strconv.Quote(other)) {
			t.Errorf("%q: %+v, %v; want ErrUnavailable that names it", other, n, err)
		}
	}
}
