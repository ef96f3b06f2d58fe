package netproxy_test

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
)

func TestBytesPassBothWaysAndAreCounted(t *testing.T) {
	p := startProxy(t, startEcho(t, "hello").addr())
	conn := dial(t, p)
	expect(t, conn, "hello")
	send(t, conn, "abc")
	expect(t, conn, "abc")
	got := p.Stats()
	want := netproxy.Stats{Accepted: 1, Open: 1, BytesUp: 3, BytesDown: 8}
	if got != want {
		t.Fatalf("stats %+v, want %+v", got, want)
	}
}

func TestCutHoldsBothWaysAndHealDeliversLate(t *testing.T) {
	server, p, conn := linked(t, "before ")
	p.Cut()
	send(t, conn, "during")
	silent(t, conn)
	if got := server.received(); got != "before " {
		t.Fatalf("the server received %q during the cut", got)
	}
	p.Heal()
	expect(t, conn, "during")
	if got := server.received(); got != "before during" {
		t.Fatalf("the server received %q", got)
	}
}

func TestHeldRequestOfAClosedClientArrivesLate(t *testing.T) {
	server, p, conn := linked(t, "a")
	p.Cut()
	send(t, conn, "last words")
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the words are held", func() bool { return p.Stats().HeldUp == int64(len("last words")) })
	p.Heal()
	until(t, "the words arrive", func() bool { return server.received() == "alast words" })
	until(t, "the link ends", func() bool { return p.Stats().Open == 0 })
}

func TestCutHidesTheEndOfAConnection(t *testing.T) {
	server, p, conn := linked(t, "a")
	p.Cut()
	if err := conn.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	steady(t, func() int64 { return int64(len(server.endings())) })
	if how := server.endings(); len(how) != 0 {
		t.Fatalf("the server saw the end through the cut: %v", how)
	}
	p.Heal()
	until(t, "the reset arrives", func() bool {
		how := server.endings()
		return len(how) == 1 && errors.Is(how[0], syscall.ECONNRESET)
	})
}

func TestConnectionMadeDuringACutWorksAfterIt(t *testing.T) {
	p := startProxy(t, startEcho(t, "hello").addr())
	p.Cut()
	conn := dial(t, p)
	silent(t, conn)
	p.Heal()
	expect(t, conn, "hello")
}

func TestCutUpLetsServerBytesPass(t *testing.T) {
	server := startEcho(t, "")
	p := startProxy(t, server.addr())
	conn := dial(t, p)
	p.CutDown()
	send(t, conn, "a")
	until(t, "the request arrives", func() bool { return server.received() == "a" })
	silent(t, conn)
	p.CutUp()
	send(t, conn, "b")
	p.Heal()
	expect(t, conn, "ab")
}

func TestDropHeldNeverDelivers(t *testing.T) {
	server, p, conn := linked(t, "a")
	p.Cut()
	send(t, conn, "lost")
	until(t, "it is held", func() bool { return p.Stats().HeldUp == 4 })
	p.DropHeld()
	expectReset(t, conn)
	again := dial(t, p)
	send(t, again, "b")
	expect(t, again, "b")
	if got := server.received(); got != "ab" {
		t.Fatalf("the server received %q", got)
	}
}

func TestResetIsSeenByBothSides(t *testing.T) {
	server, p, conn := linked(t, "a")
	p.Reset()
	expectReset(t, conn)
	until(t, "the server sees the reset", func() bool {
		how := server.endings()
		return len(how) == 1 && errors.Is(how[0], syscall.ECONNRESET)
	})
	again := dial(t, p)
	send(t, again, "b")
	expect(t, again, "b")
}

func TestRefuseAndRejectTurnAwayOnlyNewConnections(t *testing.T) {
	p := startProxy(t, startEcho(t, "").addr())
	old := dial(t, p)
	send(t, old, "a")
	expect(t, old, "a")
	p.Refuse()
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("dial while refusing: %v", err)
	}
	if err := p.Admit(); err != nil {
		t.Fatal(err)
	}
	p.Reject()
	expectTurnedAway(t, p)
	if err := p.Admit(); err != nil {
		t.Fatal(err)
	}
	fresh := dial(t, p)
	for _, conn := range []net.Conn{old, fresh} {
		send(t, conn, "b")
		expect(t, conn, "b")
	}
	if got := p.Stats().TurnedAway; got != 1 {
		t.Errorf("%d connections turned away, want 1", got)
	}
}

func TestHalfCloseIsPassedOn(t *testing.T) {
	p := startProxy(t, startEcho(t, "").addr())
	conn := dial(t, p)
	send(t, conn, "all of it")
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(hang(t))
	if got, err := io.ReadAll(conn); err != nil || string(got) != "all of it" {
		t.Fatalf("read %q, %v", got, err)
	}
	until(t, "the link ends", func() bool { return p.Stats().Open == 0 })
}

func TestNextTargetIsUsedWhenOneIsDown(t *testing.T) {
	dead, one, two := startEcho(t, ""), startEcho(t, "one"), startEcho(t, "two")
	if err := dead.ln.Close(); err != nil {
		t.Fatal(err)
	}
	p := startProxy(t, dead.addr(), one.addr(), two.addr())
	for range 3 {
		expect(t, dial(t, p), "one")
	}
	p.Use(two.addr())
	expect(t, dial(t, p), "two")
	p.Use(dead.addr())
	expectTurnedAway(t, p)
}

// All faults at once, from several goroutines, over active connections: for the
// race detector, and for the leak check in TestMain.
func TestFaultsMayBeInjectedConcurrently(t *testing.T) {
	p := startProxy(t, startEcho(t, "").addr())
	var running sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		running.Go(func() { talk(p, stop) })
	}
	levers := []func(){
		p.Cut, p.Heal, p.CutUp, p.CutDown, p.Heal, p.DropHeld, p.Reset, p.Strand, p.Deliver, p.Refuse, p.Reject,
		func() { _ = p.Admit() },
		func() { p.Delay(netproxy.Up, time.Millisecond) },
		func() { p.Delay(netproxy.Up, 0) },
		func() { p.LoseReply(netproxy.Any).Disarm() },
		func() { p.LoseRequest(netproxy.Any) },
		func() { p.HoldReply(netproxy.Any) },
		func() { p.Stats() },
	}
	var pulling sync.WaitGroup
	for i := range 2 {
		pulling.Go(func() {
			for n := range 300 {
				levers[(n*(2*i+1))%len(levers)]()
			}
		})
	}
	pulling.Wait()
	p.Heal()
	close(stop)
	p.Close()
	running.Wait()
}

// talk opens one connection after another and ignores how they end.
func talk(p *netproxy.Proxy, stop <-chan struct{}) {
	buf := make([]byte, 16)
	for {
		select {
		case <-stop:
			return
		default:
		}
		conn, err := net.DialTimeout("tcp", p.Addr(), 100*time.Millisecond)
		if err != nil {
			runtime.Gosched()
			continue
		}
		for range 20 {
			_ = conn.SetDeadline(time.Now().Add(10 * time.Millisecond))
			if _, err := conn.Write(buf); err != nil {
				break
			}
			if _, err := conn.Read(buf); err != nil {
				break
			}
		}
		_ = conn.Close()
	}
}
