package zookeeper

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

const (
	opChildren = 12
)

// oneLine scripts a fake with one line, in which the session that has the given
// ID joins: joins add a child, listings show the children, deletes empty the line.
type oneLine struct {
	mu       sync.Mutex
	mute     bool
	session  string
	line     driver.Line // m/a if empty
	children []string
}

func (l *oneLine) reply(op int32) (zk.ErrCode, []byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mute && op != opPing && op != opCloseSession {
		return 0, nil, false
	}
	stat := make([]byte, 68)
	text := func(b []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	head := func(b []byte, op uint32, done byte) []byte {
		return append(append(binary.BigEndian.AppendUint32(b, op), done), 0, 0, 0, 0)
	}
	switch op {
	case opMulti:
		name := nodePrefix(driver.Contender{ID: testID, Mode: "x"}, l.session) + fmt.Sprintf("%010d", len(l.children))
		l.children = append(l.children, name)
		binary.BigEndian.PutUint64(stat[8:], 42)                       // mzxid
		binary.BigEndian.PutUint32(stat[56:], uint32(len(l.children))) // children
		b := text(head(nil, 1, 0), "/app/"+string(cmp.Or(l.line, "m/a"))+"/"+name)
		return 0, head(append(head(b, 5, 0), stat...), 1<<32-1, 1), true
	case opChildren:
		b := binary.BigEndian.AppendUint32(nil, uint32(len(l.children)))
		for _, c := range l.children {
			b = text(b, c)
		}
		return 0, append(b, stat...), true
	case opGet:
		return 0, append(make([]byte, 4), stat...), true
	case opDelete:
		l.children = nil
		return 0, nil, true
	}
	return 0, text(nil, "/"), true // a sync
}

func (l *oneLine) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *oneLine) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.children)
}

// quick is a list of one server without the library's pause of a second.
type quick string

func (q quick) Init([]string) error  { return nil }
func (q quick) Len() int             { return 1 }
func (q quick) Next() (string, bool) { time.Sleep(5 * time.Millisecond); return string(q), false }
func (q quick) Connected()           {}

// lendTo makes a connection as a user would, and a driver and a session on it.
func lendTo(t *testing.T, f *fake, l *oneLine) (*zk.Conn, driver.Driver, *session) {
	t.Helper()
	f.reply = l.reply
	addr := f.listener.Addr().String()
	conn, _, err := zk.Connect([]string{addr}, testTTL, zk.WithHostProvider(quick(addr)), zk.WithLogInfo(false), zk.WithLogger(silence{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	d, err := FromConn(conn, testTTL, Chroot("/app"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(soon(t, 5*time.Second), testTTL)
	if err != nil {
		t.Fatal(err)
	}
	l.set(func() { l.session = s.ID() })
	t.Cleanup(func() {
		_ = s.Close(soon(t, time.Millisecond))
		_ = d.Close(soon(t, time.Millisecond))
	})
	return conn, d, s.(*session)
}

func TestJoinReadsItsPlaceFromOneReply(t *testing.T) {
	f, l := newFake(t), &oneLine{}
	_, _, s := lendTo(t, f, l)
	for i := range 2 {
		j, err := s.Join(soon(t, time.Second), "m/a", driver.Contender{ID: testID, Mode: "x"})
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("x_%s_%s_%010d", testID, s.ID(), i)
		if want := (driver.Place{Key: key, ID: testID, Mode: "x", Session: s.ID()}); j.Place != want || j.Token != 42 || j.First != (i == 0) {
			t.Errorf("join %d: %+v; want %+v, token 42, first %v", i, j, want, i == 0)
		}
	}
	if n := f.count(opMulti); n != 2 {
		t.Errorf("two joins took %d transactions", n)
	}
}

func TestCloseOnGivenConnRemovesItsEntriesAndLeavesTheConn(t *testing.T) {
	f, l := newFake(t), &oneLine{}
	conn, d, s := lendTo(t, f, l)
	if _, err := s.Join(soon(t, time.Second), "m/a", driver.Contender{ID: testID, Mode: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(soon(t, time.Second), testTTL); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("a second session on the connection's only one: %v; want ErrSessionLost", err)
	}
	if err := s.Close(soon(t, time.Second)); err != nil || l.size() != 0 {
		t.Errorf("Close = %v, %d entries left", err, l.size())
	}
	if conn.State() != zk.StateHasSession || f.count(opCloseSession) != 0 {
		t.Errorf("the connection is %v, sessions ended: %d", conn.State(), f.count(opCloseSession))
	}
	if err := s.Renew(soon(t, time.Second)); !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("Renew after Close = %v; want ErrSessionLost", err)
	}
	again, err := d.Open(soon(t, time.Second), testTTL)
	if err != nil {
		t.Fatalf("Open after Close = %v", err)
	}
	if err := again.Close(soon(t, time.Second)); err != nil {
		t.Errorf("Close = %v", err)
	}
}

// TestWhatCloseCouldNotRemoveIsRemovedLater: the session lives on with the connection, and its
// entry would block the line for as long.
func TestWhatCloseCouldNotRemoveIsRemovedLater(t *testing.T) {
	for what, later := range map[string]func(f *fake, l *oneLine, d driver.Driver){
		"the service answers again": func(f *fake, l *oneLine, d driver.Driver) {
			l.set(func() { l.mute = false })
			f.cut() // what was swallowed is never answered
			eventually(t, "the entry is removed", func() bool { return l.size() == 0 })
			if err := d.Close(soon(t, time.Second)); err != nil {
				t.Errorf("Close of the driver = %v", err)
			}
		},
		"the driver is closed": func(f *fake, _ *oneLine, d driver.Driver) {
			if err := d.Close(soon(t, 20*time.Millisecond)); !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("Close of the driver = %v; want ErrUnavailable while an entry is left", err)
			}
			f.cut() // ends the request that the connection waits for; TestMain sees the rest
		},
	} {
		t.Run(what, func(t *testing.T) {
			f, l := newFake(t), &oneLine{}
			_, d, s := lendTo(t, f, l)
			if _, err := s.Join(soon(t, time.Second), "m/a", driver.Contender{ID: testID, Mode: "x"}); err != nil {
				t.Fatal(err)
			}
			l.set(func() { l.mute = true })
			if err := s.Close(soon(t, 20*time.Millisecond)); err == nil {
				t.Error("Close succeeded without the service")
			}
			later(f, l, d)
		})
	}
}

// TestGivenConnThatGoesOnWithAnotherSession: that session must not be taken for the old one, and
// what a join did on it must not stay.
func TestGivenConnThatGoesOnWithAnotherSession(t *testing.T) {
	f, l := newFake(t), &oneLine{}
	_, d, s := lendTo(t, f, l)
	grant := f.grant
	f.set(func() { // expire the session on the next connection, and no other
		f.grant = func(asked hello) (hello, bool) {
			if asked.session == s.id {
				return hello{timeout: asked.timeout}, true
			}
			return grant(asked)
		}
	})
	waiting := make(chan error, 1)
	go func() { waiting <- s.Watch(t.Context(), "m/a", driver.Place{Key: "n0000000001"}) }()
	eventually(t, "the watch", func() bool { // and its answer
		w := s.watches.find(watchKey{onPlace, "/app/m/a/n0000000001"})
		if w == nil {
			return false
		}
		select {
		case <-w.ready:
			return true
		default:
			return false
		}
	})
	f.cut()
	select {
	case <-s.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("Done is not closed")
	}
	if err := <-waiting; !errors.Is(err, driver.ErrSessionLost) {
		t.Errorf("Watch = %v; want ErrSessionLost", err)
	}
	next, err := d.Open(soon(t, 5*time.Second), testTTL)
	if err != nil || next.ID() == s.ID() {
		t.Fatalf("Open = %v; want the connection's new session", err)
	}
	defer func() { _ = next.Close(soon(t, time.Second)) }()
	// A join of the old session that was still queued in the connection:
	l.set(func() {
		l.children = []string{nodePrefix(driver.Contender{ID: testID, Mode: "x"}, s.hex) + "0000000000"}
	})
	s.undo("/app/m/a", testID)
	if n := l.size(); n != 0 {
		t.Errorf("%d entries of the old session are left under the new one", n)
	}
}
