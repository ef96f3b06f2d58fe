package sqlserver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baton-go/baton/integration/internal/sqlserver"
)

var all = map[string]func(context.Context) (*sqlserver.Server, error){
	"PostgreSQL": sqlserver.PostgreSQL, "MariaDB": sqlserver.MariaDB, "SQLite": sqlserver.SQLite,
}

func TestServersStartServeAndLeaveNothing(t *testing.T) {
	t.Setenv("TMPDIR", sharedDir(t))
	for name, start := range all {
		t.Run(name, func(t *testing.T) {
			s, err := start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			db, err := s.Open()
			if err != nil {
				t.Fatal(err)
			}
			var two int
			if err := db.QueryRowContext(t.Context(), "SELECT 1+1").Scan(&two); err != nil || two != 2 {
				t.Errorf("%d, %v", two, err)
			}
			t.Logf("%s %s", s.Name(), s.Version())
			if err := errors.Join(db.Close(), s.Close()); err != nil {
				t.Error(err)
			}
			if left, err := filepath.Glob(filepath.Join(os.TempDir(), "baton-sql-*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

// sharedDir returns a temporary directory that other users may enter.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "baton-sqltest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMissingServerErrorSaysHowToInstall(t *testing.T) {
	t.Setenv("BATON_POSTGRES", "/nowhere")
	t.Setenv("BATON_MARIADB", "/nowhere/mariadbd")
	for name, cure := range map[string]string{"PostgreSQL": "package postgresql", "MariaDB": "BATON_MARIADB=/nowhere/mariadbd"} {
		s, err := all[name](t.Context())
		if !errors.Is(err, sqlserver.ErrNotInstalled) || !strings.Contains(err.Error(), cure) || !strings.Contains(err.Error(), "/nowhere") {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}
