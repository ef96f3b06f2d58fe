// Package onetcd runs the worlds of package simulation on a real etcd in
// virtual time, see package virtualetcd: each client has Baton's engine and
// driver, clientv3 and gRPC, on a link of its own.
package onetcd
