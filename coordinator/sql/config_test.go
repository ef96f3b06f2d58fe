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
	"github.com/jackc/pgx/v5/stdlib"

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
		"mysql://u:secret@h/app?cacert=/ca":         "", // without TLS
		"mysql://u:secret@h/app?tls=true&cacert=/":  "", // no file

		"postgres://u@h/app?password=a&secret":                          "",
		"postgres://u@h/app?password=a&secret=b":                        "",
		"postgres://u@h/app?password=secret&sslmode=disable":            "postgres://h/app",
		"mysql://u:secret@h/app?tls=true&servername=db.internal":        "mysql://h/app",
		"postgres://u:secret@h/app?statement_timeout=5s&options=-c%20x": "postgres://h/app",
		"oracle://u:secret@h/app":                                       "",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Open(u)
		if want == "" {
			hidden := "u:secret"
			if strings.Contains(text, "password=a") {
				hidden = "secret"
			}
			if !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), hidden) {
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
	if connectors["mysql"], err = mySQL(u, nil, &lastMessage{}); err != nil {
		t.Fatal(err)
	}
	u.Scheme = "postgres"
	cfg, err := postgres(*u, url.Values{"sslmode": {"disable"}})
	if err != nil {
		t.Fatal(err)
	}
	connectors["postgres"] = stdlib.GetConnector(*cfg)
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
		{"PostgreSQL 17's timeout of transactions", t.Context(), pg("25P04"), driver.ErrUnavailable, false},
		{"a change of MySQL's primary in a group", t.Context(), my(3100), driver.ErrUnavailable, false},
		{"a server that an operator has taken offline", t.Context(), my(3032), driver.ErrUnavailable, false},
		{"a proxy that lost its server", t.Context(), my(2013), driver.ErrUnavailable, false},
		{"a ProxySQL that reaches no server", t.Context(), my(9001), driver.ErrUnavailable, false},
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

// TestErrorOfAProxyInTransactionModeSaysWhatToDo: it gives each request another
// connection, which has other prepared statements.
func TestErrorOfAProxyInTransactionModeSaysWhatToDo(t *testing.T) {
	for code, text := range map[string]string{"26000": "does not exist", "42P05": "already exists"} {
		err := wrap(t.Context(), &pgconn.PgError{Code: code, Message: `prepared statement "stmtcache_0" ` + text})
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestSpacesInParametersReachTheServer: as in libpq's URLs "%20" is a space and
// "+" is a plus sign.
func TestSpacesInParametersReachTheServer(t *testing.T) {
	u, err := url.Parse("postgres://u@h/app?options=-c%20work_mem%3D1MB&application_name=a%2Bb&default_transaction_isolation=read%20committed")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := postgres(*u, u.Query())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"options": "-c work_mem=1MB", "application_name": "a+b", "default_transaction_isolation": "read committed",
	} {
		if got := cfg.RuntimeParams[name]; got != want {
			t.Errorf("%s is %q; want %q", name, got, want)
		}
	}
}

func TestPasswordsWithoutTLSAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"mysql://u:p@h/app": true, "mysql://u:p@h/app?tls=preferred": true, "mysql://u:p@h/app?tls=true": false,
		"mysql://u:p@127.0.0.1:1/app": false, "mysql://u@h/app": false,
		"postgres://u:p@h/app": true, "postgres://u:p@h/app?sslmode=require": false, "postgres://u:p@[::1]:1/app?sslmode=disable": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Open(u)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.(*sqlDriver).exposed; got != want {
			t.Errorf("%s: %t; want %t", text, got, want)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	found := (&sqlDriver{dialect: MySQL, exposed: true}).Examine(t.Context())
	if len(found) != 1 || found[0].Grade != driver.Warning {
		t.Error(found)
	}
}

// pqError is an error of another driver for PostgreSQL, as that of lib/pq.
type pqError string

func (s pqError) Error() string    { return "pq: " + string(s) }
func (s pqError) SQLState() string { return string(s) }

func TestErrorsOfOtherDriversAreClassified(t *testing.T) {
	for code, want := range map[pqError]error{"42501": driver.ErrRefused, "40P01": driver.ErrUnavailable} {
		if err := wrap(t.Context(), fmt.Errorf("query: %w", code)); !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", code, err, want)
		}
	}
}

// TestBadConnectionsHaveACause: of a server that speaks another protocol, or
// that closes the connection.
func TestBadConnectionsHaveACause(t *testing.T) {
	var none *lastMessage
	if err := none.explain(stddriver.ErrBadConn); !errors.Is(err, stddriver.ErrBadConn) {
		t.Error(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	d, err := Open(&url.URL{Scheme: "mysql", User: url.User("u"), Host: l.Addr().String(), Path: "/app"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close(t.Context())
	_, err = d.Open(t.Context(), time.Minute)
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("%v; want an error that names the server", err)
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
