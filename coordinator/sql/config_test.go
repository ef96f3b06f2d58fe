package sql

import (
	"context"
	"database/sql"
	stddriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/baton-go/baton/coordinator/driver"
)

func TestURLsAreCheckedAndKeepSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://u:secret@h:5433/app?namespace=/a/b/&sslmode=disable": "postgres://h:5433/app?namespace=a/b",
		"postgresql://u:secret@h1,h2:5433/app":                           "postgresql://h1,h2:5433/app",
		"mysql://u:secret@h/app?tls=skip-verify":                         "mysql://h/app",

		"postgres://u:secret@h/app?sslmode=secret":  "",
		"postgres://u:secret@h/app?namespace=a%20b": "",
		"postgres://u:secret@h/app#secret":          "",
		"mysql://u:secret@h1,h2/app":                "",
		"mysql://u:secret@h/":                       "",
		"mysql://u:secret@h:0/app":                  "",
		"mysql://u:secret@h/app?collation=secret":   "",
		"mysql://u:secret@h/app?tls=secret":         "",
		"oracle://u:secret@h/app":                   "",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Open(u)
		if want == "" {
			if !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), "u:secret") {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err != nil || d.String() != want {
			t.Errorf("%s: %v, %v; want %s", text, d, err, want)
			continue
		}
		for _, ttl := range []time.Duration{0, time.Millisecond, 25 * time.Hour, 2*time.Second + time.Nanosecond} {
			if _, err := d.Open(t.Context(), ttl); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("TTL %v: %v", ttl, err)
			}
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestNewChecksItsArguments(t *testing.T) {
	db := new(sql.DB)
	for _, err := range []error{
		errOf(New(nil, Postgres, "")), errOf(New(db, "oracle", "")), errOf(New(db, MySQL, "..")), errOf(Open(nil)),
		errOf(Migrate(t.Context(), nil, Postgres)), errOf(Migrate(t.Context(), db, "oracle")),
	} {
		if !errors.Is(err, driver.ErrInvalid) {
			t.Error(err)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

// TestConnectingEnds: the server accepts, and does not say a word. Pools may
// connect without a deadline.
func TestConnectingEnds(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u := &url.URL{User: url.User("u"), Host: l.Addr().String(), Path: "/app"}
	connectors := map[string]stddriver.Connector{}
	if connectors["mysql"], err = mySQL(u, nil); err != nil {
		t.Fatal(err)
	}
	u.Scheme = "postgres"
	if connectors["postgres"], err = postgres(*u, url.Values{"sslmode": {"disable"}}); err != nil {
		t.Fatal(err)
	}
	for name, connector := range connectors {
		over := make(chan error, 1)
		go func() {
			_, err := connector.Connect(context.Background())
			over <- err
		}()
		select {
		case err := <-over:
			if err == nil {
				t.Errorf("%s: connected", name)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: still connecting after 20 s", name)
		}
	}
}

func TestErrorsOfServersAreClassified(t *testing.T) {
	pg := func(code string) error { return fmt.Errorf("query: %w", &pgconn.PgError{Code: code}) }
	my := func(number uint16) error { return &mysql.MySQLError{Number: number} }
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	db, err := sql.Open("pgx", "postgres://127.0.0.1:1/app")
	if err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	closed := db.PingContext(t.Context())
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want error
		sure bool // nothing was applied
	}{
		{"deadlock", t.Context(), pg("40P01"), driver.ErrUnavailable, false},
		{"a primary that became read-only", t.Context(), pg("25006"), driver.ErrUnavailable, false},
		{"shutdown, perhaps after the commit", t.Context(), pg("57P01"), driver.ErrUnavailable, false},
		{"statement timeout", t.Context(), pg("57014"), driver.ErrUnavailable, false},
		{"too many connections", t.Context(), pg("53300"), driver.ErrUnavailable, false},
		{"full disk", t.Context(), pg("53100"), driver.ErrRefused, true},
		{"no permission", t.Context(), pg("42501"), driver.ErrRefused, true},
		{"wrong password", t.Context(), pg("28P01"), driver.ErrRefused, true},
		{"deadlock", t.Context(), my(1213), driver.ErrUnavailable, false},
		{"read-only", t.Context(), my(1290), driver.ErrUnavailable, false},
		{"access denied", t.Context(), my(1045), driver.ErrRefused, true},
		{"a number like the class of deadlocks", t.Context(), my(4025), driver.ErrRefused, true},
		{"a broken connection", t.Context(), errors.New("EOF"), driver.ErrUnavailable, false},
		{"a database that its owner has closed", t.Context(), closed, driver.ErrClosed, false},
		{"the context's end", dead, errors.New("timeout"), context.Canceled, false},
	} {
		got := wrap(c.ctx, c.err)
		if !errors.Is(got, c.want) || !errors.Is(c.want, context.Canceled) && !errors.Is(got, c.err) || refused(c.err) != c.sure {
			t.Errorf("%s: %v, sure %t; want %v, %t", c.name, got, refused(c.err), c.want, c.sure)
		}
	}
	if err := wrap(dead, nil); err != nil {
		t.Error(err)
	}
}

func TestQueriesAreWrittenInBothDialects(t *testing.T) {
	for d, want := range map[Dialect]string{
		Postgres: "SELECT $1 IN ($2)", MySQL: "SELECT ? IN (?)",
	} {
		if got := d.query("SELECT ? IN (?)"); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
}
