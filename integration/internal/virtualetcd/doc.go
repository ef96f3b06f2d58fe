// Package virtualetcd has tests with a real etcd server, clientv3 and gRPC in
// virtual time: see testing/synctest. The server has one member, without
// sockets, and clients see it as several: each has a gRPC server of its own,
// which can stop to apply what the others do.
//
// clientv3 has one channel of the process that must be of the bubble. So these
// tests are a package of their own, and run one after the other.
package virtualetcd
