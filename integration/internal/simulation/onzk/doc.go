// Package onzk runs the worlds of package simulation on a ZooKeeper ensemble in
// virtual time, see package virtualzk: each client has Baton's engine and
// driver, and the client library, on a link of its own.
//
//	service.go  the service, and its links
//	queues.go   the queues, read from the transactions
//	shared.go   queues in the layouts of other clients
//	faults.go   what only ZooKeeper's members do
package onzk
