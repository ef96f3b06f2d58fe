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
	var age float64
	err := d.ask(ctx, d.db, "SELECT COALESCE(MAX(CAST(EXTRACT(EPOCH FROM clock_timestamp() - xact_start) "+
		"AS double precision)), 0) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL "+
		"AND datname = current_database()", nil, func(r *stdsql.Rows) error { return r.Scan(&age) })
	if err != nil {
		return found // opening the session reports it
	}
	if old := time.Duration(age * float64(time.Second)); old > oldSnapshot {
		f := driver.Found(driver.Warning, "snapshots", "a transaction with a snapshot has been open for %v: "+
			"the database keeps all row versions since, and locks and renewals become slower", old.Round(time.Second))
		found = append(found, f.So("end it (pg_stat_activity shows it); dump a replica, or set idle_in_transaction_session_timeout"))
	}
	return found
}
