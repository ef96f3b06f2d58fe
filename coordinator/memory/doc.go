// Package memory is a coordination service that lives in this process: a driver
// of Baton with the semantics of a real service and no server to start.
//
// It serves two purposes. A program of one process can run on it, and tests can
// do to it what a network and an operator do to a real service: expire a
// session, delete an entry, cut a client off, delay, lose or answer late.
//
// # One service, many clients
//
//	svc := memory.NewService()
//	a, b := svc.Driver(), svc.Driver() // two clients, each with its own link
//
// A [Service] holds what a server would hold: the revision counter that tokens
// come from, sessions with their timers, lines, entries and watches. A [Driver] is one
// client. Everything between the two passes over the client's link, answers and
// notifications included, so the client knows only what reached it.
//
//	Driver --request--> [delay][hold] --> Service
//	Driver <-- reply, notification -- [hold][delay] <-- Service
//
// # Guarantees
//
// It keeps every clause of package driver and is run against the conformance
// suite in coordinator/coordinatortest. A session ends when the service's own
// timer says so; a renewal counts from its arrival. A lost session takes its
// entries and watches with it in one step.
//
// Forget (clause F1) needs a service that refuses a Join which arrives late. Here
// each session has an epoch: Forget raises it, every Join carries the epoch of the moment it
// was called, and the service refuses a Join of an older epoch with
// ErrUnavailable. It costs one number for each session, whatever the number of
// contenders forgotten, and a real service can do the same with one guarded key.
//
// Write (clause P1) is guarded in the same way: the client numbers its calls, and an entry refuses a
// number below the latest that it has seen. Convert needs no number. The key of a place is never used
// again, so a conversion that is late finds nothing to convert (M4).
//
// # Time
//
// There are only channels and timers, and no lock is held over a wait, so a service
// made inside a testing/synctest bubble runs in virtual time. Without faults a
// call takes no time and starts no goroutine. The driver has no
// goroutines at all: what is under way is a timer, and a timer that fires after
// Close does nothing, so a bubble ends without leaks even when a session or driver
// was never closed.
//
//	synctest.Test(t, func(t *testing.T) {
//		svc := memory.NewService() // inside the bubble
//		d := svc.Driver()
//		... hand d to the code under test; it takes a lock ...
//		d.Cut()
//		time.Sleep(ttl)            // no real time passes
//		synctest.Wait()
//		... the code has noticed, and somebody else has the lock ...
//	})
//
// # Levers
//
//	an operator's hand   Service.Expire, Remove, RemoveRecord, AddForeign
//	the whole service    Service.Stop, Start
//	one client's link    Driver.Cut, HoldRequests, HoldReplies, Heal, Delay, Reset, Strand, Deliver
//	one request          Service.OnRequest
//	a lagging replica    WithStaleViews
//	what happens         Service.OnStep
//	what it cost         Service.Stats, Driver.Stats; Service.Snapshot, Record, Lines, Sessions look and cost nothing
//
// # Not guaranteed
//
// Nothing survives the process, and nothing is shared between processes. Requests
// of one link that are delayed by the same time may change places on the
// way, as requests of concurrent callers do on every service. Which goroutine
// runs first when one event wakes several is up to Go's scheduler, in virtual time too.
package memory
