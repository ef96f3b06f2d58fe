package zookeeper

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// bounded grants timeouts from 4 s to this one.
func bounded(f *fake, longest time.Duration) {
	grant := f.grant
	f.grant = func(asked hello) (hello, bool) {
		asked.timeout = min(max(asked.timeout, 4*time.Second), longest)
		return grant(asked)
	}
}

func TestExamineFindsServersThatGrantDifferentTimeouts(t *testing.T) {
	for longest, want := range map[time.Duration]driver.Grade{
		40 * time.Second: driver.Fine, 20 * time.Second: driver.Failure,
	} {
		synctest.Test(t, func(t *testing.T) {
			one, two := newPipes(t), newPipes(t)
			bounded(one, 40*time.Second)
			bounded(two, longest)
			d, err := Open(parse(t, "zk://10.0.0.1,10.0.0.2/app"))
			ok(t, err)
			d.(*service).Conf.Dial.Connect = func(ctx context.Context, addr string) (net.Conn, error) {
				return map[string]*fake{"10.0.0.1:2181": one, "10.0.0.2:2181": two}[addr].dial(ctx, addr)
			}
			f := finding(d.(driver.Examiner).Examine(soon(t, time.Minute)), "TTL")
			if f.Grade != want {
				t.Errorf("a server with at most %v beside one with 40s: %v %q", longest, f.Grade, f.Text)
			}
			if want == driver.Failure && !strings.Contains(f.Text, "10.0.0.2:2181 4s to 20s") {
				t.Errorf("%q does not name the server", f.Text)
			}
		})
	}
}

// TestExamineNamesServersThatGrantNoSession: their bounds are not compared.
func TestExamineNamesServersThatGrantNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newPipes(t), newPipes(t)
		bounded(one, 40*time.Second)
		two.grant = func(hello) (hello, bool) { return hello{}, false } // it answers srvr only
		dial := func(ctx context.Context, addr string) (net.Conn, error) {
			return map[string]*fake{"10.0.0.1:2181": one, "10.0.0.2:2181": two}[addr].dial(ctx, addr)
		}
		d, err := OpenWith(parse(t, "zk://10.0.0.1,10.0.0.2/app"), Dialer(dial))
		ok(t, err)
		f := finding(d.(driver.Examiner).Examine(soon(t, time.Minute)), "TTL")
		if f.Grade != driver.Warning || !strings.Contains(f.Text, "4s to 40s") ||
			!strings.Contains(f.Text, "10.0.0.2:2181 grants no session") {
			t.Errorf("%v %q", f.Grade, f.Text)
		}
		time.Sleep(2 * time.Second) // the client library waits for its own request
	})
}

func TestExamineWarnsOfManyNames(t *testing.T) {
	for n, want := range map[uint32]driver.Grade{manyNames - 1: driver.Fine, manyNames: driver.Warning} {
		synctest.Test(t, func(t *testing.T) {
			f := newPipes(t)
			bounded(f, 40*time.Second)
			f.reply = func(op int32) (zk.ErrCode, []byte, bool) {
				stat := make([]byte, 68)
				binary.BigEndian.PutUint32(stat[56:], n)
				if op == opChildren {
					return 0, append(appendText(binary.BigEndian.AppendUint32(nil, 1), "mutex"), stat...), true
				}
				return 0, stat, true
			}
			got := finding(f.driver("/app").(driver.Examiner).Examine(soon(t, time.Minute)), "names")
			if got.Grade != want || want == driver.Warning && !strings.Contains(got.Text, "/app/~/mutex") {
				t.Errorf("%d names: %v %q", n, got.Grade, got.Text)
			}
			time.Sleep(2 * time.Second) // the client library waits for its own request
		})
	}
}

// finding returns the finding about something, or none.
func finding(found []driver.Finding, about string) driver.Finding {
	for _, f := range found {
		if f.About == about {
			return f
		}
	}
	return driver.Finding{}
}
