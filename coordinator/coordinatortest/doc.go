// Package coordinatortest is the conformance suite of Baton's drivers. It is
// experimental: a minor version may change it.
//
// Package driver states its contract in numbered clauses. [Run] checks a driver
// against every clause that can be observed. Each case is named after its
// clause:
//
//	func TestConformance(t *testing.T) {
//		coordinatortest.Run(t, coordinatortest.Harness{Start: start, TTL: 4 * time.Second})
//	}
//
// # Writing a harness
//
// The suite needs a running service, independent clients of it, and levers that
// cause faults. [Harness], [Service], [Client] and [Link] say what each lever
// must do. For a service that is reached by TCP, package netproxy below this
// one has the link:
//
//	Connect: func() (coordinatortest.Client, error) {
//		link := netproxy.NewNetwork(t, []string{"127.0.0.1:8500"})
//		d, err := consul.Open(&url.URL{Scheme: "consul", Host: link.Addrs()[0]})
//		return coordinatortest.Client{Driver: d, Link: link}, err
//	},
//
// The client's driver dials its proxy and nothing else. No lever may block for
// long or on the service. The suite calls levers from the goroutine of the
// case, one at a time.
//
// Package coredriver below this one is a template of a driver, with its
// harness. docs/drivers.md is the guide.
//
// # Missing levers and capabilities
//
// [Harness.Lacks] names the levers that a harness lacks and the capabilities
// that its driver lacks, with reasons. Run skips the cases that need them, and
// logs the clauses that were not checked, or not by all their cases. Any other
// missing lever or capability fails the run.
//
// # Time
//
// The suite waits up to Patience for what must happen, and for Settle to see
// that something does not happen. It never asserts an order by sleeping.
//
// # What a pass means
//
// The suite's own tests have a broken driver for each case that must fail it.
// The suite checks that held links do hold calls, but not that Deliver
// delivers: a harness must prove that with a plain request. Leaked goroutines
// fail a case only inside a Bubble. No case has a member that answers renewals
// although the service has deposed it: there is no lever that makes one on any
// service. A driver's own tests show that such a renewal does not count (R1).
package coordinatortest
