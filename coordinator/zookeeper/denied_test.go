package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
)

// TestNoSingleServerIsBelievedThatASessionIsOver: a leader that was paused
// while the others elected another denies the sessions of its successor. The
// session would keep its entries for the TTL. So Close succeeds only if a
// server has ended the session, or none knows it, in whichever order it meets
// them.
func TestNoSingleServerIsBelievedThatASessionIsOver(t *testing.T) {
	for _, c := range []struct {
		servers string
		known   bool // to one of them
		closes  int  // until the session has ended; 0: it never does
	}{
		{"denies", false, 1},
		{"denies denies", false, 1},
		{"denies denies denies", false, 1},
		{"denies silent", false, 1},
		{"denies down", false, 1},
		{"denies ends", true, 1},
		{"denies silent ends", true, 1},
		{"denies down ends", true, 1},
		{"denies denies ends", true, 1}, // perhaps one with two addresses
		{"denies denies silent down ends", true, 1},
		{"denies loses", true, 2},
		{"denies hangs down", true, 0},
	} {
		for _, reconnects := range []bool{false, true} {
			for seed := range uint64(20) {
				synctest.Test(t, func(t *testing.T) {
					w := newServers(t, strings.Fields(c.servers), seed)
					s := w.open(w.hosts())
					if w.serve(); reconnects {
						w.reach(0) // the first denies it
						<-s.Done()
						w.reach(-1)
					}
					what := fmt.Sprintf("%s, to a reconnect: %t, seed %d", c.servers, reconnects, seed)
					for n := 1; n <= max(1, c.closes); n++ {
						err := s.Close(soon(t, testTTL/4)) // as package coordinator does
						ended := !c.known || w.ended() > 0
						if ended != (err == nil) || err != nil && !errors.Is(err, driver.ErrUnavailable) {
							t.Errorf("%s: Close = %v, and the session has ended: %t", what, err, ended)
						}
						if n == c.closes && !ended {
							t.Errorf("%s: Close is called %d times, and the session lives", what, n)
						}
					}
				})
			}
		}
	}
}

// TestServerThatIsNamedTwiceIsNoSecondServer: nor is it a reason to ask no
// other.
func TestServerThatIsNamedTwiceIsNoSecondServer(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := newServers(t, []string{"denies", "ends"}, seed)
			s := w.open("10.0.0.1,10.0.0.1,10.0.0.2,10.0.0.1")
			w.serve()
			ok(t, s.Close(soon(t, testTTL/4)))
			if w.ended() == 0 {
				t.Errorf("seed %d: the session was not ended", seed)
			}
		})
	}
}

// servers are an ensemble by what they do with a session that they are to end:
// "ends" it, "denies" that it exists, "silent", "down", "hangs" after it has
// greeted the session, "loses" the first reply.
type servers struct {
	t     *testing.T
	kinds []string
	fakes []*fake
	seed  uint64
	only  atomic.Int64 // the one that can be reached, or -1
}

func newServers(t *testing.T, kinds []string, seed uint64) *servers {
	w := &servers{t: t, kinds: kinds, seed: seed}
	w.only.Store(-1)
	for range kinds {
		w.fakes = append(w.fakes, newPipes(t))
	}
	return w
}

func (w *servers) hosts() string {
	var hosts []string
	for i := range w.fakes {
		hosts = append(hosts, fmt.Sprintf("10.0.0.%d", i+1))
	}
	return strings.Join(hosts, ",")
}

// open opens a session at any server.
func (w *servers) open(hosts string) *session {
	d, err := OpenWith(parse(w.t, "zk://"+hosts+"/app"), Dialer(w.dial))
	ok(w.t, err)
	source := rand.NewPCG(w.seed, 0)
	d.(*service).Conf.Dial.Source = func() rand.Source { return source }
	s, err := d.Open(w.t.Context(), testTTL)
	ok(w.t, err)
	return s.(*session)
}

func (w *servers) dial(ctx context.Context, addr string) (net.Conn, error) {
	var i int64
	_, _ = fmt.Sscanf(addr, "10.0.0.%d:", &i)
	only := w.only.Load()
	if i--; only >= 0 && only != i {
		return nil, syscall.ECONNREFUSED
	}
	return w.fakes[i].dial(ctx, addr)
}

// reach breaks all connections, and lets only one server be reached, or all.
func (w *servers) reach(only int64) {
	w.only.Store(only)
	for _, f := range w.fakes {
		f.cut()
	}
}

// serve has the servers be of their kinds from now on.
func (w *servers) serve() {
	for i, f := range w.fakes {
		kind, lost := w.kinds[i], false
		f.set(func() {
			if kind == "down" {
				f.dial = func(context.Context, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
			}
			f.grant = func(asked hello) (hello, bool) {
				if kind == "denies" {
					asked.session = 0
				}
				return asked, kind != "silent"
			}
			f.reply = func(op int32) (zk.ErrCode, []byte, bool) {
				speak := op != opCloseSession || kind == "ends" || lost
				lost = lost || op == opCloseSession && kind == "loses"
				return 0, nil, speak
			}
		})
	}
}

// ended counts the servers that have said that they ended the session.
func (w *servers) ended() (n int) {
	for i, f := range w.fakes {
		ends := f.count(opCloseSession)
		if kind := w.kinds[i]; kind == "ends" && ends > 0 || kind == "loses" && ends > 1 {
			n++
		}
	}
	return n
}
