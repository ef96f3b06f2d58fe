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
	"github.com/baton-go/baton/integration/internal/freeport"
)

// Connections is how many connections a server accepts.
const Connections = 200

const (
	startTimeout = time.Minute
	stopTimeout  = 10 * time.Second
)

// Server is one database. All methods may be called concurrently.
type Server struct {
	name, version string
	driver, dsn   string
	dir, log      string
	port          int
	process       *child.Process // nil for SQLite
}

// kind describes how to start a database.
type kind struct {
	name, driver string
	versionQuery string
	dsn          func(dir string, port int) string
	start        func(ctx context.Context, dir string, port int, log *os.File) (*child.Process, error)
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
	start: func(context.Context, string, int, *os.File) (*child.Process, error) { return nil, nil },
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
	s := &Server{name: k.name, driver: k.driver, port: ports[0]}
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
	if s.process, err = k.start(ctx, s.dir, s.port, log); err != nil {
		return nil, err
	}
	if err := s.await(ctx, k.versionQuery); err != nil {
		return nil, fmt.Errorf("%w; its log ends with:\n%s", err, s.Log())
	}
	return s, nil
}

// await waits until the server answers.
func (s *Server) await(ctx context.Context, query string) error {
	db, err := s.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	for {
		err := db.QueryRowContext(ctx, query).Scan(&s.version)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-s.ended():
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return err
		}
	}
}

// ended is closed when the process has ended.
func (s *Server) ended() <-chan struct{} {
	if s.process == nil {
		return nil
	}
	return s.process.Done()
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
		_ = s.process.Interrupt() // it may have ended
		select {
		case <-s.process.Done():
		case <-time.After(stopTimeout):
			s.process.Kill()
		}
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
