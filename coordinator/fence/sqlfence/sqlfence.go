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
	"regexp"
	"strings"

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
	schema, raise string
	read          string // for a database without RETURNING
}

// Option configures a Guard.
type Option func(*string)

// Table sets the name of the table, with or without a schema: "fencing.tokens".
func Table(name string) Option { return func(table *string) { *table = name } }

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// New returns a guard. It does no I/O. An unknown dialect, or a table name that
// needs quotes, is driver.ErrInvalid.
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
// the resource; [fence.Sequencer.In] checks for the one you expect. To admit
// another scope, delete the row.
//
// Make Check the first statement of the transaction: what was read before may
// be stale, and on SQLite a transaction that has read cannot wait to write.
//
// Check returns a *fence.StaleError if a greater token was shown before, and a
// *fence.ForeignError for another scope: roll back. driver.ErrInvalid is a
// malformed sequencer or resource. Other errors are the database's, such as
// deadlocks.
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
