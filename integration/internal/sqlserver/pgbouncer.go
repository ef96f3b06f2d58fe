package sqlserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/internal/freeport"
)

// PgBouncer is a pool of connections in transaction mode before a PostgreSQL.
type PgBouncer struct {
	dir  string
	port int
	*child.Server
}

// NewPgBouncer starts one, of two connections to s. The program is the one in
// BATON_PGBOUNCER, or the installed one, or the one that .ci/deps has unpacked.
func NewPgBouncer(ctx context.Context, s *Server) (_ *PgBouncer, err error) {
	path, err := findPgBouncer()
	if err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	ports, err := freeport.Take(1)
	if err != nil {
		return nil, err
	}
	p := &PgBouncer{port: ports[0]}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.dir, err = os.MkdirTemp("", "baton-sql-"); err != nil {
		return nil, err
	}
	if err := chown(p.dir); err != nil {
		return nil, err
	}
	config := filepath.Join(p.dir, "ini")
	text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=baton\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n", s.port, p.port)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	program := filepath.Join(p.dir, "pgbouncer") // a copy: the user that runs it may not read root's cache
	if err := os.WriteFile(program, binary, 0o755); err != nil {
		return nil, err
	}
	p.Server = child.NewServer("PgBouncer", filepath.Join(p.dir, "log"), func() *exec.Cmd { return demoted(program, p.dir, config) },
		func(ctx context.Context) error {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", p.Addr())
			if err == nil {
				err = c.Close()
			}
			return err
		})
	if err := p.Launch(); err != nil {
		return nil, err
	}
	return p, p.AwaitReady(ctx)
}

func findPgBouncer() (string, error) {
	programs := []string{"pgbouncer"}
	if cache, err := os.UserCacheDir(); err == nil {
		programs = append(programs, filepath.Join(cache, "baton-integration", "pgbouncer-debian", "usr", "sbin", "pgbouncer"))
	}
	if program := os.Getenv("BATON_PGBOUNCER"); program != "" {
		programs = []string{program}
	}
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: none of %q is PgBouncer; run .ci/deps, or set BATON_PGBOUNCER", ErrNotInstalled, programs)
}

// Addr returns its address.
func (p *PgBouncer) Addr() string { return freeport.Addr(p.port) }

// Close ends it.
func (p *PgBouncer) Close() error {
	if p.Server != nil {
		p.Stop(stopTimeout)
	}
	freeport.Release(p.port)
	if p.dir == "" {
		return nil
	}
	return os.RemoveAll(p.dir)
}
