package sql

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/hint"
)

// Dialect is the kind of a database: Postgres or MySQL.
type Dialect string

// The dialects.
const (
	Postgres Dialect = "postgres"
	MySQL    Dialect = "mysql" // MariaDB, too
)

func (d Dialect) known() bool { return d == Postgres || d == MySQL }

// query returns a query, whose parameters are "?", in the dialect.
func (d Dialect) query(q string) string {
	for n := 1; d == Postgres && strings.Contains(q, "?"); n++ {
		q = strings.Replace(q, "?", "$"+strconv.Itoa(n), 1)
	}
	return q
}

// sqlDriver is a database as one client sees it.
type sqlDriver struct {
	db, renewals    *stdsql.DB // renewals do not wait for requests that wait for locks
	dialect         Dialect
	namespace, name string
	listens         bool         // sessions may use a connection for notifications
	last            *lastMessage // of the MySQL driver, if Open made the pools
	exposed         bool         // a password may cross a network without TLS

	mu     sync.Mutex // no task begins while Close waits
	closed bool
	tasks  sync.WaitGroup // of sessions
}

func (d *sqlDriver) String() string {
	return strings.TrimSuffix(d.name+"?namespace="+d.namespace, "?namespace=")
}

// spawn runs f in a goroutine that Close waits for. After Close it returns
// false.
func (d *sqlDriver) spawn(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.tasks.Go(f)
	}
	return !d.closed
}

// Close waits for the goroutines of sessions, and closes pools that Open made.
func (d *sqlDriver) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	done := make(chan error, 1)
	go func() { // closing a connection may wait for its server
		d.tasks.Wait()
		var err error
		if d.renewals != d.db {
			err = errors.Join(d.db.Close(), d.renewals.Close())
		}
		done <- wrap(ctx, err)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// path returns the name of a queue's row.
func (d *sqlDriver) path(queue driver.Queue) string {
	return strings.TrimPrefix(d.namespace+"/"+string(queue), "/")
}

// outcomes are those of the schema's routines.
var outcomes = map[string]string{
	"open": " ok ", "renew": " ok lost ", "end": " ok more ", "leave": " ok gone lost ",
	"join": " ok first late stale taken lost ", "set_record": " ok stale lost ",
}

// call calls a routine. What answers may not be one: a proxy may answer by
// itself, without a row.
func (d *sqlDriver) call(
	ctx context.Context, name string, args ...any,
) (outcome string, number int64, err error) {
	db, verb := d.db, "SELECT outcome, COALESCE(number, 0) FROM"
	if name == "renew" {
		db = d.renewals
	}
	if d.dialect == MySQL {
		verb = "CALL"
	}
	query := verb + " baton_" + name + "(?" + strings.Repeat(", ?", len(args)-1) + ")"
	err = d.ask(ctx, db, query, args,
		func(r *stdsql.Rows) error { return r.Scan(&outcome, &number) })
	if err == nil && !strings.Contains(outcomes[name], " "+outcome+" ") {
		err = driver.Wrap(driver.ErrUnavailable, fmt.Errorf(
			"baton_%s returned %.80q, which is none of its outcomes", name, outcome))
	}
	return outcome, number, err
}

// end ends a session, or only one that has expired. If it has many entries,
// that takes several calls.
func (d *sqlDriver) end(ctx context.Context, session string, expired bool) error {
	for {
		outcome, _, err := d.call(ctx, "end", session, expired)
		if err != nil || outcome != "more" {
			return err
		}
	}
}

// ask sends a statement and calls scan for each row.
func (d *sqlDriver) ask(
	ctx context.Context, db *stdsql.DB, query string, args []any, scan func(*stdsql.Rows) error,
) error {
	rows, err := db.QueryContext(ctx, d.dialect.query(query), args...)
	if err == nil {
		for err == nil && rows.Next() {
			err = scan(rows)
		}
		err = cmp.Or(err, rows.Err(), rows.Close())
	}
	if d.renewals != d.db && strings.Contains(readOnly, " "+codeOf(err)+" ") {
		d.disconnect()
	}
	return wrap(ctx, d.last.explain(err))
}

// disconnect closes the connections that are idle. The next ones may lead to
// another server: the one that has answered cannot be written to.
func (d *sqlDriver) disconnect() {
	d.db.SetMaxIdleConns(-1)
	d.db.SetMaxIdleConns(requestConns)
	d.renewals.SetMaxIdleConns(-1)
	d.renewals.SetMaxIdleConns(renewalConns)
}

var (
	errLate = driver.Wrap(driver.ErrUnavailable, errors.New("another contender was forgotten"))
	errGone = driver.Wrap(driver.ErrGone, nil)
	errLost = driver.Wrap(driver.ErrSessionLost, nil)
)

func invalid(format string, args ...any) error {
	return driver.Wrap(driver.ErrInvalid, fmt.Errorf(format, args...))
}

func codeOf(err error) string {
	if state, ok := errors.AsType[interface {
		error
		SQLState() string // that of pgx and lib/pq has one
	}](err); ok {
		return state.SQLState()
	}
	if my, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return strconv.Itoa(int(my.Number))
	}
	return ""
}

// outages has the SQLSTATEs of PostgreSQL, or their classes, and the numbers of
// MySQL for connections, read-only servers, shutdown (perhaps after a commit),
// deadlocks, timeouts, memory, too many connections, internal errors, and
// changes of a table or of a group's primary.
const outages = " 08 25006 25P04 57 40 55P03 53200 53300 58 XX " +
	"1047 1053 1927 1290 1792 1836 1205 1206 1213 1317 1969 3024 1040 1041 1203 1226 1637 1180 " +
	"1020 1412 1615 3032 3100 3101 3168 4031 "

// readOnly has those of servers that do not accept writes, or not now.
const readOnly = " 25006 1290 1792 1836 "

// refused says whether an error means that nothing was applied.
func refused(err error) bool {
	switch code := codeOf(err); {
	case code == "" || strings.Contains(outages, " "+code+" "):
		return false
	case len(code) == 5: // MySQL has no classes
		return !strings.Contains(outages, " "+code[:2]+" ")
	default: // of clients (2013), and of ProxySQL: a proxy has no server
		return code[0] != '2' && code[0] != '9'
	}
}

// wrap returns a database's error as one of the contract.
func wrap(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case refused(err):
		return driver.Wrap(driver.ErrRefused, hint.On(err, "prepared statement",
			"behind PgBouncer in transaction mode add default_query_exec_mode=exec to the URL"))
	case err.Error() == "sql: database is closed": // package sql has no value for it
		return driver.Wrap(driver.ErrClosed, err)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return driver.Wrap(driver.ErrUnavailable, err)
}
