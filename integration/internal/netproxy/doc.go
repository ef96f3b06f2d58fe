// Package netproxy is a TCP proxy inside the test process that breaks one
// client's network on command.
//
// Give each client that shall fail apart from the others a proxy of its own and
// the proxy's address instead of the server's:
//
//	proxy, err := netproxy.New(cluster.Endpoints())
//	...
//	proxy.Cut()      // packets vanish into a hole: connections stay open, nothing arrives
//	proxy.Heal()     // what was held arrives late, as after a real partition
//
// The levers differ in what becomes of bytes under way, because that is what
// breaks locks:
//
//	Cut, CutUp, CutDown   hold them; no side learns anything
//	Heal                  delivers late what was held
//	DropHeld              heals, but resets connections instead of delivering late
//	Delay                 delivers each byte that much later
//	Reset                 resets (RST) the connections that are open now
//	Strand                resets them for the client only; what was held waits at the server's side
//	Deliver               delivers that, on connections that the client has long forgotten
//	Refuse, Reject        turn away new connections; Admit takes them again
//	LoseReply             lets one request be applied and resets instead of replying
//	LoseRequest           resets instead of forwarding one request
//	HoldReply             lets one request be applied and holds its reply
//
// "Up" is from the client to the server, "down" the other way.
//
// The last three have to tell requests from replies. A [Sniffer] does: zkwire's
// and h2wire's know ZooKeeper's and gRPC's framing and pick requests by name.
// Without one, any bytes count as a request, so keep-alives and watch events
// can set them off.
//
// The proxy holds up to about 8 MiB per connection and direction; then it stops
// reading, as a full network would.
package netproxy
