// Package netproxy is a TCP proxy inside the test process that injects faults
// into one client's network. It is for tests of a driver or of a service, with
// a real server of any protocol. It is experimental: a minor version may change
// it.
//
// Each client that is to fail independently gets its own proxy, and the proxy's
// address instead of the server's:
//
//	proxy, err := netproxy.New([]string{"127.0.0.1:2379"})
//	...
//	proxy.Cut()      // packets are lost: connections stay open, nothing arrives
//	proxy.Heal()     // held bytes arrive late, as after a real partition
//	proxy.Close()
//
// A [Network] is one proxy in front of each of several servers, and the Link of
// a harness of the conformance suite.
//
// The faults differ in what happens to bytes in flight, because that is what
// breaks locks:
//
//	Cut, CutUp, CutDown   hold them; neither side notices
//	Heal                  delivers held bytes late
//	DropHeld              heals, but resets connections instead of delivering late
//	Delay                 delivers each byte that much later
//	Reset                 resets (RST) the connections that are open now
//	Strand                resets them for the client only; held bytes stay at the server's side
//	Deliver               delivers those, on connections that the client has lost
//	Refuse, Reject        turn away new connections; Admit accepts them again
//	LoseReply             lets one request be applied and resets instead of replying
//	LoseRequest           resets instead of forwarding one request
//	HoldReply             lets one request be applied and holds its reply
//
// "Up" is from the client to the server, "down" the other way.
//
// The last three must distinguish requests from replies. A [Sniffer] that knows
// the protocol does that, and selects requests by name. Without one, any bytes
// count as a request, so keep-alives and watch events can trigger them.
//
// The proxy holds up to about 8 MiB per connection and direction; then it stops
// reading, as a full network would.
package netproxy
