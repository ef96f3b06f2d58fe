package netproxy_test

import (
	"net"
	"testing"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/coordinatortest/netproxy"
)

var _ coordinatortest.Link = (*netproxy.Network)(nil)

func TestNetworkHasOneProxyForEachServer(t *testing.T) {
	one, two := startEcho(t, "one"), startEcho(t, "two")
	n := netproxy.NewNetwork(t, []string{one.addr(), two.addr()})
	n.HoldReplies()
	var conns []net.Conn
	for _, s := range []*echo{one, two} {
		conn, err := n.DialContext(t.Context(), "tcp", s.addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent(t, conn)
		conns = append(conns, conn)
	}
	n.Heal()
	expect(t, conns[0], "one")
	expect(t, conns[1], "two")
	if _, err := n.DialContext(t.Context(), "tcp", n.Addrs()[0]); err == nil {
		t.Error("an address that is no server's was dialled")
	}
}

func TestNetworkStrandsWhatItHolds(t *testing.T) {
	server := startEcho(t, "")
	n := netproxy.NewNetwork(t, []string{server.addr()})
	conn := dial(t, n.Proxies()[0])
	send(t, conn, "early ")
	expect(t, conn, "early ")
	n.HoldRequests()
	send(t, conn, "late ")
	until(t, "the request is held", func() bool { return n.Held() == int64(len("late ")) })
	n.Strand()
	expectReset(t, conn)
	n.Deliver()
	until(t, "the request arrives", func() bool { return server.received() == "early late " })
}

// A case that strands no request would pass without having tested anything.
func TestNetworkThatHoldsNothingFailsATestThatStrands(t *testing.T) {
	f := &failing{TB: t}
	n := netproxy.NewNetwork(f, []string{startEcho(t, "").addr()})
	conn := dial(t, n.Proxies()[0])
	send(t, conn, "early ")
	expect(t, conn, "early ") // so that it has reached the server
	n.HoldRequests()
	send(t, conn, "held")
	until(t, "the request is held", func() bool { return n.Held() == int64(len("held")) })
	n.Strand()
	if f.failed {
		t.Error("a test that stranded a request failed")
	}
	n.HoldRequests()
	n.Strand()
	if !f.failed {
		t.Error("a test that stranded nothing did not fail")
	}
}

// failing records that a test failed.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Error(...any) { f.failed = true }
