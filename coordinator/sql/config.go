package sql

import (
	"context"
	"crypto/rand"
	stdsql "database/sql"
	stddriver "database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/tlsfiles"
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
// one. On PostgreSQL another is kept for notifications, if the pool then has
// two more; the driver gives it up, and polls for a minute, when a renewal has
// to wait. So it does with another driver of database/sql, whose errors need a
// method SQLState. Open MySQL's with interpolateParams=true: without it a call
// takes two round trips. Bad input is driver.ErrInvalid.
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
	return &sqlDriver{
		db: db, renewals: db, dialect: dialect, namespace: namespace, name: string(dialect) + "://",
		listens: dialect == Postgres,
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
// host, and tls is true, false (the default), skip-verify or preferred. With
// tls=true, cacert names a file of certificates to trust instead of the
// system's roots, cert and key name the client's certificate, and servername
// replaces the host's name in the check. Errors and the driver's String show no
// password.
func Open(u *url.URL) (driver.Driver, error) {
	if u == nil || u.Fragment != "" { // which may be the end of a password
		return nil, invalid("no URL, or one with a fragment; write # as %%23")
	}
	params := u.Query()
	namespace, err := driver.Namespace(params.Get("namespace"))
	params.Del("namespace")
	d := &sqlDriver{namespace: namespace, name: u.Scheme + "://" + u.Host + u.Path, last: &lastMessage{}}
	var connector stddriver.Connector
	switch {
	case err != nil:
	case u.Scheme == "postgres" || u.Scheme == "postgresql":
		d.dialect, d.listens = Postgres, true
		var cfg *pgx.ConnConfig
		if cfg, err = postgres(*u, params); err == nil {
			connector, d.exposed = stdlib.GetConnector(*cfg), exposes(cfg)
		}
	case u.Scheme == "mysql":
		d.dialect = MySQL
		connector, err = mySQL(u, params, d.last)
		_, secret := u.User.Password()
		d.exposed = secret && params.Get("tls") != "true" && remote(u.Hostname())
	default:
		err = invalid("scheme %q; want postgres, postgresql or mysql", u.Scheme)
	}
	if err != nil {
		return nil, err
	}
	d.db, d.renewals = pool(connector, requestConns), pool(connector, renewalConns)
	return d, nil
}

// The sizes of the pools of a driver that Open makes.
const requestConns, renewalConns = 4, 2

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

func postgres(u url.URL, params url.Values) (*pgx.ConnConfig, error) {
	if err := checkPassword(params); err != nil {
		return nil, err
	}
	// Of repeated parameters the first counts. As in libpq, a plus sign is no
	// space.
	query := strings.ReplaceAll(params.Encode(), "+", "%20")
	u.RawQuery = strings.TrimPrefix(
		query+"&target_session_attrs=read-write&connect_timeout=2", "&")
	cfg, err := pgx.ParseConfig(u.String())
	if err != nil {
		return nil, invalid("postgres URL: %w", err) // pgx hides the password
	}
	return cfg, nil
}

// besidePassword are the parameters that a URL with a password among them may
// have. Others may be the rest of a password with an "&" that is not encoded:
// the server would show them in its error.
const besidePassword = " host port user dbname database passfile sslmode sslcert sslkey sslrootcert sslsni " +
	"sslnegotiation application_name connect_timeout options search_path target_session_attrs " +
	"default_query_exec_mode statement_cache_capacity password sslpassword "

func checkPassword(params url.Values) error {
	if !params.Has("password") && !params.Has("sslpassword") {
		return nil
	}
	for name := range params {
		if !strings.Contains(besidePassword, " "+name+" ") {
			return invalid(`postgres URL has a password among its parameters, and an unknown one: ` +
				`write user:password@host, and "&" in a password as %%26`)
		}
	}
	return nil
}

func mySQL(u *url.URL, params url.Values, log mysql.Logger) (stddriver.Connector, error) {
	p := driver.NewParams(&url.URL{RawQuery: params.Encode()})
	cfg := mysql.NewConfig()
	cfg.TLSConfig = p.String("tls", "false")
	files := tlsfiles.Read(p)
	hosts, err := driver.Hosts(u, "3306")
	if err := errors.Join(err, p.Err()); err != nil {
		return nil, err
	}
	var source *tlsfiles.Source
	switch {
	case cfg.TLSConfig == "true":
		source, err = files.For(u, u.Scheme)
	case files != tlsfiles.Files{}:
		err = invalid("cacert, cert, key and servername need tls=true")
	}
	if err != nil {
		return nil, err
	}
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", hosts[0], strings.Trim(u.Path, "/")
	if len(hosts) > 1 || cfg.DBName == "" {
		return nil, invalid("mysql URL; want one host and a database, mysql://host:3306/database")
	}
	cfg.User, cfg.InterpolateParams, cfg.Logger = u.User.Username(), true, log
	cfg.Passwd, _ = u.User.Password()
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, invalid("mysql URL: %w", err)
	}
	return bounded{connector, cfg, source}, nil
}

// bounded ends attempts to connect: those that database/sql makes for waiting
// calls have no deadline, and one that hangs in the handshake stops the others.
// It reads TLS files for each connection.
type bounded struct {
	stddriver.Connector
	cfg    *mysql.Config
	source *tlsfiles.Source // nil: no files
}

func (b bounded) Connect(ctx context.Context) (stddriver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	connector := b.Connector
	if b.source != nil {
		cfg := b.cfg.Clone()
		var err error
		if cfg.TLS, err = b.source.Config(ctx); err != nil {
			return nil, err
		}
		if connector, err = mysql.NewConnector(cfg); err != nil {
			return nil, err
		}
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		err = fmt.Errorf("connecting to %s as a MySQL server: %w", b.cfg.Addr, err)
	}
	return conn, err
}

// lastMessage keeps what the MySQL driver logs: of a broken connection it
// returns an error without a cause.
type lastMessage struct{ text atomic.Pointer[string] }

// Print implements mysql.Logger.
func (l *lastMessage) Print(v ...any) {
	text := fmt.Sprint(v...)
	l.text.Store(&text)
}

// explain adds the latest message to an error that says only that a connection
// is bad.
func (l *lastMessage) explain(err error) error {
	bare := errors.Is(err, stddriver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn)
	if l == nil || !bare || l.text.Load() == nil {
		return err
	}
	return fmt.Errorf("%w: %s", err, *l.text.Load())
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
	filled := strings.ReplaceAll(string(schema), "{{secret}}", strings.ToLower(rand.Text()))
	// That of PostgreSQL is one part, and so one transaction.
	for part := range strings.SplitSeq(filled, "\n--\n") {
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
		err = fmt.Errorf("%w (baton migrate creates Baton's tables; "+
			"a role without rights to their schema does not see them)", err)
	}
	return wrap(ctx, err)
}

func lacksTables(err error) bool { return codeOf(err) == "42P01" || codeOf(err) == "1146" }
