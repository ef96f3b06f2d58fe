// Package onetcd runs the worlds of package simulation on a real etcd in
// virtual time, see package virtualetcd. Each client has Baton's engine and
// driver, clientv3 and gRPC, on a link of its own.
//
//	service.go   the service: its data, and what an operator does
//	link.go      the process of a client
//	external.go  clients whose sessions are on old leases of others
//	layout.go    what the driver stores, read without its code
//	steps.go     the changes of a revision as steps
//	message.go   what a request asks for, fate.go what becomes of it
//	faults.go    the faults that only etcd has
//
// A seed is not repeated exactly: the goroutines of the server, of gRPC and of
// clientv3 choose among ready channels by chance. Run a seed that failed some
// times.
package onetcd
