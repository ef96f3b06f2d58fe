// Package zkconn is the fence around the client library: one session at a
// ZooKeeper ensemble, whose requests end with their contexts and which is over
// for ever once the service has ended it.
//
// The client is github.com/go-zookeeper/zk. Its connection, called the client
// below, has faults that would break the promises of a lock. This package deals
// with each of them without going below the library's API: it is the client's
// dialer, its list of servers and its logger, and it reads and writes messages
// only where no part of the API gives what they say.
//
//   - A request has no context, and blocks for as long as the service is away.
//     Each runs in a goroutine of its own, and is not handed to the client
//     while that has no connection (request.go).
//   - After an expiry the client goes on with a new session, on which it sends
//     what was queued for the old one. The dialer refuses once the session is
//     over, and so does a connection with another session (link.go).
//   - The client hides the timeout that the service granted. The connection
//     reads it from the handshake, and refuses another one than was asked for
//     (link.go).
//   - It waits for a silent server for six times the TTL, and for a second
//     before it connects again. The dialer and the list of servers have shorter
//     times, and a server that answers no request for a quarter of the TTL is
//     left (link.go, hosts.go, wire.go).
//   - A write that fails can block the client for ever. The connection reports
//     failures on the reading side only (wire.go).
//   - Its Close does not say whether the service ended the session. Close here
//     ends it on a connection of its own (link.go, wire.go).
//   - A watch cannot be given up, and setting watches again after a reconnect
//     is a data race. Waiters for the same thing share one watch, and a lost
//     connection makes all of them fire (watch.go, wire.go).
//
// Errors have the kinds of package driver, with the library's error as the
// cause (errors.go).
package zkconn
