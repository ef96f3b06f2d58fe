// Package virtualetcd runs a real etcd server in virtual time: see
// testing/synctest. Clients use clientv3 and gRPC on connections in memory.
//
// The server has one member, without sockets: bbolt, raft, lessor and gRPC are
// etcd's own. Clients see it as several members, each a gRPC server of its own.
// A member can lag, stop to apply, answer nothing, or believe that it still
// leads: see [Condition]. Interceptors between gRPC and the server do that, so
// such a member is a model, while a healthy one is etcd.
//
//	bubble.go     what the etcds of a bubble share
//	etcd.go       the server: start, stop, restart on its data
//	link.go       the network of a client: cut, hold, delay, reset, strand
//	conn.go       a connection, pipe.go one direction of it
//	member.go     a member, condition.go what can be wrong with it
//	request.go    what a member does with a request, stream.go with a message of
//	              a stream; the fate of a single one
//	operator.go   leases, keys, compaction, alarms, authentication
//	changes.go    every change, in the order in which the server applies them
//	client.go     clients of etcd, and Baton's drivers
//
// # What is not etcd's
//
// All members share one leader, lessor and history. A new leader, after one was
// deposed, gives leases no new TTL, which is stricter than etcd. A compaction
// does not pass a member that lags.
//
// # Order
//
// A message takes a random time of some nanoseconds to 200 microseconds, which
// the seed determines; what is written to a connection at one instant arrives
// together. The server itself takes no virtual time. But its goroutines, those
// of gRPC and of the client library run in the scheduler's order and choose
// among ready channels by chance, so a run is not repeated exactly.
//
// # One bubble at a time
//
// clientv3 has one channel of the process that must be of the bubble, and a
// driver's own client dials through one dialer of the process. So all etcds of
// a process are in one bubble at a time. Several in it are clusters of their
// own, each with its revisions, leases and members.
package virtualetcd
