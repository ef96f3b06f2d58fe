package sqlserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// ErrNotInstalled means that a database is not installed. The message has the
// command that installs it.
var ErrNotInstalled = errors.New("not installed")

var postgreSQL = kind{
	name: "PostgreSQL", driver: "pgx", versionQuery: "SHOW server_version",
	dsn: func(_ string, port int) string {
		return fmt.Sprintf("postgres://baton@127.0.0.1:%d/postgres?sslmode=disable&connect_timeout=5", port)
	},
	url: func(addr string) string { return "postgres://baton@" + addr + "/postgres?sslmode=disable" },
	prepare: func(ctx context.Context, dir string, log *os.File) error {
		bin, err := postgresDir()
		if err != nil {
			return err
		}
		data := filepath.Join(dir, "data")
		initdb := demoted(filepath.Join(bin, "initdb"), dir, "--pgdata="+data, "--username=baton", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
		return run(ctx, initdb, log)
	},
	command: func(dir string, port int) (*exec.Cmd, error) {
		bin, err := postgresDir()
		if err != nil {
			return nil, err
		}
		return demoted(filepath.Join(bin, "postgres"), dir, "-D", filepath.Join(dir, "data"), "-h", "127.0.0.1", "-p", strconv.Itoa(port),
			"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", fmt.Sprintf("max_connections=%d", Connections)), nil
	},
}

var mariaDB = kind{
	name: "MariaDB", driver: "mysql", versionQuery: "SELECT VERSION()",
	dsn: func(_ string, port int) string { return fmt.Sprintf("root@tcp(127.0.0.1:%d)/?timeout=5s", port) },
	url: func(addr string) string { return "mysql://root@" + addr + "/" + Database },
	// Without grant tables every user is root. The system tables are needed
	// for stored procedures.
	prepare: func(ctx context.Context, dir string, log *os.File) error {
		tables, err := mariadbTables()
		if err != nil {
			return err
		}
		boot := filepath.Join(dir, "boot.sql")
		head := []byte("CREATE DATABASE mysql;\nUSE mysql;\nCREATE DATABASE " + Database + ";\n")
		if err := os.WriteFile(boot, append(head, tables...), 0o600); err != nil {
			return err
		}
		script, err := os.Open(boot)
		if err != nil {
			return err
		}
		defer script.Close()
		data := filepath.Join(dir, "data")
		if err := os.Mkdir(data, 0o700); err != nil {
			return err
		}
		if err := chown(data); err != nil {
			return err
		}
		cmd, err := mariadbCommand(dir, "--bootstrap")
		if err != nil {
			return err
		}
		cmd.Stdin = script
		return run(ctx, cmd, log)
	},
	// A commit survives the server's end, and not the machine's.
	command: func(dir string, port int) (*exec.Cmd, error) {
		return mariadbCommand(dir, "--bind-address=127.0.0.1", "--port="+strconv.Itoa(port),
			"--socket="+filepath.Join(dir, "s"), "--pid-file="+filepath.Join(dir, "pid"), "--skip-name-resolve",
			fmt.Sprintf("--max-connections=%d", Connections))
	},
}

func mariadbCommand(dir string, args ...string) (*exec.Cmd, error) {
	path, err := mariadbd()
	if err != nil {
		return nil, err
	}
	return demoted(path, dir, append([]string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--skip-grant-tables",
		"--innodb-stats-persistent=OFF", "--innodb-use-native-aio=OFF", "--innodb-flush-log-at-trx-commit=2"}, args...)...), nil
}

// mariadbTables returns the statements that make the system tables, which are
// installed beside the server.
func mariadbTables() ([]byte, error) {
	path, err := mariadbd()
	if err != nil {
		return nil, err
	}
	var tables []byte
	for _, name := range []string{"mysql/mysql_system_tables.sql", "mysql/mariadb_system_tables.sql", "mariadb/mariadb_system_tables.sql"} {
		if tables, err = os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(path)), "share", name)); err == nil {
			return tables, nil
		}
	}
	return nil, fmt.Errorf("%w: MariaDB's system tables are not beside %s: %w", ErrNotInstalled, path, err)
}

// postgresDir returns the directory with postgres and initdb.
func postgresDir() (string, error) {
	dirs := []string{os.Getenv("BATON_POSTGRES")}
	if dirs[0] == "" {
		dirs, _ = filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is valid
		slices.Reverse(dirs)                                 // the newest first
		if path, err := exec.LookPath("postgres"); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, dir := range dirs {
		if runs(filepath.Join(dir, "postgres")) && runs(filepath.Join(dir, "initdb")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%w: no postgres with initdb beside it in %q; install Debian's package postgresql, as .ci/deps does without starting a service, "+
		"or set BATON_POSTGRES to the directory that has both", ErrNotInstalled, dirs)
}

// mariadbd returns the path of the server.
func mariadbd() (string, error) {
	if path := os.Getenv("BATON_MARIADB"); path != "" {
		if runs(path) {
			return path, nil
		}
		return "", fmt.Errorf("%w: BATON_MARIADB=%s is not a program", ErrNotInstalled, path)
	}
	for _, name := range []string{"mariadbd", "/usr/sbin/mariadbd"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: no mariadbd; apt-get install --no-install-recommends mariadb-server-core (which contains no service), "+
		"or set BATON_MARIADB to a mariadbd", ErrNotInstalled)
}

func runs(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}

// demoted returns a command in a directory, run as the user nobody if we are
// root: both servers refuse to run as root.
func demoted(path, dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "LC_ALL=C")
	demote(cmd)
	return cmd
}
