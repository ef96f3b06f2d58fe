// Package sqlserver gives tests real databases: PostgreSQL and MariaDB as
// processes on loopback, with data of their own, and SQLite in a file.
//
// PostgreSQL and MariaDB must be installed: from Debian's packages, or where
// BATON_POSTGRES and BATON_MARIADB say. Otherwise the error has the command
// that installs them. No service of the system is used or started. Neither
// server runs as root: a test that does starts them as the user nobody.
package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/internal/freeport"
)

// Connections is how many connections a server accepts.
const Connections = 400

// Database is a database that MariaDB has besides its own.
const Database = "baton"

const (
	startTimeout = 3 * time.Minute // loaded machines take long for initdb
	stopTimeout  = 10 * time.Second
	askTimeout   = 5 * time.Second
)

// Server is one database. All methods may be called concurrently.
type Server struct {
	name, version string
	driver, dsn   string
	url           func(addr string) string
	dir, log      string
	port          int
	process       *child.Server // nil for SQLite
}

// kind describes how to start a database.
type kind struct {
	name, driver string
	versionQuery string
	dsn          func(dir string, port int) string
	url          func(addr string) string // of Baton's driver
	prepare      func(ctx context.Context, dir string, log *os.File) error
	command      func(dir string, port int) (*exec.Cmd, error) // nil for SQLite
}

// PostgreSQL starts a PostgreSQL.
func PostgreSQL(ctx context.Context) (*Server, error) { return start(ctx, postgreSQL) }

// MariaDB starts a MariaDB.
func MariaDB(ctx context.Context) (*Server, error) { return start(ctx, mariaDB) }

// SQLite makes an empty SQLite.
func SQLite(ctx context.Context) (*Server, error) { return start(ctx, sqlite) }

var sqlite = kind{
	name: "SQLite", driver: "sqlite", versionQuery: "SELECT sqlite_version()",
	dsn: func(dir string, _ int) string {
		return "file:" + filepath.Join(dir, "data.db") + "?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
	},
	prepare: func(context.Context, string, *os.File) error { return nil },
}

// start starts a database and waits until it answers. On failure nothing is
// left behind.
func start(ctx context.Context, k kind) (_ *Server, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ports, err := freeport.Take(1)
	if err != nil {
		return nil, err
	}
	s := &Server{name: k.name, driver: k.driver, url: k.url, port: ports[0]}
	defer func() {
		if err != nil {
			err = fmt.Errorf("sqlserver: %s: %w", k.name, errors.Join(err, s.Close()))
		}
	}()
	if s.dir, err = os.MkdirTemp("", "baton-sql-"); err != nil {
		return nil, err
	}
	if err := chown(s.dir); err != nil {
		return nil, err
	}
	s.dsn, s.log = k.dsn(s.dir, s.port), filepath.Join(s.dir, "log")
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the processes have their own copies
	if err := k.prepare(ctx, s.dir, log); err != nil {
		return nil, err
	}
	ready := func(ctx context.Context) error { return s.ask(ctx, k.versionQuery) }
	if k.command == nil {
		return s, ready(ctx)
	}
	if _, err := k.command(s.dir, s.port); err != nil {
		return nil, err
	}
	s.process = child.NewServer(k.name, s.log, func() *exec.Cmd {
		cmd, _ := k.command(s.dir, s.port) // has succeeded before
		return cmd
	}, ready)
	if err := s.process.Launch(); err != nil {
		return nil, err
	}
	return s, s.process.AwaitReady(ctx)
}

// ask asks the server for its version.
func (s *Server) ask(ctx context.Context, query string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	db, err := s.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	var version string
	err = db.QueryRowContext(ctx, query).Scan(&version)
	if err == nil && s.version == "" {
		s.version = version
	}
	return err
}

// Addr returns the address of a PostgreSQL or MariaDB.
func (s *Server) Addr() string { return freeport.Addr(s.port) }

// URL returns the URL of Baton's driver, at an address that leads to Addr.
func (s *Server) URL(addr string) string { return s.url(addr) }

// Process returns the server's process, or nil for SQLite. Its Restart may find
// that children of PostgreSQL have not ended yet; use that of Server.
func (s *Server) Process() *child.Server { return s.process }

// Restart kills the server (kill -9) and starts it with its data.
func (s *Server) Restart(ctx context.Context) error {
	for {
		err := s.process.Restart(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// Name returns the database's name.
func (s *Server) Name() string { return s.name }

// Version returns the database's version.
func (s *Server) Version() string { return s.version }

// Open returns a pool of connections, which the caller closes.
func (s *Server) Open() (*sql.DB, error) { return sql.Open(s.driver, s.dsn) }

// Log returns the end of the server's output.
func (s *Server) Log() string { return child.Tail(s.log, 8<<10) }

// Close ends the server and deletes its data. Close pools first: the server
// waits briefly for them.
func (s *Server) Close() error {
	if s.process != nil {
		s.process.Stop(stopTimeout)
	}
	freeport.Release(s.port)
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// run runs a command to its end.
func run(ctx context.Context, cmd *exec.Cmd, log *os.File) error {
	cmd.Stdout, cmd.Stderr = log, log
	p, err := child.Start(cmd)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
	}
	if err := p.Wait(); err != nil {
		return fmt.Errorf("%s: %w:\n%s", cmd.Path, err, child.Tail(log.Name(), 4<<10))
	}
	return nil
}
