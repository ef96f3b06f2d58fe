// Package redis is Baton's driver for Redis: one server, a server that
// Sentinels name, or a cluster.
//
// # What is not guaranteed
//
// A failover can forget a grant. Redis replicates asynchronously: a replica
// that is promoted may lack the latest joins, releases, renewals and records.
// It grants a name again while the first holder still works; so may an old
// master that still runs. The first holder learns of it only when it reaches
// the new master. If two holders must never write, do one of these:
//
//   - show the token to the resource, and let it refuse a lower one: see
//     package fence. Tokens follow the clock, so they rise even over a failover
//     that forgets some, unless the new master's clock is behind by more time
//     than the failover took;
//   - hold the name on most of several independent servers, which is Redlock's
//     answer: package recipes/multilock/quorum;
//   - use a service with consensus: packages etcd and zookeeper.
//
// If Redis has forgotten a release, the session that released ends at its next
// request, with all its holds: the old entry would block the name. Forgotten
// renewals do no harm if the replica lagged by less than a tenth of the TTL.
//
// The same holds for a server that restarts without its latest writes: run it
// with appendonly yes. With appendfsync everysec, a crash of the machine
// forgets about a second, with always nothing. The driver does not use WAIT,
// which would make all this rarer, not impossible.
//
// The driver cannot downgrade a write lock, release a part of a permit, change
// the value of a held election or a group's member, list the queues of a
// service, or remove the entry of another session: these are driver.ErrInvalid.
//
// # Settings
//
// Set maxmemory-policy to noeviction, Redis' default: the allkeys policies can
// evict sessions and queues, and grants with them. When Redis has reached
// maxmemory it refuses joins, but renewals, waits and releases work. Redis 5 or
// later is needed, and a user with these rights, or only to the keys and
// channels "baton:{/namespace}:*":
//
//	ACL SETUSER app on >secret ~baton:* &baton:* +@all -@dangerous
//
// A cluster before Redis 7 needs +cluster as well. In a cluster all keys of a
// namespace have one hash tag, so one master serves them, and a session does
// not depend on the others. Use several namespaces to spread the load.
//
// # The clock
//
// A session ends when the server's wall clock says so. It has its whole TTL
// from the moment at which the server applied the latest renewal, and Baton
// counts from the moment before sending it, less a margin of a tenth of the
// TTL, which covers the drift of the clock. Steps
// are a limit: if the clock jumps forward by more than the margin, sessions end
// before their holders know, and if it jumps back, they last longer. After a
// failover the offset between the servers' clocks counts as a step.
//
// # The protocol
//
// protocol.lua has the keys and the scripts. An entry counts while its session
// lives; a script that meets one of a dead session removes it. Each renewal
// also finds the sessions that have expired, so that is noticed within a tenth
// of the other clients' TTL. The script that removes an entry publishes to the
// sessions that watch it, on a channel and connection of each session. Messages
// can be lost, so waits also read every 10 s, and every 200 ms while there is
// no subscription.
//
// To end a session by hand: ZADD baton:{/namespace}:sessions XX 0 id
package redis
