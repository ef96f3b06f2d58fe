// Package sqlfence lets a database refuse transactions of a process that has
// lost its lock.
//
//	guard, err := sqlfence.New(sqlfence.PostgreSQL)
//	...
//	tx, err := db.BeginTx(ctx, nil)
//	defer tx.Rollback()
//	if err := guard.Check(ctx, tx, "orders", seq); err != nil { // seq, err := lock.Sequencer(ctx)
//		return err // a *fence.StaleError names both tokens
//	}
//	... reads and writes ...
//	err = tx.Commit()
//
// A small table has one row for each resource: the greatest token shown, and
// its scope. Check raises the token and locks the row until the transaction
// ends. So guarded transactions of one resource run one after the other, in the
// order of their tokens. Guard every transaction that reads or writes under the
// lock, and roll back if Check fails.
//
// # Bound the transaction of a stopped holder
//
// A holder that is stopped inside of its transaction has the row, and the next
// holder's Check waits until the database ends that transaction. Give it a
// bound:
//
//	PostgreSQL  IdleTimeout, or the server's idle_in_transaction_session_timeout:
//	            it has none by default
//	MariaDB     idle_write_transaction_timeout: none by default
//	MySQL       wait_timeout, eight hours by default. Check fails after
//	            innodb_lock_wait_timeout, 50 s
//	SQLite      none: until the process ends. Check fails after busy_timeout
//
// # Check again before Commit
//
// The row stays locked until the transaction ends, or until it is rolled back
// to a savepoint that is older than Check. On MySQL and MariaDB a statement
// such as CREATE TABLE commits the transaction. Afterwards the rest is not
// guarded. A transaction that may contain either calls Check a second time, as
// its last statement before Commit: it then fails if another holder came
// between.
//
// # Servers
//
// Use one server that accepts writes. In a cluster with several, such as
// Galera, a row that is locked on one server is not locked on the others. Each
// Check writes the row, also for the token that it has: on PostgreSQL that is a
// row version for vacuum.
//
// # A column instead of a table
//
// If the resource is one row that is only written, a column of that row, BIGINT
// NOT NULL DEFAULT 0, replaces the guard:
//
//	UPDATE account SET balance = $1, token = $2 WHERE id = $3 AND token <= $2
//
// It changes no row if a greater token was shown before. It does not
// distinguish tokens of different services or names.
package sqlfence

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// Dialect is the SQL dialect of a database, with any database/sql driver.
type Dialect int

// The dialects. PostgreSQL must be 9.5 or newer, with a driver whose parameters
// are $1. MySQL includes MariaDB, on which it is tested. SQLite must be 3.35 or
// newer, with a PRAGMA busy_timeout.
const (
	PostgreSQL Dialect = iota + 1
	MySQL
	SQLite
)

// DefaultTable is the name of the table, unless the option Table sets another.
const DefaultTable = "baton_fence"

// MaxResource is the length of the longest name of a resource, in bytes.
const MaxResource = 255

// Guard checks sequencers against one table. It is stateless and safe for
// concurrent use.
type Guard struct {
	schema, raise, reset string
	read                 string // for a database without RETURNING
	quote                string // around names
	idle                 string // sets the timeout, in milliseconds; empty: cannot
	idleTimeout          time.Duration
}

// Tx is what a Guard needs of a transaction: a *sql.Tx, or a *sql.Conn on which
// the caller began one. A *sql.DB is refused, since its statements do not
// belong to one transaction.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Option configures a Guard.
type Option func(*options)

type options struct {
	table string
	idle  time.Duration
}

// Table sets the name of the table, with or without a schema: "fencing.tokens".
func Table(name string) Option { return func(o *options) { o.table = name } }

// IdleTimeout has PostgreSQL (9.6 or newer) end a guarded transaction, and its
// connection, when it waits for its client's next statement for longer than d,
// which has whole milliseconds: a holder that is stopped between two statements
// then keeps the next one out for no longer. One that is stopped within a
// statement can, if that waits for the client: a COPY FROM STDIN, or more rows
// than fit into the buffers of the connection. It costs no request. Other
// databases have settings of the server instead: see the package comment.
func IdleTimeout(d time.Duration) Option { return func(o *options) { o.idle = d } }

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// New returns a guard. It does no I/O. An unknown dialect, a table name that is
// not of letters, digits and "_", or an IdleTimeout that the dialect does not
// have, is driver.ErrInvalid.
func New(d Dialect, opts ...Option) (*Guard, error) {
	set := options{table: DefaultTable}
	for _, o := range opts {
		if o == nil {
			return nil, invalid("nil option")
		}
		o(&set)
	}
	if !tableName.MatchString(set.table) {
		return nil, invalid("table %q; want letters, digits and \"_\", and at most one \".\"", set.table)
	}
	g, known := dialects[d]
	if !known {
		return nil, invalid("dialect %d", d)
	}
	if err := g.setIdle(set.idle); err != nil {
		return nil, err
	}
	// Quoted, since the name may be a word that SQL reserves.
	table := g.quote + strings.ReplaceAll(set.table, ".", g.quote+"."+g.quote) + g.quote
	for _, statement := range []*string{&g.schema, &g.raise, &g.read, &g.reset} {
		*statement = strings.ReplaceAll(*statement, "TABLE_NAME", table)
	}
	return &g, nil
}

func (g *Guard) setIdle(d time.Duration) error {
	switch {
	case d == 0:
		return nil
	case g.idle == "":
		return invalid("IdleTimeout %v; only PostgreSQL has it", d)
	case d < time.Millisecond || d%time.Millisecond != 0 || d > math.MaxInt32*time.Millisecond:
		return invalid("IdleTimeout %v; want whole milliseconds, at least one and at most %v", d, math.MaxInt32*time.Millisecond)
	}
	g.idleTimeout = d
	g.raise += g.idle
	return nil
}

// dialects has the statements of each. raise writes the token if it is greater
// than the stored one and of the same scope, and always locks the row; the
// resulting row decides. A WHERE condition instead of the CASE would need
// another request to find the reason of a refusal. On MySQL the columns are
// VARBINARY, because VARCHAR is not compared byte by byte, and read has FOR
// UPDATE, because the transaction's snapshot may be older than the row.
var dialects = map[Dialect]Guard{
	PostgreSQL: {
		schema: `CREATE TABLE IF NOT EXISTS TABLE_NAME` +
			` (resource TEXT PRIMARY KEY, scope TEXT NOT NULL, token BIGINT NOT NULL)`,
		raise: `INSERT INTO TABLE_NAME AS f (resource, scope, token) VALUES ($1, $2, $3)` +
			raiseOnConflict + ` RETURNING f.scope, f.token`,
		reset: `DELETE FROM TABLE_NAME WHERE resource = $1`,
		quote: `"`,
		// Evaluated when the row is locked, and for this transaction only.
		idle: `, set_config('idle_in_transaction_session_timeout', $4, true)`,
	},
	MySQL: {
		schema: `CREATE TABLE IF NOT EXISTS TABLE_NAME (resource VARBINARY(255) PRIMARY KEY,` +
			` scope VARBINARY(1024) NOT NULL, token BIGINT NOT NULL) ENGINE=InnoDB`,
		raise: `INSERT INTO TABLE_NAME (resource, scope, token) VALUES (?, ?, ?)` +
			` ON DUPLICATE KEY UPDATE token =` +
			` IF(scope = VALUES(scope) AND token < VALUES(token), VALUES(token), token)`,
		read:  `SELECT scope, token FROM TABLE_NAME WHERE resource = ? FOR UPDATE`,
		reset: `DELETE FROM TABLE_NAME WHERE resource = ?`,
		quote: "`",
	},
	SQLite: {
		schema: `CREATE TABLE IF NOT EXISTS TABLE_NAME (resource TEXT PRIMARY KEY,` +
			` scope TEXT NOT NULL, token INTEGER NOT NULL) WITHOUT ROWID`,
		raise: `INSERT INTO TABLE_NAME AS f (resource, scope, token) VALUES (?, ?, ?)` +
			raiseOnConflict + ` RETURNING scope, token`,
		reset: `DELETE FROM TABLE_NAME WHERE resource = ?`,
		quote: `"`,
	},
}

const raiseOnConflict = ` ON CONFLICT (resource) DO UPDATE SET token = CASE` +
	` WHEN f.scope = excluded.scope AND f.token < excluded.token` +
	` THEN excluded.token ELSE f.token END`

// Schema returns the statement that creates the table, for a migration.
func (g *Guard) Schema() string { return g.schema }

// Create creates the table if it does not exist.
func (g *Guard) Create(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, g.schema); err != nil {
		return fmt.Errorf("sqlfence: create the table: %w", err)
	}
	return nil
}

// Check admits the sequencer's token to a resource for the rest of the
// transaction, and stores it. The first sequencer ever shown sets the scope of
// the resource; [fence.Sequencer.In] checks for the one you expect. Reset
// admits another scope.
//
// Make Check the first statement of the transaction: what was read before may
// be stale, and on SQLite a transaction that has read cannot wait to write.
//
// Check returns a *fence.StaleError if a greater token was shown before, and a
// *fence.ForeignError for another scope: roll back. driver.ErrInvalid is a
// malformed sequencer or resource. Other errors are the database's, such as
// deadlocks.
func (g *Guard) Check(ctx context.Context, tx Tx, resource string, s fence.Sequencer) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if err := checkResource(resource); err != nil {
		return err
	}
	if _, ok := tx.(*sql.DB); ok {
		return invalid("a *sql.DB; want a *sql.Tx, or a *sql.Conn in a transaction")
	}
	row, err := g.lock(ctx, tx, resource, s)
	if err != nil {
		return err
	}
	scope, err := fence.ParseScope(row.scope)
	switch {
	case err != nil:
		// Not wrapped: what the table has is no fault of the sequencer.
		return fmt.Errorf("sqlfence: the row of %q in the guard's table is broken; Reset deletes it: %s", resource, err.Error())
	case scope != s.Scope:
		return &fence.ForeignError{Shown: s, Want: scope}
	case row.token != s.Token:
		return &fence.StaleError{Shown: s, Latest: row.token}
	}
	return nil
}

type row struct {
	scope string
	token driver.Token
}

// lock raises the token, locks the row and returns it.
func (g *Guard) lock(ctx context.Context, tx Tx, resource string, s fence.Sequencer) (r row, err error) {
	args := []any{resource, s.Scope.String(), int64(s.Token)}
	columns := []any{&r.scope, &r.token}
	if g.idleTimeout > 0 {
		args = append(args, strconv.FormatInt(g.idleTimeout.Milliseconds(), 10))
		columns = append(columns, new(string))
	}
	var found *sql.Row
	if g.read == "" {
		found = tx.QueryRowContext(ctx, g.raise, args...)
	} else {
		if _, err := tx.ExecContext(ctx, g.raise, args...); err != nil {
			return r, fmt.Errorf("sqlfence: raise the token of %q: %w", resource, err)
		}
		found = tx.QueryRowContext(ctx, g.read, resource)
	}
	if err := found.Scan(columns...); err != nil {
		return r, fmt.Errorf("sqlfence: read the token of %q: %w", resource, err)
	}
	return r, nil
}

// Reset deletes the row of a resource, so that it admits the next sequencer,
// whatever its scope and token. It is for the operator of a service that was
// replaced, or restored with smaller tokens: it also admits late writes of
// earlier holders again. It waits for a transaction that has the row.
func (g *Guard) Reset(ctx context.Context, db *sql.DB, resource string) error {
	if err := checkResource(resource); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, g.reset, resource); err != nil {
		return fmt.Errorf("sqlfence: reset %q: %w", resource, err)
	}
	return nil
}

// checkResource refuses NUL, too: PostgreSQL's text cannot have it.
func checkResource(resource string) error {
	switch {
	case resource == "" || len(resource) > MaxResource:
		return invalid("resource %.20q has %d bytes; want 1 to %d",
			resource, len(resource), MaxResource)
	case !utf8.ValidString(resource) || strings.ContainsRune(resource, 0):
		return invalid("resource %.20q; want valid UTF-8 without NUL", resource)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("sqlfence: %w: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
}
