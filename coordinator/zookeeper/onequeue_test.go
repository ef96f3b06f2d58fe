package zookeeper

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// The kinds of requests and parts of transactions, as the service numbers them.
const (
	opError    = -1
	opCreate   = 1
	opDelete   = 2
	opSetData  = 5
	opChildren = 12
	opCheck    = 13
	opMulti    = 14
)

// oneQueue scripts a fake with one queue, in which the session with this ID
// joins: joins add a child, listings show the children, deletes empty the
// queue.
type oneQueue struct {
	mu       sync.Mutex
	mute     bool
	session  string
	queue    driver.Queue // m/a if empty
	children []string
}

func (l *oneQueue) reply(op int32) (zk.ErrCode, []byte, bool) {
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
		b := text(head(nil, 1, 0), "/app/~/"+string(cmp.Or(l.queue, "m/a"))+"/"+name)
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

func (l *oneQueue) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func TestJoinReadsItsPlaceFromOneReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := newPipes(t), &oneQueue{}
		f.set(func() { f.reply = l.reply })
		s := openFake(t, f, testTTL)
		l.set(func() { l.session = s.ID() })
		for i := range 2 {
			j, err := s.Join(soon(t, 10*time.Second), "m/a", driver.Contender{ID: testID, Mode: "x"})
			ok(t, err)
			key := fmt.Sprintf("x_%s_%s_%010d", testID, s.ID(), i)
			if want := (driver.Place{Key: key, ID: testID, Mode: "x", Session: s.ID()}); j.Place != want || j.Token != 42 || j.First != (i == 0) {
				t.Errorf("join %d: %+v; want %+v, token 42, first %v", i, j, want, i == 0)
			}
		}
		if n := f.count(opMulti); n != 2 {
			t.Errorf("two joins took %d transactions", n)
		}
	})
}
