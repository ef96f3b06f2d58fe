package sqlfence_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/fence/sqlfence"
)

// Module integration runs the guard's statements on real databases. These tests
// check what the guard makes of the answers.

// script is a database that answers every query with one row, or an error.
type script struct {
	row            []sqldriver.Value
	raises, reads  error
	asked          []string
	args           []sqldriver.NamedValue // of the first statement
	began, settled int
}

func (s *script) Connect(context.Context) (sqldriver.Conn, error) { return s, nil }
func (s *script) Driver() sqldriver.Driver                        { return nil }
func (s *script) Prepare(string) (sqldriver.Stmt, error) {
	return nil, errors.New("not prepared for that")
}
func (s *script) Close() error                 { return nil }
func (s *script) Begin() (sqldriver.Tx, error) { s.began++; return s, nil }
func (s *script) Commit() error                { s.settled++; return nil }
func (s *script) Rollback() error              { s.settled++; return nil }

func (s *script) note(query string, args []sqldriver.NamedValue) {
	if s.asked = append(s.asked, query); len(s.asked) == 1 {
		s.args = args
	}
}

func (s *script) ExecContext(_ context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	s.note(query, args)
	return sqldriver.RowsAffected(1), s.raises
}

func (s *script) QueryContext(_ context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	s.note(query, args)
	if s.reads != nil {
		return nil, s.reads
	}
	return &rows{row: s.row}, nil
}

type rows struct{ row []sqldriver.Value }

func (r *rows) Columns() []string { return []string{"scope", "token", "set_config"}[:len(r.row)] }
func (r *rows) Close() error      { return nil }

func (r *rows) Next(to []sqldriver.Value) error {
	if r.row == nil {
		return io.EOF
	}
	copy(to, r.row)
	r.row = nil
	return nil
}

// check runs one guarded transaction on a scripted database.
func check(t *testing.T, d sqlfence.Dialect, s *script, resource string, seq fence.Sequencer) error {
	t.Helper()
	g, err := sqlfence.New(d)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(s)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	return g.Check(t.Context(), tx, resource, seq)
}

var dialects = map[sqlfence.Dialect]int{sqlfence.PostgreSQL: 1, sqlfence.MySQL: 2, sqlfence.SQLite: 1} // statements per Check

func orders(token driver.Token) fence.Sequencer {
	return fence.Sequencer{Scope: fence.Scope{Service: "4f0c", Kind: "mutex", Name: "orders"}, Token: token, Key: "e1"}
}

func TestRowDecides(t *testing.T) {
	for d, statements := range dialects {
		for what, c := range map[string]struct {
			row  []sqldriver.Value
			want error
		}{
			"its own token":   {[]sqldriver.Value{"4f0c:mutex/orders", int64(5)}, nil},
			"bytes, as MySQL": {[]sqldriver.Value{[]byte("4f0c:mutex/orders"), []byte("5")}, nil},
			"a greater one":   {[]sqldriver.Value{"4f0c:mutex/orders", int64(7)}, fence.ErrStale},
			"another scope":   {[]sqldriver.Value{"4f0d:mutex/orders", int64(5)}, fence.ErrForeign},
			"no row":          {nil, sql.ErrNoRows},
		} {
			s := &script{row: c.row}
			if err := check(t, d, s, "accounts", orders(5)); !errors.Is(err, c.want) {
				t.Errorf("dialect %d, %s: %v, want %v", d, what, err, c.want)
			}
			if len(s.asked) != statements || len(s.args) != 3 || s.args[0].Value != "accounts" || s.args[1].Value != "4f0c:mutex/orders" || s.args[2].Value != int64(5) {
				t.Errorf("dialect %d, %s: asked %q, first with %v", d, what, s.asked, s.args)
			}
		}
		broken := check(t, d, &script{row: []sqldriver.Value{"orders", int64(5)}}, "accounts", orders(5))
		if broken == nil || errors.Is(broken, driver.ErrInvalid) || !strings.Contains(broken.Error(), "Reset") {
			t.Errorf("dialect %d: a broken row: %v; want an error that does not blame the sequencer", d, broken)
		}
		err := check(t, d, &script{row: []sqldriver.Value{"4f0c:mutex/orders", int64(7)}}, "accounts", orders(5))
		if stale, ok := errors.AsType[*fence.StaleError](err); !ok || *stale != (fence.StaleError{Shown: orders(5), Latest: 7}) {
			t.Errorf("dialect %d: %v", d, err)
		}
	}
}

func TestErrorsOfTheDatabaseAreWrapped(t *testing.T) {
	deadlock := errors.New("deadlock")
	for d := range dialects {
		for _, s := range []*script{{raises: deadlock, reads: deadlock}, {reads: deadlock}} {
			err := check(t, d, s, "accounts", orders(5))
			if !errors.Is(err, deadlock) || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), `"accounts"`) {
				t.Errorf("dialect %d: %v", d, err)
			}
		}
	}
}

func TestInvalidArgumentsSendNoStatement(t *testing.T) {
	for d := range dialects {
		for resource, seq := range map[string]fence.Sequencer{"": orders(5), strings.Repeat("r", 256): orders(5), "a\x00": orders(5), "a\xff": orders(5), "accounts": {}} {
			s := &script{}
			if err := check(t, d, s, resource, seq); !errors.Is(err, driver.ErrInvalid) || len(s.asked) > 0 || s.began != 1 || s.settled != 1 {
				t.Errorf("dialect %d, %.10q, %v: %v, asked %q", d, resource, seq, err, s.asked)
			}
		}
	}
}

func TestCreateRunsSchema(t *testing.T) {
	for d := range dialects {
		g, err := sqlfence.New(d)
		if err != nil {
			t.Fatal(err)
		}
		full := errors.New("disk full")
		for _, want := range []error{nil, full} {
			s := &script{raises: want}
			if err := g.Create(t.Context(), sql.OpenDB(s)); !errors.Is(err, want) || len(s.asked) != 1 || s.asked[0] != g.Schema() {
				t.Errorf("dialect %d: %v, asked %q", d, err, s.asked)
			}
		}
	}
}

func TestWrongOptionsAreRefused(t *testing.T) {
	for _, table := range []string{"", "a b", "a;b", "a.b.c", ".a", "a.", "1a", `"a"`, "a-b", "ä", "a\n"} {
		if g, err := sqlfence.New(sqlfence.PostgreSQL, sqlfence.Table(table)); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q: %v, %v", table, g, err)
		}
	}
	for _, d := range []sqlfence.Dialect{-1, 0, 4} {
		if g, err := sqlfence.New(d); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("dialect %d: %v, %v", d, g, err)
		}
	}
	if g, err := sqlfence.New(sqlfence.MySQL, sqlfence.Table("order.table")); err != nil || !strings.Contains(g.Schema(), "`order`.`table`") {
		t.Errorf("words that SQL reserves: %v, %v", g, err)
	}
	if _, err := sqlfence.New(sqlfence.SQLite, nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("nil option: %v", err)
	}
}

func TestIdleTimeoutIsSetInTheSameStatement(t *testing.T) {
	for d := range dialects {
		_, err := sqlfence.New(d, sqlfence.IdleTimeout(1500*time.Millisecond))
		if ok := d == sqlfence.PostgreSQL; ok != (err == nil) || !ok && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("dialect %d: %v", d, err)
		}
	}
	for _, d := range []time.Duration{-time.Second, time.Microsecond, 1001 * time.Microsecond, 600 * time.Hour} {
		if _, err := sqlfence.New(sqlfence.PostgreSQL, sqlfence.IdleTimeout(d)); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), d.String()) {
			t.Errorf("%v: %v", d, err)
		}
	}
	g, err := sqlfence.New(sqlfence.PostgreSQL, sqlfence.IdleTimeout(1500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	s := &script{row: []sqldriver.Value{"4f0c:mutex/orders", int64(5), "1500"}}
	tx, err := sql.OpenDB(s).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := g.Check(t.Context(), tx, "accounts", orders(5)); err != nil || len(s.asked) != 1 || s.args[3].Value != "1500" {
		t.Errorf("%v, asked %q with %v", err, s.asked, s.args)
	}
}

func TestCheckNeedsATransaction(t *testing.T) {
	g, err := sqlfence.New(sqlfence.PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{row: []sqldriver.Value{"4f0c:mutex/orders", int64(5)}}
	db := sql.OpenDB(s)
	if err := g.Check(t.Context(), db, "accounts", orders(5)); !errors.Is(err, driver.ErrInvalid) || len(s.asked) > 0 {
		t.Errorf("on a *sql.DB: %v, asked %q", err, s.asked)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := g.Check(t.Context(), conn, "accounts", orders(5)); err != nil {
		t.Error(err)
	}
}

func TestResetDeletesTheRow(t *testing.T) {
	for d := range dialects {
		g, err := sqlfence.New(d)
		if err != nil {
			t.Fatal(err)
		}
		s := &script{}
		if err := g.Reset(t.Context(), sql.OpenDB(s), "accounts"); err != nil || len(s.asked) != 1 || !strings.HasPrefix(s.asked[0], "DELETE FROM ") || s.args[0].Value != "accounts" {
			t.Errorf("dialect %d: %v, asked %q with %v", d, err, s.asked, s.args)
		}
		if err := g.Reset(t.Context(), sql.OpenDB(s), ""); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("dialect %d: %v", d, err)
		}
	}
}
