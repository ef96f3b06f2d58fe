package sqlfence_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"strings"
	"testing"

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

func (r *rows) Columns() []string { return []string{"scope", "token"} }
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
			"no scope":        {[]sqldriver.Value{"orders", int64(5)}, driver.ErrInvalid},
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
		for resource, seq := range map[string]fence.Sequencer{"": orders(5), strings.Repeat("r", 256): orders(5), "accounts": {}} {
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

func TestTableNamesThatNeedQuotesAreRefused(t *testing.T) {
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
	if _, err := sqlfence.New(sqlfence.SQLite, nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("nil option: %v", err)
	}
}
