package netproxy_test

import (
	"errors"
	"io"
	"testing"

	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
)

// strandRequest leaves a request in flight that the client has given up.
func strandRequest(t *testing.T, server *echo, p *netproxy.Proxy) {
	t.Helper()
	conn := dial(t, p)
	send(t, conn, "early ")
	expect(t, conn, "early ")
	p.CutUp()
	send(t, conn, "late ")
	until(t, "the request is held", func() bool { return p.Stats().HeldUp == int64(len("late ")) })
	p.Strand()
	expectReset(t, conn)
	if got := server.received(); got != "early " {
		t.Fatalf("the server received %q of a stranded request", got)
	}
}

func TestStrandedRequestArrivesWhenItIsDelivered(t *testing.T) {
	server := startEcho(t, "")
	p := startProxy(t, server.addr())
	strandRequest(t, server, p)
	if how := server.endings(); len(how) != 0 {
		t.Fatalf("the server saw an end: %v", how)
	}
	again := dial(t, p) // unheld
	send(t, again, "between ")
	expect(t, again, "between ")
	p.CutUp() // holds later bytes, not the stranded ones
	send(t, again, "held")
	p.Deliver()
	until(t, "the request arrives", func() bool { return server.received() == "early between late " })
	// A second later that connection is closed, and the new one stays.
	until(t, "the old connection ends", func() bool { return len(server.endings()) == 1 })
	if how := server.endings(); !errors.Is(how[0], io.EOF) {
		t.Errorf("it ended with %v", how[0])
	}
	p.Deliver() // once is enough
	p.Heal()
	expect(t, again, "held")
	if got := server.received(); got != "early between late held" {
		t.Errorf("the server received %q", got)
	}
}

func TestDeliverToAClosedServerSucceeds(t *testing.T) {
	server := startEcho(t, "")
	p := startProxy(t, server.addr())
	strandRequest(t, server, p)
	server.hangUp()
	until(t, "the server has hung up", func() bool { return len(server.endings()) == 1 })
	p.Deliver()
	if got := server.received(); got != "early " {
		t.Errorf("the server received %q", got)
	}
}

func TestStrandedRequestSurvivesResetsAndIsDroppedByClose(t *testing.T) {
	server := startEcho(t, "")
	p := startProxy(t, server.addr())
	strandRequest(t, server, p)
	p.Reset()
	p.Strand()
	if open := p.Stats().Open; open != 0 {
		t.Errorf("%d connections open", open)
	}
	steady(t, func() int64 { return int64(len(server.endings())) })
	if how := server.endings(); len(how) != 0 {
		t.Fatalf("the server saw an end: %v", how)
	}
	p.Close()
	until(t, "the server sees the end", func() bool { return len(server.endings()) == 1 })
	if got := server.received(); got != "early " {
		t.Errorf("the server received %q", got)
	}
}

func TestConnectionThatNeverReachedTheServerIsNotStranded(t *testing.T) {
	server := startEcho(t, "")
	p := startProxy(t, server.addr())
	p.CutUp()
	conn := dial(t, p)
	send(t, conn, "lost")
	// The kernel has accepted the connection; the proxy can reset it only after
	// it has accepted it, too.
	until(t, "the proxy has the connection", func() bool { return p.Stats().Open == 1 })
	p.Strand()
	expectReset(t, conn)
	p.Deliver()
	steady(t, func() int64 { return int64(len(server.received())) })
	if got := server.received(); got != "" {
		t.Errorf("the server received %q", got)
	}
}
