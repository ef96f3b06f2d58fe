// Package coordinator connects a process to a coordination service, etcd,
// ZooKeeper or one in memory, and keeps its session alive.
//
//	client, err := coordinator.Open("etcd://10.0.0.1:2379,10.0.0.2:2379/orders?ttl=10s")
//	...
//	defer client.Close(context.Background())
//	m, err := mutex.New(client, "nightly-report")
//
// A [Client] holds one [Session] at a time. Everything the process holds, it
// holds through that session: when the session ends, all of it is gone. A
// client whose session was lost opens another one for the next attempt; what
// was held through the lost one stays lost.
//
// # Session life
//
//	            no answer                 deadline passed,
//	connected ------------> suspended -------------------+
//	    ^  \                   |     or the service says  |
//	    |   \                  |       that it is over    v
//	    +----\-----------------+                        lost
//	          \        answer                             ^
//	           +--------- the service says that it is over+
//
// # The loss clock
//
// The session is renewed every quarter of its TTL. A renewal that was sent at
// time t and acknowledged keeps the session until t + TTL - margin on this
// process's monotonic clock; [Session.Deadline] shows that moment. It is
// counted from the sending, since the service counts from the arrival, which is
// later: so the contexts of all holds end before the service can give a name to
// anyone else. The margin is a tenth of the TTL, for clocks that run at
// different speeds, plus what the driver needs (a quarter of the TTL on
// ZooKeeper, whose followers report renewals to their leader with a delay). An
// acknowledgement that arrives after the deadline revives nothing.
//
// # What is not promised
//
// A process that is stopped (SIGSTOP, a long pause of the scheduler) cannot
// watch its clock. When it goes on, the contexts of its holds are dead at the
// first look, but a write that it had already begun goes out. While a whole
// machine is suspended Linux's monotonic clock stands still; so Err asks the
// service when the deadline has passed by the wall clock alone, and whoever
// only listens to Done is told a moment later. Give the fencing token of the
// hold to the resource and let the resource refuse smaller ones.
//
// # Errors
//
// [ErrUnavailable], [ErrTaken] and [ErrSessionLost] tell the three usual
// failures apart: the service is away, the name is taken, the session is over.
// A context that ends while a call waits its turn comes back as [context.Cause]
// gives it. [MayHaveApplied] tells whether a failed call may have changed the
// service.
package coordinator
