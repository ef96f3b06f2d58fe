// Package sql is Baton's driver for PostgreSQL, MySQL and MariaDB.
//
// A database is not a service with consensus. A replica that is promoted
// without the primary's last commits has lost the grants in them, grants those
// names again and repeats their tokens. So does a server that crashes and does
// not write each commit to disk. A lost release blocks its name until the
// session that released notices, within a TTL. Replicate synchronously, show
// the token to the resource, or use a service with consensus.
//
//	import batonsql "github.com/baton-go/baton/coordinator/sql"
//
//	_, err := batonsql.Migrate(ctx, db, batonsql.Postgres) // or: baton migrate
//	client, err := coordinator.Open("postgres://user:password@db:5432/app?ttl=10s")
//
// Each call is one statement in a transaction of its own, at the isolation
// level read committed. So a client that is stopped or cut off holds no lock,
// and pools and proxies may use another connection for each call. All clients
// must use the primary, and of a Galera cluster the same node.
//
// A name has a row, which a join locks, so the order of commits is that of
// tokens. The row and the last token are never deleted.
//
// A session is a row with the time, by the database's clock, at which it
// expires. The next client that meets it after that deletes it, and until then
// it counts. The server counts the TTL from a later moment than the client,
// which counts from sending the renewal: so the client's deadline is early
// enough. The driver allows for a clock that is 250 ms ahead, after a step or
// on a promoted replica. A clock that is set back delays the end of dead
// sessions.
//
// A client checks the entries that its contenders wait for, many in a query. On
// PostgreSQL it is notified of entries that left, which is a hint to check, and
// also checks every two seconds. Where notifications do not arrive, and on
// MySQL, it polls every 1 to 250 ms. Each check shows whether the client's own
// session lives: one on a server that gets no renewals ends the waits within a
// TTL. A release of a permit wakes all waiters, since no entry can change.
package sql
