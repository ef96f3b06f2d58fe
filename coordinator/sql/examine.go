package sql

import (
	"context"
	stdsql "database/sql"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/baton-go/baton/coordinator/driver"
)

// oldSnapshot is the age of a snapshot that Examine warns of.
const oldSnapshot = 5 * time.Minute

// exposes reports whether a password may cross a network without TLS.
func exposes(cfg *pgx.ConnConfig) bool {
	exposed := cfg.TLSConfig == nil && remote(cfg.Host)
	for _, other := range cfg.Fallbacks {
		exposed = exposed || other.TLSConfig == nil && remote(other.Host)
	}
	return exposed && cfg.Password != ""
}

// remote reports whether a host is not this machine.
func remote(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host != "localhost" && !strings.HasPrefix(host, "/") && (ip == nil || !ip.IsLoopback())
}

// Examine implements driver.Examiner.
func (d *sqlDriver) Examine(ctx context.Context) (found []driver.Finding) {
	if d.exposed {
		f := driver.Found(driver.Warning, "connection", "the password may be sent without TLS")
		found = append(found, f.So("set sslmode=verify-full (postgres) or tls=true (mysql) in the URL"))
	}
	if d.dialect != Postgres {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return append(found, append(d.strangers(ctx), d.snapshots(ctx)...)...)
}

// strangers finds schemas in which each role may create functions. PostgreSQL
// chooses among functions and operators of one name by the types of their
// arguments, so a role that may create some there can have a client call them
// in place of Baton's, with the rights of the client's role.
func (d *sqlDriver) strangers(ctx context.Context) (found []driver.Finding) {
	err := d.ask(ctx, d.db, "SELECT name FROM unnest(current_schemas(false)) AS name "+
		"WHERE has_schema_privilege('public', name, 'CREATE')", nil, func(r *stdsql.Rows) error {
		var name string
		err := r.Scan(&name)
		f := driver.Found(driver.Warning, "rights", "each role may create functions in the schema %.80q: "+
			"it can take and end every lock, with the rights of this client", name)
		found = append(found, f.So("as its owner: REVOKE CREATE ON SCHEMA … FROM PUBLIC"))
		return err
	})
	if err != nil {
		return nil // opening the session reports it
	}
	return found
}

// snapshots finds a transaction whose snapshot is old.
func (d *sqlDriver) snapshots(ctx context.Context) (found []driver.Finding) {
	var age float64
	err := d.ask(ctx, d.db, "SELECT COALESCE(MAX(CAST(EXTRACT(EPOCH FROM clock_timestamp() - xact_start) "+
		"AS double precision)), 0) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL "+
		"AND datname = current_database()", nil, func(r *stdsql.Rows) error { return r.Scan(&age) })
	if err != nil {
		return nil // opening the session reports it
	}
	if old := time.Duration(age * float64(time.Second)); old > oldSnapshot {
		f := driver.Found(driver.Warning, "snapshots", "a transaction with a snapshot has been open for %v: "+
			"the database keeps all row versions since, and locks and renewals become slower", old.Round(time.Second))
		found = append(found, f.So("end it (pg_stat_activity shows it); dump a replica, or set idle_in_transaction_session_timeout"))
	}
	return found
}
