// Package memory is a coordination service that lives in this process, for
// tests of services that use Baton: no server to start, virtual time, and
// levers that do to it what a network and an operator do to a real one. A
// program of one process can run on it, too.
//
//	func TestAnotherReplicaLeadsAfterACrash(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			svc := memory.NewService()                // the coordination service
//			link := svc.Driver()                      // one client's link to it, with levers
//			client, err := coordinator.New(link, coordinator.WithTTL(30*time.Second))
//			... give client to the first replica, and one with a link of its own to the second ...
//			link.Cut()                                // the first one's machine dies
//			time.Sleep(30 * time.Second)              // no real time passes
//			synctest.Wait()
//			... the second one goes on ...
//		})
//	}
//
// docs/testing.md is the guide, and examples/scheduler a service with such
// tests.
//
// # One service, many clients
//
// A [Service] holds what a server would hold. A [Driver] is one client's link
// to it. Everything that passes between the two passes over that link, so a
// client knows only what has reached it.
//
//	Driver --request--> [delay][hold] --> Service
//	Driver <-- reply, notification -- [hold][delay] <-- Service
//
// # Levers and what to look at
//
// The levers of a link are methods of Driver; those of the service are methods
// and options of Service; [Service.OnRequest] decides over single requests.
// What it cost is in Stats, what happened in Tally and [Service.OnStep], what
// is there in Snapshot and its like, which are no requests.
//
// # Time
//
// There are only channels and timers, and no lock is held over a wait, so a
// service made in a testing/synctest bubble runs in virtual time. Without
// faults a call takes no time and starts no goroutine. The driver has no
// goroutines: what is under way is a timer, and a timer that fires after Close
// does nothing. A coordinator.Client has goroutines: close it before its bubble
// ends.
//
// # Guarantees
//
// It keeps every clause of package driver and is run against the conformance
// suite in coordinator/coordinatortest.
//
// Nothing survives the process: memory:// opens a new service each time.
// Requests of one link that are delayed by the same time may change places on
// the way, as requests of concurrent callers do on every service. Which
// goroutine runs first when one event wakes several is up to Go's scheduler, in
// virtual time too.
package memory
