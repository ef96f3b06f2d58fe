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
// If Redis has forgotten a release, the old entry blocks its name until the
// session that released notices, within a TTL, and removes it again. Forgotten
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
// later is needed, and from Redis 6 on a user with these rights (a cluster
// before Redis 7 needs +cluster as well):
//
//	ACL SETUSER app on >secret ~baton:{/namespace}:* &baton:{/namespace}:*
//	    +@all -@dangerous
//
// A user who may write the keys can take and end every lock of the namespace.
// One who may read them sees names, holders and values. One who may only
// publish on the channels, as each user may in Redis 6 by default, can cause
// reads, and decides nothing. One who may only subscribe sees the names of
// contended locks.
//
// In a cluster all keys of a namespace have one hash tag, so one master serves
// them, and a session does not depend on the others. Use several namespaces to
// spread the load. While a cluster moves the keys to another master, sessions
// are renewed. But other requests fail while their keys are on both, and joins
// of a name that nobody holds fail from the start to the end of the move, since
// Redis cannot tell a key that was moved from one that does not exist.
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
// protocol.lua has the keys and the scripts. All that decide something write,
// or could have: a replica, which lags, refuses them. An entry counts while its
// session lives; a script that meets one of a dead session removes it. Each
// renewal also finds the sessions that have expired, and a wait reads when the
// session that it waits for would expire. So the next is granted within a
// moment.
//
// The script that removes an entry publishes to the sessions that watch it, on
// a channel and connection of each session. A message is a hint, since it can
// be lost or forged: a read decides. So waits also read every 10 s, and every
// 200 ms while there is no subscription. A read at a server that gets no
// renewals, for example an old master, ends the wait within a TTL. A release
// wakes the contender that waits for it alone; with permits, all waiters, since
// no entry can change.
//
// To end a session by hand: ZADD baton:{/namespace}:sessions XX 0 id
package redis
