package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/tlsfiles/tlstest"
)

const testTTL = 20 * time.Second

func TestOpenRefusesAnotherTimeoutAndEndsThatSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		f.grant = func(asked hello) (hello, bool) {
			return hello{timeout: 5 * time.Second, session: 0x77, passwd: make([]byte, 16)}, true
		}
		_, err := f.driver("").Open(soon(t, 20*time.Second), testTTL)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "TTL 20s") || !strings.Contains(err.Error(), "grants 5s") {
			t.Errorf("Open = %v; want ErrInvalid with both timeouts", err)
		}
		if got := f.askedSessions(); !slices.Equal(got, []int64{0, 0x77}) || f.count(opCloseSession) != 1 {
			t.Errorf("sessions asked for %x, %d ended; want one new one, which is ended", got, f.count(opCloseSession))
		}
	})
}

func TestOpenRefusesTTLsThatCannotBeAskedFor(t *testing.T) {
	d, _ := Open(parse(t, "zk://127.0.0.1:1"))
	for _, ttl := range []time.Duration{-time.Second, 0, time.Microsecond, 1500 * time.Microsecond, 600 * time.Hour} {
		if _, err := d.Open(t.Context(), ttl); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Open with %v: %v; want ErrInvalid", ttl, err)
		}
	}
}

// TestOpenSaysWhyThereIsNoService, when its time is over: no server answers, or
// none accepts connections.
func TestOpenSaysWhyThereIsNoService(t *testing.T) {
	for why, connects := range map[string]bool{"accepted the connection and has not answered": true, "refused": false} {
		synctest.Test(t, func(t *testing.T) {
			f := newPipes(t)
			f.grant = func(hello) (hello, bool) { return hello{}, false } // accepts, and sends nothing
			if !connects {
				f.dial = func(context.Context, string) (net.Conn, error) {
					return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
				}
			}
			const patience = 3 * time.Second
			began := time.Now()
			_, err := f.driver("").Open(soon(t, patience), testTTL)
			if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), why) {
				t.Errorf("%v; want ErrUnavailable and %q", err, why)
			}
			if took := time.Since(began); took != patience {
				t.Errorf("%s: Open with %v took %v", why, patience, took)
			}
		})
	}
}

// TestExpiredSessionIsNeverReplaced: by itself the client library would send
// requests of the old session on a new one.
func TestExpiredSessionIsNeverReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s := openFake(t, f, testTTL)
		f.set(func() { f.grant = func(asked hello) (hello, bool) { return hello{timeout: asked.timeout}, true } })
		f.cut()
		select {
		case <-s.Done():
		case <-time.After(20 * time.Second):
			t.Fatal("Done is not closed")
		}
		own := driver.Place{Key: nodePrefix(driver.Contender{ID: testID, Mode: "x"}, s.Hex) + "0000000001"}
		for what, err := range map[string]error{
			"Renew":             s.Renew(t.Context()),
			"Join":              second(s.Join(t.Context(), "m/a", driver.Contender{ID: testID, Mode: "x"})),
			"Leave":             s.Leave(t.Context(), "m/a", own),
			"Forget":            s.Forget(t.Context(), "m/a", testID),
			"Watch":             s.Watch(t.Context(), "m/a", driver.Place{Key: "n0000000001"}),
			"List":              second(s.List(t.Context(), "m/a", 0)),
			"Watch of several":  s.Watch(t.Context(), "m/a", driver.Place{Key: "n0000000001"}, driver.Place{Key: "n0000000002"}),
			"Check":             s.Check(t.Context(), "m/a", "n0000000001", 1),
			"Convert":           second(s.Convert(t.Context(), "m/a", driver.Joined{Place: own, Token: 1}, "y", nil)),
			"Write":             s.Write(t.Context(), "m/a", own, nil),
			"Head":              second(s.Head(t.Context(), "m/a", driver.Any)),
			"Head that waits":   second(s.Head(t.Context(), "m/a", 0)),
			"Record":            second(s.Record(t.Context(), "m/a", driver.Any)),
			"Record that waits": second(s.Record(t.Context(), "m/a", 0)),
			"SetRecord":         second(s.SetRecord(t.Context(), "m/a", []byte("5"), 0)),
		} {
			if !errors.Is(err, driver.ErrSessionLost) {
				t.Errorf("%s = %v; want ErrSessionLost", what, err)
			}
		}
		if err := s.Close(soon(t, 10*time.Second)); err != nil {
			t.Errorf("Close = %v", err)
		}
		if got := f.askedSessions(); !slices.Equal(got, []int64{0, s.Number()}) {
			t.Errorf("sessions asked for: %x; want a new one and then only this one", got)
		}
	})
}

// TestReconnectGrantedAShorterTimeoutEndsTheSession at once: the service ends
// it that much sooner, also if no other server is asked afterwards. Servers of
// one ensemble may be configured differently.
func TestReconnectGrantedAShorterTimeoutEndsTheSession(t *testing.T) {
	for _, shorter := range []time.Duration{testTTL / 2, testTTL - time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			f := newPipes(t)
			s := openFake(t, f, testTTL)
			var expiry time.Time // as the service believes
			f.set(func() {
				f.grant = func(asked hello) (hello, bool) {
					if !expiry.IsZero() { // cut off afterwards
						return asked, false
					}
					expiry, asked.timeout = time.Now().Add(shorter), shorter
					return asked, true
				}
			})
			f.cut()
			select {
			case <-s.Done():
			case <-time.After(testTTL):
				t.Fatalf("with %v of %v: Done is not closed", shorter, testTTL)
			}
			if left := time.Until(expiry); left < shorter-time.Second {
				t.Errorf("with %v: Done was closed %v before the service ends the session", shorter, left)
			}
			err := s.Renew(t.Context())
			if !errors.Is(err, driver.ErrSessionLost) || !strings.Contains(err.Error(), "maxSessionTimeout") {
				t.Errorf("Renew = %v; want ErrSessionLost with the reason", err)
			}
			f.set(func() { f.grant = func(asked hello) (hello, bool) { return asked, true } })
			if err := s.Close(soon(t, time.Second)); err != nil || f.count(opCloseSession) != 1 {
				t.Errorf("Close = %v, %d sessions were ended", err, f.count(opCloseSession))
			}
		})
	}
}

// TestReconnectRefusesALongerTimeout, which would keep a crashed holder's
// entries for longer: the session is continued at another server.
func TestReconnectRefusesALongerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s := openFake(t, f, testTTL)
		f.set(func() {
			f.grant = func(asked hello) (hello, bool) {
				if len(f.asked) < 4 {
					asked.timeout *= 2
				}
				return asked, true
			}
		})
		f.cut()
		time.Sleep(time.Second)
		if err := s.Renew(soon(t, 10*time.Second)); err != nil {
			t.Errorf("Renew = %v", err)
		}
		if got := f.askedSessions(); len(got) != 4 || s.Err() != nil {
			t.Errorf("sessions asked for %x; want three reconnects; the session: %v", got, s.Err())
		}
	})
}

func TestCloseEndsTheSessionOnAConnectionOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s := openFake(t, f, testTTL)
		// The server does not answer on the first connection. Close must not
		// depend on it.
		f.set(func() {
			f.reply = func(op int32) (zk.ErrCode, []byte, bool) { return 0, nil, op == opCloseSession }
		})
		left := make(chan error, 1)
		go func() { left <- s.Renew(context.Background()) }()
		eventually(t, "the renewal under way", func() bool { return f.count(opSync) == 1 })
		if err := s.Close(soon(t, 10*time.Second)); err != nil {
			t.Errorf("Close = %v", err)
		}
		if err := <-left; !errors.Is(err, driver.ErrSessionLost) {
			t.Errorf("a call under way = %v; want ErrSessionLost", err)
		}
		if got := f.askedSessions(); !slices.Equal(got, []int64{0, s.Number()}) || f.count(opCloseSession) != 1 {
			t.Errorf("sessions asked for %x, %d ended", got, f.count(opCloseSession))
		}
		select {
		case <-s.Done():
		default:
			t.Error("Done is open after the service confirmed the end")
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("second Close = %v", err)
		}
	})
}

// TestConfirmedEndIsNotSentAgain: neither after the reply to an earlier Close,
// nor after one that says that the session has expired.
func TestConfirmedEndIsNotSentAgain(t *testing.T) {
	for end, lose := range map[string]func(t *testing.T, tr *tree, s *session){
		"a Close": func(t *testing.T, _ *tree, s *session) { ok(t, s.Close(soon(t, testTTL))) },
		"an expiry": func(t *testing.T, tr *tree, s *session) {
			const expired zk.ErrCode = -112
			tr.on(func(int32, string) treeFate { return treeFate{code: expired} })
			if err := s.Renew(soon(t, testTTL)); !errors.Is(err, driver.ErrSessionLost) {
				t.Errorf("Renew = %v; want ErrSessionLost", err)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, tr, s := openTree(t)
			lose(t, tr, s)
			asked := len(f.askedSessions())
			ok(t, s.Close(soon(t, testTTL)))
			if got := f.askedSessions(); len(got) != asked {
				t.Errorf("after %s, Close asked for sessions: %x", end, got[asked:])
			}
		})
	}
}

// TestCloseWithoutServiceReleasesEverything is not parallel: sessions of other
// tests would run.
func TestCloseWithoutServiceReleasesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s := openFake(t, f, testTTL)
		f.set(func() {
			f.reply = func(int32) (zk.ErrCode, []byte, bool) { return 0, nil, false }
			f.grant = func(hello) (hello, bool) { return hello{}, false }
		})
		for range 40 { // more than the client's queue holds
			go func() { _, _ = s.Join(context.Background(), "m/a", driver.Contender{ID: testID, Mode: "x"}) }()
		}
		eventually(t, "joins under way", func() bool { return f.count(14) > 0 })
		began := time.Now()
		err := s.Close(soon(t, 50*time.Millisecond))
		if !errors.Is(err, driver.ErrUnavailable) || time.Since(began) != 50*time.Millisecond {
			t.Errorf("Close = %v after %v; want ErrUnavailable after 50ms", err, time.Since(began))
		}
		eventually(t, "nothing of the session runs", func() bool { return running() == "" })
	})
}

// TestCredentialsComeBeforeRequestsOnEveryConnection also breaks connections
// while the credentials are sent, which can block the client library for ever.
func TestCredentialsComeBeforeRequestsOnEveryConnection(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	d, _ := Open(parse(t, "zk://user:hunter2@"+f.listener.Addr().String()))
	s, err := d.Open(soon(t, 20*time.Second), testTTL)
	ok(t, err)
	if f.count(opAuth) != 1 {
		t.Errorf("%d credentials were sent by Open; want 1", f.count(opAuth))
	}
	for range 3 {
		f.cut()
		connections := len(f.askedSessions())
		eventually(t, "a renewal", func() bool { return s.Renew(soon(t, 10*time.Second)) == nil })
		if len(f.askedSessions()) == connections && f.count(opAuth) < len(f.askedSessions()) {
			t.Errorf("%d credentials on %d connections", f.count(opAuth), len(f.askedSessions()))
		}
	}
	if err := s.Close(soon(t, 10*time.Second)); err != nil {
		t.Errorf("Close = %v", err)
	}
}

// TestCloseWorksWhereServersDemandCredentials: with enforce.auth.enabled a
// server answers nothing else on a connection without credentials.
func TestCloseWorksWhereServersDemandCredentials(t *testing.T) {
	for password, want := range map[string]error{"hunter2": nil, "wrong": driver.ErrRefused} {
		synctest.Test(t, func(t *testing.T) {
			f := newPipes(t)
			f.demands = "user:hunter2"
			d := f.driver("/app")
			d.(*service).Conf.Digest = f.demands
			s, err := d.Open(soon(t, 10*time.Second), testTTL)
			ok(t, err)
			d.(*service).Conf.Digest = "user:" + password
			began := time.Now()
			if err := s.Close(soon(t, testTTL)); !errors.Is(err, want) {
				t.Errorf("password %s: Close = %v; want %v", password, err, want)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("password %s: Close took %v: an answer is no passing failure", password, took)
			}
			ended := map[string]int{"hunter2": 1}[password]
			if n := f.count(opCloseSession); n != ended {
				t.Errorf("password %s: %d sessions were ended; want %d", password, n, ended)
			}
		})
	}
}

func TestBadCredentialsAreRefused(t *testing.T) {
	f := newFake(t)
	f.reply = func(op int32) (zk.ErrCode, []byte, bool) {
		if op == opAuth {
			return -115, nil, true
		}
		return 0, nil, true
	}
	d, _ := Open(parse(t, "zk://user:hunter2@"+f.listener.Addr().String()))
	_, err := d.Open(soon(t, 20*time.Second), testTTL)
	if !errors.Is(err, driver.ErrRefused) || !errors.Is(err, zk.ErrAuthFailed) {
		t.Errorf("Open = %v; want ErrRefused", err)
	}
	if f.count(opCloseSession) != 1 {
		t.Error("the session was left behind")
	}
}

// TestConnectionWithAnotherSessionEndsTheSession: a reply on it says nothing
// about this session.
func TestConnectionWithAnotherSessionEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s := openFake(t, f, testTTL)
		f.set(func() {
			f.grant = func(asked hello) (hello, bool) {
				asked.session++
				return asked, true
			}
		})
		f.cut()
		eventually(t, "the end of the session", func() bool {
			err := s.Renew(soon(t, 20*time.Second))
			if err == nil {
				t.Error("Renew succeeded on a connection with another session")
			}
			return errors.Is(err, driver.ErrSessionLost)
		})
		select {
		case <-s.Done():
		case <-time.After(20 * time.Second):
			t.Error("Done is not closed")
		}
	})
}

// TestWaiterReadsAgainAfterReconnect, although no earlier watch fires: the fake
// never sends events.
func TestWaiterReadsAgainAfterReconnect(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	s := openFake(t, f, testTTL)
	done := make(chan error, 2)
	for range 2 { // they share one watch
		go func() { done <- s.Watch(context.Background(), "m/a", driver.Place{Key: "n0000000001"}) }()
	}
	eventually(t, "the watch", func() bool { return f.count(opChildren) == 1 })
	f.cut()
	eventually(t, "the watch on the next connection", func() bool { return f.count(opChildren) == 2 })
	f.set(func() { // the node goes while there is no connection
		f.reply = func(op int32) (zk.ErrCode, []byte, bool) {
			if op == opChildren {
				return -101, nil, true
			}
			return 0, nil, true
		}
	})
	f.cut()
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("Watch = %v", err)
		}
	}
}

// TestCallsWaitForTheConnection: requests handed to a disconnected client would
// pile up there and could run at any later time.
func TestCallsWaitForTheConnection(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	s := openFake(t, f, testTTL)
	f.set(func() { f.grant = func(hello) (hello, bool) { return hello{}, false } })
	f.cut()
	eventually(t, "an attempt to connect again", func() bool { return len(f.askedSessions()) > 1 })
	for range 10 {
		_, err := s.Record(soon(t, 10*time.Millisecond), "m/a", 0)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Record = %v; want the context's error", err)
		}
		if err := s.Renew(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Renew = %v; want ErrUnavailable", err)
		}
	}
	if n := f.count(opSync) + f.count(opGet); n != 0 {
		t.Errorf("%d requests came", n)
	}
}

func TestEntriesOfAnotherSessionAreNotTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s := openFake(t, f, testTTL)
		for _, key := range []string{"x_" + testID + "_abc_0000000001", "_c_x-lock-0000000001", "limit"} {
			if err := s.Leave(t.Context(), "m/a", driver.Place{Key: key, Session: s.Hex}); !errors.Is(err, driver.ErrGone) {
				t.Errorf("Leave of %q = %v; want ErrGone", key, err)
			}
			if err := s.Write(t.Context(), "m/a", driver.Place{Key: key, Session: s.Hex}, nil); !errors.Is(err, driver.ErrGone) {
				t.Errorf("Write of %q = %v; want ErrGone", key, err)
			}
			own := driver.Joined{Place: driver.Place{Key: key, Session: s.Hex}, Token: 1}
			if _, err := s.Convert(t.Context(), "m/a", own, "y", nil); !errors.Is(err, driver.ErrGone) {
				t.Errorf("Convert of %q = %v; want ErrGone", key, err)
			}
		}
		f.set(func() {
			for op, n := range f.ops {
				if op != opPing {
					t.Errorf("%d requests with code %d were sent", n, op)
				}
			}
		})
	})
}

// TestOldServersGetPlainNodes: servers before 3.5 refuse containers.
func TestOldServersGetPlainNodes(t *testing.T) {
	const unimplemented = -6
	f, l, made := newFake(t), &oneQueue{}, false
	f.reply = func(op int32) (zk.ErrCode, []byte, bool) {
		switch op {
		case opCreateContainer:
			return unimplemented, nil, true
		case opCreate:
			made = true
		case opMulti:
			if !made {
				return -101, nil, true
			}
		}
		return l.reply(op)
	}
	s := openFake(t, f, testTTL)
	l.set(func() { l.session = s.ID() })
	for _, queue := range []driver.Queue{"m/a", "m/b"} {
		made = false
		l.set(func() { l.queue = queue })
		if _, err := s.Join(soon(t, 10*time.Second), queue, driver.Contender{ID: testID, Mode: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.count(opCreateContainer); n != 1 {
		t.Errorf("a container was asked for %d times; want once", n)
	}
	if n := f.count(opCreate); n != 2 {
		t.Errorf("%d plain nodes; want 2", n)
	}
}

// TestFirstJoinsAtAnOldServerGetPlainNodes, all of those that learn at the same
// time that there are no containers.
func TestFirstJoinsAtAnOldServerGetPlainNodes(t *testing.T) {
	const unimplemented = -6
	synctest.Test(t, func(t *testing.T) {
		f, tr, s := openTree(t)
		tr.on(func(op int32, _ string) treeFate {
			time.Sleep(time.Second) // the other call sends the same meanwhile
			if op == opCreateContainer {
				return treeFate{code: unimplemented}
			}
			return treeFate{}
		})
		errs := make(chan error, 2)
		for i, queue := range []driver.Queue{"m/a", "m/b"} {
			go func() {
				c := driver.Contender{ID: testID[i:], Mode: "x"}
				_, err := s.Join(soon(t, testTTL), queue, c)
				errs <- err
			}()
		}
		for range 2 {
			ok(t, <-errs)
		}
		if n := f.count(opCreateContainer); n != 2 {
			t.Errorf("%d containers were asked for; want 2 at once", n)
		}
	})
}

// TestJoinWhoseReplyEndsTooSoonMayHaveJoined: else its entry is not removed.
func TestJoinWhoseReplyEndsTooSoonMayHaveJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		s := openFake(t, f, testTTL)
		f.set(func() {
			f.reply = func(int32) (zk.ErrCode, []byte, bool) {
				return 0, []byte{0, 0, 0, opCreate, 0, 0, 0, 0, 0, 0, 0, 0, 99, '/'}, true // a path of 99 bytes
			}
		})
		_, err := s.Join(soon(t, testTTL), "m/a", driver.Contender{ID: testID, Mode: "x"})
		if !errors.Is(err, zk.ErrShortBuffer) || !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Join = %v; want ErrUnavailable", err)
		}
	})
}

func TestSlackFollowsTheTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Second
		for tick, slack := range map[string]time.Duration{
			"": 300 * time.Millisecond, "?tick=100ms": 150 * time.Millisecond, "?tick=500ms": 350 * time.Millisecond,
		} {
			d := newPipes(t).driver("/app" + tick)
			s, err := d.Open(soon(t, 20*time.Second), ttl)
			ok(t, err)
			if s.Slack() != slack {
				t.Errorf("%q: %v, want %v", tick, s.Slack(), slack)
			}
			_ = s.Close(soon(t, time.Millisecond))
		}
		d := newPipes(t).driver("/app?tick=600ms")
		if _, err := d.Open(soon(t, 20*time.Second), ttl); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "two ticks of 600ms") {
			t.Errorf("Open = %v; want ErrInvalid that names the tick", err)
		}
	})
}

// TestRotatedAuthorityIsUsedForTheNextConnection: a session outlives the
// rotation of the authority, since each reconnect reads it again.
func TestRotatedAuthorityIsUsedForTheNextConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		authority, file := tlstest.NewAuthority(), filepath.Join(t.TempDir(), "ca.pem")
		d, err := Open(parse(t, "zks://10.0.0.1/app?cacert="+writeFile(t, file, authority.PEM)))
		ok(t, err)
		d.(*service).Conf.Dial.Connect = func(ctx context.Context, addr string) (net.Conn, error) {
			there, here := net.Pipe()
			inner, err := f.dial(ctx, addr)
			if err != nil {
				return nil, err
			}
			secure := tls.Server(there, authority.Server("10.0.0.1"))
			go func() { _, _ = io.Copy(inner, secure); _ = inner.Close() }()
			go func() { _, _ = io.Copy(secure, inner); _ = there.Close() }()
			return here, nil
		}
		s, err := d.Open(soon(t, 10*time.Second), testTTL)
		ok(t, err)
		authority = tlstest.NewAuthority()
		writeFile(t, file, authority.PEM)
		f.cut()
		time.Sleep(testTTL / 4)
		if err := s.Renew(soon(t, testTTL/4)); err != nil {
			t.Errorf("Renew after the rotation: %v", err)
		}
		ok(t, s.Close(soon(t, testTTL)))
	})
}

func writeFile(t *testing.T, file string, content []byte) string {
	t.Helper()
	ok(t, os.WriteFile(file, content, 0o600))
	return file
}

// A slow service can end a session before its credentials are accepted, and so
// can an operator.
func TestSessionThatEndsBeforeItsCredentialsIsNoLostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newPipes(t)
		d, err := OpenWith(parse(t, "zk://u:p@10.0.0.1:2181/app"), Dialer(f.dial))
		ok(t, err)
		const expired zk.ErrCode = -112
		f.set(func() {
			f.reply = func(op int32) (zk.ErrCode, []byte, bool) {
				if op == opAuth {
					return expired, nil, true
				}
				return 0, make([]byte, 128), true
			}
		})
		_, err = d.Open(soon(t, 20*time.Second), testTTL)
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrSessionLost) {
			t.Errorf("Open: %v; want ErrUnavailable", err)
		}
		f.set(func() { f.reply = func(int32) (zk.ErrCode, []byte, bool) { return 0, make([]byte, 128), true } })
		s, err := d.Open(soon(t, 20*time.Second), testTTL)
		ok(t, err)
		_ = s.Close(soon(t, time.Second))
	})
}
