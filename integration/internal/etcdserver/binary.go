package etcdserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"go.etcd.io/etcd/api/v3/version"
)

// Binary returns the path of the etcd server's program. The first call on a
// machine builds it, which takes a minute with an empty Go build cache and
// seconds otherwise; concurrent calls, also in other processes, wait for that
// build.
//
// The working directory must be inside this module, as in `go test`.
func Binary(ctx context.Context) (string, error) {
	if path := os.Getenv("BATON_ETCD"); path != "" {
		return exec.LookPath(path)
	}
	return built(ctx, "etcd", "go.etcd.io/etcd/server/v3")
}

// Client returns the path of etcdctl of the same version, built like the
// server.
func Client(ctx context.Context) (string, error) {
	if path := os.Getenv("BATON_ETCDCTL"); path != "" {
		return exec.LookPath(path)
	}
	return built(ctx, "etcdctl", "go.etcd.io/etcd/etcdctl/v3")
}

// built returns the path of a program built from a package of this module.
func built(ctx context.Context, name, pkg string) (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%s-%s-%s", name, version.Version, runtime.GOARCH, runtime.Version()))
	unlock, err := lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	// Renamed when complete: an interrupted build must not be used.
	partial := path + ".partial"
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", partial, pkg)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("etcdserver: %v: %w\n%s", build, err, out)
	}
	if err := os.Rename(partial, path); err != nil {
		return "", fmt.Errorf("etcdserver: %w", err)
	}
	return path, nil
}

// cacheDir returns the user's cache directory, or a temporary one for users
// without a home.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, "baton-integration")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("etcdserver: %w", err)
	}
	return dir, nil
}

// lock waits for the lock on a file, which the kernel releases when its holder
// dies.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("etcdserver: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("etcdserver: lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}
