// Package coordinatortest is the conformance suite of Baton's drivers.
//
// Package driver states its contract in numbered clauses; [Run] checks a driver
// against every clause that can be checked from outside. Each case is named
// after its clause:
//
//	func TestConformance(t *testing.T) {
//		coordinatortest.Run(t, coordinatortest.Harness{Start: start, TTL: 4 * time.Second})
//	}
//
// # Writing a harness
//
// The suite needs a running service, clients of it that are independent of each
// other, and levers that hurt both. [Harness], [Service], [Client] and [Link]
// say what each lever must do. A harness for a real service puts one TCP proxy
// in front of it for each client, in the test's process:
//
//   - the client's driver dials its proxy and nothing else;
//   - HoldRequests and HoldReplies stop copying bytes in one direction, without
//     closing anything, and accept new connections under the same rule;
//   - Heal copies again, first what was held, in order;
//   - Reset closes the client's side of all connections with an RST
//     (SetLinger(0)), closes the service's side, and drops what was held. Holds
//     stay in force for new connections;
//   - Strand closes the client's side with an RST and heals, but keeps the
//     service's side of every old connection open, with the requests that were
//     held. Replies on it are read and thrown away;
//   - Deliver writes those requests to the old connections and, a little later,
//     closes them. Errors in that are fine: the service may have closed the
//     connection, which is one way to keep the contract.
//
// None of this may wait for long or for the service. The suite calls the levers
// from the goroutine of the case, one at a time.
//
// # Missing levers and capabilities
//
// A harness that cannot do something names the lever in [Harness.Lacks] with
// the reason, and so it names a capability that the driver does not have. The
// cases that need it are skipped with that reason, and Run logs at the end
// which clauses were not checked, or not by all their cases. What is neither
// there nor named fails the run.
//
// # Time
//
// What must happen is waited for, up to Patience. What must not happen is
// looked for after Settle. The order of events is never asserted by sleeping.
//
// # What a pass means
//
// The suite is tested with drivers that are broken on purpose: each case has at
// least one that it finds. Levers that hold a call up are checked as they are
// used, but nothing shows that Deliver delivers: a harness should prove that on
// a plain request before its result is believed. A case that leaks goroutines
// only fails inside a bubble.
package coordinatortest
