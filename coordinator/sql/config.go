package sql

import (
	"context"
	stdsql "database/sql"
	stddriver "database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

//go:embed schema_*.sql
var schemas embed.FS // the tables and routines

const schemaVersion = 1

func init() {
	for _, scheme := range []string{"postgres", "postgresql", "mysql"} {
		coordinator.Register(scheme, Open)
	}
}

// New makes a driver on a pool of connections of github.com/jackc/pgx/v5/stdlib
// or github.com/go-sql-driver/mysql, which the caller still owns. Give the pool
// a maximum of connections, and do not keep them all busy, since renewals need
// one. On PostgreSQL another is used for notifications, unless the maximum is
// below 3 now: then the driver polls. Open MySQL's with interpolateParams=true:
// without it a call takes two round trips. Bad input is driver.ErrInvalid.
//
// All queues are below the namespace, a path ("apps/orders") that may be empty.
func New(db *stdsql.DB, dialect Dialect, namespace string) (driver.Driver, error) {
	namespace, err := driver.Namespace(namespace)
	if db == nil || !dialect.known() {
		err = invalid("New needs a database, and dialect %s or %s", Postgres, MySQL)
	}
	if err != nil {
		return nil, err
	}
	most := db.Stats().MaxOpenConnections
	return &sqlDriver{
		db: db, renewals: db, dialect: dialect, namespace: namespace, name: string(dialect) + "://",
		listens: dialect == Postgres && (most <= 0 || most > 2),
	}, nil
}

// Open makes a driver from a URL, which uses up to six connections:
//
//	postgres://user:password@h1,h2/database?sslmode=verify-full
//	mysql://user:password@h1/database?tls=true&namespace=apps/orders
//
// The scheme postgresql means the same as postgres. namespace is that of [New].
// With postgres all other parameters are those of pgx, which are libpq's; of
// several hosts the first that accepts writes is used. With mysql there is one
// host, and the only other parameter is tls: true, false (the default),
// skip-verify or preferred. Errors and the driver's String show no password.
func Open(u *url.URL) (driver.Driver, error) {
	if u == nil || u.Fragment != "" { // which may be the end of a password
		return nil, invalid("no URL, or one with a fragment; write # as %%23")
	}
	params := u.Query()
	namespace, err := driver.Namespace(params.Get("namespace"))
	params.Del("namespace")
	d := &sqlDriver{namespace: namespace, name: u.Scheme + "://" + u.Host + u.Path}
	var connector stddriver.Connector
	switch {
	case err != nil:
	case u.Scheme == "postgres" || u.Scheme == "postgresql":
		d.dialect, d.listens = Postgres, true
		connector, err = postgres(*u, params)
	case u.Scheme == "mysql":
		d.dialect = MySQL
		connector, err = mySQL(u, params)
	default:
		err = invalid("scheme %q; want postgres, postgresql or mysql", u.Scheme)
	}
	if err != nil {
		return nil, err
	}
	d.db, d.renewals = pool(connector, 4), pool(connector, 2)
	return d, nil
}

// pool returns a pool of a few connections: databases have few. Firewalls
// silently forget those that are idle for longer.
func pool(connector stddriver.Connector, conns int) *stdsql.DB {
	db := stdsql.OpenDB(connector)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(30 * time.Second)
	db.SetConnMaxLifetime(5 * time.Minute) // leaves a server that has become a replica
	return db
}

func postgres(u url.URL, params url.Values) (stddriver.Connector, error) {
	// Of repeated parameters the first counts.
	u.RawQuery = strings.TrimPrefix(
		params.Encode()+"&target_session_attrs=read-write&connect_timeout=2", "&")
	cfg, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, invalid("postgres URL: %w", err) // pgx hides the password
	}
	return stdlib.GetConnector(*cfg), nil
}

func mySQL(u *url.URL, params url.Values) (stddriver.Connector, error) {
	p := driver.NewParams(&url.URL{RawQuery: params.Encode()})
	cfg := mysql.NewConfig()
	cfg.TLSConfig = p.String("tls", "false")
	hosts, err := driver.Hosts(u, "3306")
	if err := errors.Join(err, p.Err()); err != nil {
		return nil, err
	}
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", hosts[0], strings.Trim(u.Path, "/")
	if len(hosts) > 1 || cfg.DBName == "" {
		return nil, invalid("mysql URL; want one host and a database, mysql://host:3306/database")
	}
	cfg.User, cfg.InterpolateParams, cfg.Logger = u.User.Username(), true, &mysql.NopLogger{}
	cfg.Passwd, _ = u.User.Password()
	cfg.RejectReadOnly = true // leaves a server that has become a replica
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, invalid("mysql URL: %w", err)
	}
	return bounded{connector}, nil
}

// bounded ends attempts to connect: those that database/sql makes for waiting
// calls have no deadline, and one that hangs in the handshake stops the others.
type bounded struct{ stddriver.Connector }

func (b bounded) Connect(ctx context.Context) (stddriver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return b.Connector.Connect(ctx)
}

// Migrate is [Migrate] for the database of a URL, which baton migrate calls.
func (d *sqlDriver) Migrate(ctx context.Context) (created bool, err error) {
	return Migrate(ctx, d.db, d.dialect)
}

// Migrate creates Baton's tables and routines, whose names begin with "baton_",
// in the database and schema that db's connections use by default. If they
// exist it does nothing, or returns driver.ErrRefused if they are of another
// version. Clients need SELECT, INSERT, UPDATE and DELETE, and EXECUTE.
func Migrate(ctx context.Context, db *stdsql.DB, dialect Dialect) (created bool, err error) {
	if db == nil || !dialect.known() {
		return false, invalid("Migrate needs a database, and dialect %s or %s", Postgres, MySQL)
	}
	err = checkSchema(ctx, db)
	if !lacksTables(err) {
		return false, err
	}
	schema, _ := schemas.ReadFile("schema_" + string(dialect) + ".sql")
	// That of PostgreSQL is one part, and so one transaction.
	for part := range strings.SplitSeq(string(schema), "\n--\n") {
		if _, err = db.ExecContext(ctx, part); err != nil {
			break
		}
	}
	if err != nil && checkSchema(ctx, db) == nil {
		return false, nil // another client has created it at the same time
	}
	return err == nil, wrap(ctx, err)
}

// checkSchema reads the schema's version.
func checkSchema(ctx context.Context, db *stdsql.DB) error {
	var version int
	err := db.QueryRowContext(ctx, "SELECT version FROM baton_schema").Scan(&version)
	if err == nil && version != schemaVersion {
		return driver.Wrap(driver.ErrRefused, fmt.Errorf("the tables of Baton have version %d, "+
			"this program wants %d: update the older of the two", version, schemaVersion))
	}
	if lacksTables(err) {
		err = fmt.Errorf("%w (baton migrate creates Baton's tables)", err)
	}
	return wrap(ctx, err)
}

func lacksTables(err error) bool { return codeOf(err) == "42P01" || codeOf(err) == "1146" }
