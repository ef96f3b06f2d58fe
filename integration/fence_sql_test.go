package integration_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/fence/sqlfence"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/sqlserver"
)

// database has a guard's table, and a table that logs the writes in order.
type database struct {
	*sql.DB
	guard *sqlfence.Guard
	product
}

func (d database) log(ctx context.Context, tx *sql.Tx, resource string, token driver.Token) error {
	_, err := tx.ExecContext(ctx, d.insert, resource, token) // a token is a BIGINT
	return err
}

// product describes how to prepare a database.
type product struct {
	start          func(context.Context) (*sqlserver.Server, error)
	dialect        sqlfence.Dialect
	table          string
	levels         []sql.IsolationLevel
	before         []string // statements
	schema, insert string
}

var products = map[string]product{
	"PostgreSQL": {sqlserver.PostgreSQL, sqlfence.PostgreSQL, sqlfence.DefaultTable,
		[]sql.IsolationLevel{sql.LevelDefault, sql.LevelRepeatableRead, sql.LevelSerializable}, nil,
		`CREATE TABLE log (id BIGSERIAL PRIMARY KEY, resource TEXT, token BIGINT)`, `INSERT INTO log (resource, token) VALUES ($1, $2)`},
	"MariaDB": {sqlserver.MariaDB, sqlfence.MySQL, "test." + sqlfence.DefaultTable,
		[]sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelSerializable}, []string{`CREATE DATABASE test`},
		`CREATE TABLE test.log (id BIGINT AUTO_INCREMENT PRIMARY KEY, resource VARCHAR(255), token BIGINT)`,
		`INSERT INTO test.log (resource, token) VALUES (?, ?)`},
	"SQLite": {sqlserver.SQLite, sqlfence.SQLite, sqlfence.DefaultTable, []sql.IsolationLevel{sql.LevelDefault}, nil,
		`CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, resource TEXT, token INTEGER)`, `INSERT INTO log (resource, token) VALUES (?, ?)`},
}

// databases runs a test on each database.
func databases(t *testing.T, test func(t *testing.T, db database)) {
	t.Helper()
	for name, p := range products {
		t.Run(name, func(t *testing.T) { test(t, p.open(t)) })
	}
}

// open starts a database for one test.
func (p product) open(t *testing.T) database {
	t.Helper()
	pool, err := servers.NewSQL(t, p.start).Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxIdleConns(80)
	for _, statement := range append(p.before, p.schema) {
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	guard, err := sqlfence.New(p.dialect, sqlfence.Table(p.table))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the table may exist
		if err := guard.Create(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
	}
	return database{pool, guard, p}
}

// transact runs work in a transaction, and repeats it if the database requires
// that.
func (d database) transact(ctx context.Context, level sql.IsolationLevel, work func(tx *sql.Tx) error) error {
	for {
		err := d.once(ctx, level, work)
		var pg *pgconn.PgError
		var my *mysql.MySQLError
		again := errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01") || errors.As(err, &my) && my.Number == 1213 // serialization, deadlock
		if !again {
			return err
		}
	}
}

func (d database) once(ctx context.Context, level sql.IsolationLevel, work func(tx *sql.Tx) error) error {
	tx, err := d.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// stored returns a resource's token in the guard's table, or zero.
func (d database) stored(ctx context.Context, resource string) (token driver.Token, err error) {
	err = d.QueryRowContext(ctx, fmt.Sprintf("SELECT token FROM %s WHERE resource = '%s'", d.table, resource)).Scan(&token)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return token, err
}

// written returns the tokens of the writes to a resource, in order.
func (d database) written(t *testing.T, resource string) (all []driver.Token) {
	t.Helper()
	table := strings.Fields(d.insert)[2]
	rows, err := d.QueryContext(t.Context(), fmt.Sprintf("SELECT token FROM %s WHERE resource = '%s' ORDER BY id", table, resource))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var token driver.Token
		if err := rows.Scan(&token); err != nil {
			t.Fatal(err)
		}
		all = append(all, token)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func books(token driver.Token) fence.Sequencer {
	return fence.Sequencer{Scope: fence.Scope{Service: "4f0c", Kind: "mutex", Name: "ledger"}, Token: token, Key: "e1"}
}

var errChangedItsMind = errors.New("the writer rolls back")

// 64 writers run at once, with tokens that rise over time but are not in order;
// some roll back. Every reader sees the token rise, writes are in the order of
// tokens, and a refusal names the token that caused it.
func TestStoredTokenNeverDecreases(t *testing.T) {
	t.Parallel()
	const writers, rounds = 64, 12
	databases(t, func(t *testing.T, db database) {
		for _, level := range db.levels {
			t.Run(level.String(), func(t *testing.T) {
				resource := strings.ReplaceAll(level.String(), " ", "")
				ctx := await.Context(t)
				var attempts, admitted, refused, undone atomic.Int64
				var greatest atomic.Int64 // of the committed tokens
				var wg sync.WaitGroup
				for i := range writers {
					rng := rand.New(rand.NewPCG(7, uint64(i)))
					wg.Go(func() {
						for range rounds {
							token := driver.Token(1 + attempts.Add(1)/2 + int64(rng.IntN(16)))
							undo := rng.IntN(3) == 0
							err := db.transact(ctx, level, func(tx *sql.Tx) error {
								if err := db.guard.Check(ctx, tx, resource, books(token)); err != nil {
									return err
								}
								if err := db.log(ctx, tx, resource, token); err != nil {
									return err
								}
								if undo {
									return errChangedItsMind
								}
								return nil
							})
							stale, isStale := errors.AsType[*fence.StaleError](err)
							switch {
							case err == nil:
								admitted.Add(1)
								for g := greatest.Load(); int64(token) > g && !greatest.CompareAndSwap(g, int64(token)); g = greatest.Load() {
								}
							case isStale && errors.Is(err, fence.ErrStale) && stale.Shown == books(token) && stale.Latest > token:
								refused.Add(1)
							case errors.Is(err, errChangedItsMind):
								undone.Add(1)
							default:
								t.Errorf("token %d: %v", token, err)
								return
							}
						}
					})
				}
				reads := pollToken(ctx, t, db, resource, &wg)
				all := db.written(t, resource)
				for i := 1; i < len(all); i++ {
					if all[i] < all[i-1] {
						t.Errorf("write %d has token %d, after %d", i, all[i], all[i-1])
					}
				}
				last, err := db.stored(ctx, resource)
				if err != nil || int64(last) != greatest.Load() || int64(len(all)) != admitted.Load() {
					t.Errorf("stored %d, %v; greatest %d; %d writes of %d", last, err, greatest.Load(), len(all), admitted.Load())
				}
				if admitted.Load() == 0 || refused.Load() == 0 || undone.Load() == 0 || reads == 0 {
					t.Errorf("too little happened to show anything: %d reads", reads)
				}
				t.Logf("%d admitted, %d refused, %d rolled back, up to token %d; read %d times", admitted.Load(), refused.Load(), undone.Load(), last, reads)
			})
		}
	})
}

// pollToken reads the stored token until all writers are done, and returns the
// number of reads.
func pollToken(ctx context.Context, t *testing.T, db database, resource string, writers *sync.WaitGroup) (reads int) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		writers.Wait()
	}()
	for last := driver.Token(0); ; reads++ {
		now, err := db.stored(ctx, resource)
		if err != nil {
			t.Error(err)
			<-done
			return reads
		}
		if now < last {
			t.Errorf("the stored token decreased from %d to %d", last, now)
		}
		last = now
		select {
		case <-done:
			return reads
		default:
		}
	}
}

func TestSQLGuardSeparatesScopesAndResources(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, db database) {
		ctx := await.Context(t)
		check := func(resource string, s fence.Sequencer) error {
			return db.transact(ctx, sql.LevelDefault, func(tx *sql.Tx) error { return db.guard.Check(ctx, tx, resource, s) })
		}
		wants := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		wants("the first", check("accounts", books(5)), nil)
		wants("the same", check("accounts", books(5)), nil)
		wants("a smaller one", check("accounts", books(4)), fence.ErrStale)
		wants("on another resource", check("Accounts", books(4)), nil)
		wants("on a name with a blank", check("accounts ", books(3)), nil)
		wants("on a name that needs quoting", check(`a'"\;-- ü`, books(3)), nil)
		wants("smaller there", check(`a'"\;-- ü`, books(2)), fence.ErrStale)
		wants("the longest name", check(strings.Repeat("n", sqlfence.MaxResource), books(2)), nil)
		wants("the greatest token", check("top", books(1<<63-1)), nil)
		wants("below it", check("top", books(1<<63-2)), fence.ErrStale)
		for _, other := range []fence.Scope{{Service: "4f0d", Kind: "mutex", Name: "ledger"}, {Service: "4F0C", Kind: "mutex", Name: "ledger"},
			{Service: "4f0c", Kind: "rwlock", Name: "ledger"}, {Service: "4f0c", Kind: "mutex", Name: "Ledger"}} {
			for _, token := range []driver.Token{1, 5, 100} {
				s := books(token)
				s.Scope = other
				err := check("accounts", s)
				if foreign, ok := errors.AsType[*fence.ForeignError](err); !ok || foreign.Want != books(1).Scope || foreign.Shown != s {
					t.Errorf("%v: %v", s, err)
				}
			}
		}
		if stored, err := db.stored(ctx, "accounts"); err != nil || stored != 5 {
			t.Errorf("stored %d, %v", stored, err)
		}
		long := books(1)
		long.Service, long.Name = strings.Repeat("s", 64), strings.Repeat("/", 255)
		wants("the longest scope", check("long", long), nil)
		wants("no resource", check("", books(5)), driver.ErrInvalid)
		wants("too long a name", check(strings.Repeat("n", sqlfence.MaxResource+1), books(5)), driver.ErrInvalid)
		wants("no sequencer", check("accounts", fence.Sequencer{}), driver.ErrInvalid)
	})
}

// A statement inside of a transaction can end what Check guards: a roll back to
// an earlier savepoint, and on MariaDB each change of a table, which commits.
// The second Check, before Commit, finds out that another holder came between.
func TestGuardIsCheckedAgainBeforeCommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, ends string }{
		"PostgreSQL": {"SAVEPOINT early", "ROLLBACK TO SAVEPOINT early"},
		"MariaDB":    {"", "CREATE TABLE test.other (id INT)"},
	} {
		t.Run(name, func(t *testing.T) {
			db := products[name].open(t)
			ctx := await.Context(t)
			err := db.once(ctx, sql.LevelDefault, func(tx *sql.Tx) error {
				if c.before != "" {
					if _, err := tx.ExecContext(ctx, c.before); err != nil {
						return err
					}
				}
				if err := db.guard.Check(ctx, tx, "accounts", books(5)); err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, c.ends); err != nil {
					return err
				}
				if err := db.once(ctx, sql.LevelDefault, func(next *sql.Tx) error {
					if err := db.guard.Check(ctx, next, "accounts", books(7)); err != nil {
						return err
					}
					return db.log(ctx, next, "accounts", 7)
				}); err != nil {
					return err
				}
				if err := db.guard.Check(ctx, tx, "accounts", books(5)); !errors.Is(err, fence.ErrStale) {
					t.Errorf("the second Check: %v", err)
				}
				return errChangedItsMind
			})
			if !errors.Is(err, errChangedItsMind) {
				t.Error(err)
			}
			if all := db.written(t, "accounts"); len(all) != 1 || all[0] != 7 {
				t.Errorf("written: %v", all)
			}
		})
	}
}

// A stopped holder has a transaction open, and the row with it.
func TestStoppedTransactionLetsTheNextHolderIn(t *testing.T) {
	t.Parallel()
	db := products["PostgreSQL"].open(t)
	ctx := await.Context(t)
	guard, err := sqlfence.New(sqlfence.PostgreSQL, sqlfence.IdleTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	stopped, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Check(ctx, stopped, "accounts", books(5)); err != nil {
		t.Fatal(err)
	}
	if err := db.transact(ctx, sql.LevelDefault, func(tx *sql.Tx) error {
		return guard.Check(ctx, tx, "accounts", books(7))
	}); err != nil {
		t.Fatalf("the next holder: %v", err)
	}
	err = db.log(ctx, stopped, "accounts", 5)
	if err == nil {
		err = stopped.Commit()
	}
	if all := db.written(t, "accounts"); err == nil || len(all) != 0 {
		t.Errorf("the stopped holder goes on: %v, written %v", err, all)
	}
	var rest string // the setting of the transaction did not stay with a connection
	if err := db.QueryRowContext(ctx, "SHOW idle_in_transaction_session_timeout").Scan(&rest); err != nil || rest != "0" {
		t.Errorf("afterwards the timeout is %q, %v", rest, err)
	}
}

func TestResetAdmitsAReplacedService(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, db database) {
		ctx := await.Context(t)
		check := func(s fence.Sequencer) error {
			return db.transact(ctx, sql.LevelDefault, func(tx *sql.Tx) error { return db.guard.Check(ctx, tx, "accounts", s) })
		}
		replaced := books(3)
		replaced.Service = "4f0d"
		if err := check(books(5)); err != nil {
			t.Fatal(err)
		}
		if err := check(replaced); !errors.Is(err, fence.ErrForeign) {
			t.Errorf("before the reset: %v", err)
		}
		if err := db.guard.Reset(ctx, db.DB, "accounts"); err != nil {
			t.Fatal(err)
		}
		if err := check(replaced); err != nil {
			t.Errorf("after the reset: %v", err)
		}
	})
}

func TestTableMayHaveAReservedName(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, db database) {
		ctx := await.Context(t)
		table := "order"
		if schema, _, ok := strings.Cut(db.table, "."); ok {
			table = schema + ".order"
		}
		guard, err := sqlfence.New(db.dialect, sqlfence.Table(table))
		if err == nil {
			err = guard.Create(ctx, db.DB)
		}
		if err == nil {
			err = db.transact(ctx, sql.LevelDefault, func(tx *sql.Tx) error { return guard.Check(ctx, tx, "accounts", books(5)) })
		}
		if err != nil {
			t.Error(err)
		}
	})
}
