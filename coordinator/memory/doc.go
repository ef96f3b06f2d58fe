// Package memory is a coordination service in this process, for tests of
// programs that use Baton. It needs no server, runs in virtual time, and can
// simulate faults of the network and actions of an operator. A program of one
// process can use it too.
//
//	func TestAnotherReplicaLeadsAfterACrash(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			svc := memory.NewService()   // the coordination service
//			link := svc.Driver()         // one client's link to it
//			client, err := coordinator.New(link, coordinator.WithTTL(30*time.Second))
//			... pass client to the first replica, and another client to the second ...
//			link.Cut()                   // the first machine dies
//			time.Sleep(30 * time.Second) // in virtual time
//			synctest.Wait()
//			... the second replica has the lock ...
//		})
//	}
//
// docs/testing.md is the guide. examples/scheduler has tests of this kind.
//
// # One service, many clients
//
// A [Service] is the server. A [Driver] is one client's link to it. Requests,
// replies and notifications pass over that link:
//
//	Driver --request--> [delay][hold] --> Service
//	Driver <-- reply, notification -- [hold][delay] <-- Service
//
// # Faults and observations
//
// Methods of Driver cause faults of a link. Methods and options of Service
// cause those of the service. [Service.OnRequest] decides about single
// requests. Stats counts requests, Tally and [Service.OnStep] show events, and
// [Service.Snapshot], Record, Queues and Sessions show the data.
//
// # Time
//
// A service made in a testing/synctest bubble runs in virtual time. Without
// faults a call takes no time. The driver has no goroutines. A
// coordinator.Client has goroutines: close it before its bubble ends.
//
// # Guarantees
//
// The package keeps every clause of package driver, and passes the conformance
// suite in coordinator/coordinatortest. Each Open of memory:// makes a new
// service. Concurrent requests of one link may arrive in any order. When one
// event wakes several goroutines, Go's scheduler decides which runs first, in
// virtual time too.
package memory
