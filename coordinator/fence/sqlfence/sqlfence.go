// Package sqlfence makes a database refuse what is done under a lock that has
// passed to another holder.
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
// One small table has a row for each resource: the greatest token that was
// shown, and its scope. Check raises the token and locks the row until the
// transaction ends, so guarded transactions of one resource follow one after
// the other, in the order of their tokens, and a transaction that is refused
// writes nothing if it is rolled back. What is not guarded is not protected:
// guard every transaction that reads or writes under the lock.
//
// # A column instead of a table
//
// If the resource is one row that is only written, a column of that row, a
// BIGINT NOT NULL DEFAULT 0, is enough and no guard is needed:
//
//	UPDATE account SET balance = $1, token = $2 WHERE id = $3 AND token <= $2
//
// No row is changed if a greater token was shown before. It does not tell
// tokens of two services or names apart.
package sqlfence

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// Dialect is the SQL of a database, whichever database/sql driver is used.
type Dialect int

// The dialects. PostgreSQL must be 9.5 or newer, with a driver that takes $1
// for a parameter. MySQL includes MariaDB, on which it is tested. SQLite must
// be 3.35 or newer, with a connection that waits for a locked database (PRAGMA
// busy_timeout).
const (
	PostgreSQL Dialect = iota + 1
	MySQL
	SQLite
)

// DefaultTable is the name of the table.
const DefaultTable = "baton_fence"

// MaxResource is the length of the longest name of a resource, in bytes.
const MaxResource = 255

// Guard is the guard of one table. It has no state of its own and is safe for
// concurrent use.
type Guard struct {
	schema, raise string
	read          string // for a database that does not return what it has written
}

// Option changes a default of a Guard.
type Option func(*string)

// Table sets the name of the table, which may have a schema before it:
// "fencing.tokens".
func Table(name string) Option { return func(table *string) { *table = name } }

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// New returns a guard. It does no I/O. An unknown dialect, and a table name
// that would have to be quoted, are driver.ErrInvalid.
func New(d Dialect, opts ...Option) (*Guard, error) {
	table := DefaultTable
	for _, o := range opts {
		if o == nil {
			return nil, invalid("nil option")
		}
		o(&table)
	}
	if !tableName.MatchString(table) {
		return nil, invalid("table %q; want letters, digits and \"_\", and at most one \".\"", table)
	}
	g, known := dialects[d]
	if !known {
		return nil, invalid("dialect %d", d)
	}
	for _, statement := range []*string{&g.schema, &g.raise, &g.read} {
		*statement = strings.ReplaceAll(*statement, "TABLE_NAME", table)
	}
	return &g, nil
}

// dialects has the statements of each. raise writes the token if it is greater
// than the stored one and of the same scope, and locks the row in any case; the
// row that it leaves decides. A WHERE condition instead of the CASE would not
// tell why it refused without another request. On MySQL the columns are
// VARBINARY, since VARCHAR is not compared byte by byte, and read has FOR
// UPDATE, to read the row as it is and not as the transaction's snapshot has
// it.
var dialects = map[Dialect]Guard{
	PostgreSQL: {
		schema: `CREATE TABLE IF NOT EXISTS TABLE_NAME` +
			` (resource TEXT PRIMARY KEY, scope TEXT NOT NULL, token BIGINT NOT NULL)`,
		raise: `INSERT INTO TABLE_NAME AS f (resource, scope, token) VALUES ($1, $2, $3)` +
			raiseOnConflict + ` RETURNING f.scope, f.token`,
	},
	MySQL: {
		schema: `CREATE TABLE IF NOT EXISTS TABLE_NAME (resource VARBINARY(255) PRIMARY KEY,` +
			` scope VARBINARY(1024) NOT NULL, token BIGINT NOT NULL) ENGINE=InnoDB`,
		raise: `INSERT INTO TABLE_NAME (resource, scope, token) VALUES (?, ?, ?)` +
			` ON DUPLICATE KEY UPDATE token =` +
			` IF(scope = VALUES(scope) AND token < VALUES(token), VALUES(token), token)`,
		read: `SELECT scope, token FROM TABLE_NAME WHERE resource = ? FOR UPDATE`,
	},
	SQLite: {
		schema: `CREATE TABLE IF NOT EXISTS TABLE_NAME (resource TEXT PRIMARY KEY,` +
			` scope TEXT NOT NULL, token INTEGER NOT NULL) WITHOUT ROWID`,
		raise: `INSERT INTO TABLE_NAME AS f (resource, scope, token) VALUES (?, ?, ?)` +
			raiseOnConflict + ` RETURNING scope, token`,
	},
}

const raiseOnConflict = ` ON CONFLICT (resource) DO UPDATE SET token = CASE` +
	` WHEN f.scope = excluded.scope AND f.token < excluded.token` +
	` THEN excluded.token ELSE f.token END`

// Schema is the statement that makes the table, for a program that keeps its
// schema elsewhere.
func (g *Guard) Schema() string { return g.schema }

// Create makes the table if it is not there.
func (g *Guard) Create(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, g.schema); err != nil {
		return fmt.Errorf("sqlfence: make the table: %w", err)
	}
	return nil
}

// Check admits the sequencer's token to a resource for the rest of the
// transaction, and stores it. The first sequencer ever shown decides which
// scope's tokens count for the resource; [fence.Sequencer.In] checks that it is
// the one you expect. To admit those of another scope, delete the row.
//
// It returns a *fence.StaleError, which names both tokens, if a greater one was
// shown before, and a *fence.ForeignError for a sequencer of another scope:
// roll back then. driver.ErrInvalid is a sequencer or resource that breaks a
// rule. Other errors are the database's, among them deadlocks and transactions
// that have to be repeated.
//
// It is one statement, two on MySQL. Make it the first of the transaction: what
// was read before may be old, and on SQLite a transaction that has begun to
// read cannot wait to write.
func (g *Guard) Check(ctx context.Context, tx *sql.Tx, resource string, s fence.Sequencer) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if resource == "" || len(resource) > MaxResource {
		return invalid("resource %.20q has %d bytes; want 1 to %d",
			resource, len(resource), MaxResource)
	}
	var text string
	var latest driver.Token
	var row *sql.Row
	args := []any{resource, s.Scope.String(), int64(s.Token)}
	if g.read == "" {
		row = tx.QueryRowContext(ctx, g.raise, args...)
	} else {
		if _, err := tx.ExecContext(ctx, g.raise, args...); err != nil {
			return fmt.Errorf("sqlfence: raise the token of %q: %w", resource, err)
		}
		row = tx.QueryRowContext(ctx, g.read, resource)
	}
	if err := row.Scan(&text, &latest); err != nil {
		return fmt.Errorf("sqlfence: read the token of %q: %w", resource, err)
	}
	scope, err := fence.ParseScope(text)
	switch {
	case err != nil:
		return fmt.Errorf("sqlfence: the row of %q: %w", resource, err)
	case scope != s.Scope:
		return &fence.ForeignError{Shown: s, Want: scope}
	case latest != s.Token:
		return &fence.StaleError{Shown: s, Latest: latest}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("sqlfence: %w: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
}
