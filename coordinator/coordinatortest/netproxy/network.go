package netproxy

import (
	"context"
	"fmt"
	"net"
	"testing"
)

// Network is the network of one client: a proxy in front of each server, with
// which the client's own library still chooses among the servers. It is a
// coordinatortest.Link. Calls of its methods must not overlap.
type Network struct {
	t       testing.TB
	proxies map[string]*Proxy // by the server's address
	order   []*Proxy          // in the order of the servers
	before  int64             // bytes held when HoldRequests was called
}

// NewNetwork starts a proxy for each server. They are closed when the test
// ends.
func NewNetwork(t testing.TB, servers []string, options ...Option) *Network {
	t.Helper()
	n := &Network{t: t, proxies: map[string]*Proxy{}}
	for _, server := range servers {
		p, err := New([]string{server}, options...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		n.proxies[server], n.order = p, append(n.order, p)
	}
	return n
}

// Proxies returns the proxies in the order of the servers.
func (n *Network) Proxies() []*Proxy { return n.order }

// Addrs returns the client's addresses, in the order of the servers.
func (n *Network) Addrs() (all []string) {
	for _, p := range n.order {
		all = append(all, p.Addr())
	}
	return all
}

// DialContext dials a server through its proxy. It is the dialer of a client
// library that learns the servers' own addresses from the service.
func (n *Network) DialContext(ctx context.Context, network, server string) (net.Conn, error) {
	p := n.proxies[server]
	if p == nil {
		return nil, fmt.Errorf("netproxy: no proxy in front of %s", server)
	}
	return new(net.Dialer).DialContext(ctx, network, p.Addr())
}

// Each calls a lever of each proxy.
func (n *Network) Each(lever func(*Proxy)) {
	for _, p := range n.order {
		lever(p)
	}
}

// HoldRequests cuts the way up.
func (n *Network) HoldRequests() {
	n.before = n.heldUp()
	n.Each((*Proxy).CutUp)
}

// HoldReplies cuts the way down.
func (n *Network) HoldReplies() { n.Each((*Proxy).CutDown) }

// Heal ends both cuts. Held bytes arrive late.
func (n *Network) Heal() { n.Each((*Proxy).Heal) }

// Reset resets all connections. Held bytes are dropped.
func (n *Network) Reset() { n.Each((*Proxy).Reset) }

// Strand breaks the connections for the client only. It fails the test if
// HoldRequests has held nothing since: then the test strands no request.
func (n *Network) Strand() {
	if n.Held() == 0 {
		n.t.Error("netproxy: no request is held that could be stranded: the test tests nothing")
	}
	n.Each((*Proxy).Strand)
}

// Deliver delivers the stranded requests.
func (n *Network) Deliver() { n.Each((*Proxy).Deliver) }

// Held counts the bytes of the client that are held since HoldRequests, or were
// held and are lost.
func (n *Network) Held() int64 { return n.heldUp() - n.before }

// heldUp counts the client's bytes that are held, or were held and are lost.
func (n *Network) heldUp() (sum int64) {
	for _, p := range n.order {
		sum += p.Stats().HeldUp
	}
	return sum
}
