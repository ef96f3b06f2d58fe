// Package zkconn wraps the client library: one session at a ZooKeeper ensemble,
// whose requests end with their contexts, and which never comes back once the
// service has ended it.
//
// The client is github.com/go-zookeeper/zk. Its connection, called the client
// below, has faults that would break the promises of a lock. This package works
// around them through the library's API: it provides the client's dialer, list
// of servers and logger. It reads and writes messages only where the API does
// not show their content.
//
//   - A request has no context, and blocks while the service is away. Each runs
//     in its own goroutine, and only while the client is connected
//     (request.go).
//   - After an expiry the client continues with a new session, on which it
//     sends what was queued for the old one. The dialer refuses once the
//     session is over, and so does a connection with another session (link.go).
//   - The client hides the timeout that the service granted. The connection
//     reads it from the handshake, and accepts no other than the requested one;
//     a shorter one ends the session (link.go).
//   - The client waits for a silent server for six times the TTL, and for a
//     second before it reconnects. The dialer and the list of servers have
//     shorter times, and a server that answers no request for a quarter of the
//     TTL is left (link.go, hosts.go, wire.go).
//   - A failed write can block the client for ever. The connection reports
//     failures to the reader only (wire.go).
//   - The client's Close does not report whether the service ended the session.
//     Close here ends it on its own connection (link.go, wire.go).
//   - A watch cannot be removed, and setting watches again after a reconnect is
//     a data race. Waiters for the same target share one watch, and all watches
//     fire when the connection is lost (watch.go, wire.go).
//
// Errors have the kinds of package driver, with the library's error as the
// cause (errors.go).
package zkconn
