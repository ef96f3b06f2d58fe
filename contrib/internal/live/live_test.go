//go:build live

package live_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/robfig/cron/v3"

	"github.com/baton-go/baton/contrib/certmagiclock"
	"github.com/baton-go/baton/contrib/cronlock"
	"github.com/baton-go/baton/contrib/gooselock"
	"github.com/baton-go/baton/contrib/httplock"
	"github.com/baton-go/baton/contrib/migratelock"
	"github.com/baton-go/baton/contrib/tusdlock"
	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/etcd"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/once"
)

// TestEachAdapterExcludes, with two clients.
func TestEachAdapterExcludes(t *testing.T) {
	var clients [2]*coordinator.Client
	for i := range clients {
		c, err := coordinator.Open(os.Getenv("BATON_URL"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		clients[i] = c
	}
	for name, test := range map[string]func(*testing.T, *coordinator.Client, *coordinator.Client){
		"certmagic": certificates, "goose": goose, "migrate": migrations, "tusd": uploads, "cron": jobs, "http": requests,
	} {
		t.Run(name, func(t *testing.T) { test(t, clients[0], clients[1]) })
	}
}

func check(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func certificates(t *testing.T, a, b *coordinator.Client) {
	files, ctx := &certmagic.FileStorage{Path: t.TempDir()}, t.Context()
	first, second := certmagiclock.New(a, files), certmagiclock.New(b, files)
	check(t, first.Lock(ctx, "issue_cert_*.example.org"), nil)
	if ok, err := second.TryLock(ctx, "issue_cert_*.example.org"); ok || err != nil {
		t.Errorf("TryLock = %v, %v", ok, err)
	}
	check(t, first.RenewLockLease(ctx, "issue_cert_*.example.org", 0), nil)
	check(t, first.Unlock(ctx, "issue_cert_*.example.org"), nil)
	check(t, second.Lock(ctx, "issue_cert_*.example.org"), nil)
	check(t, second.Unlock(ctx, "issue_cert_*.example.org"), nil)
}

func lock(t *testing.T, client *coordinator.Client, name string) *mutex.Mutex {
	m, err := mutex.New(client, name)
	check(t, err, nil)
	return m
}

func goose(t *testing.T, a, b *coordinator.Client) {
	first, second := gooselock.New(lock(t, a, "goose")), gooselock.New(lock(t, b, "goose"))
	check(t, first.SessionLock(t.Context(), nil), nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	check(t, second.SessionLock(ctx, nil), context.DeadlineExceeded)
	check(t, first.SessionUnlock(t.Context(), nil), nil)
	check(t, second.SessionLock(t.Context(), nil), nil)
	check(t, second.SessionUnlock(t.Context(), nil), nil)
}

func migrations(t *testing.T, a, b *coordinator.Client) {
	wrap := func(c *coordinator.Client) *migratelock.Driver {
		return migratelock.Wrap(t.Context(), lock(t, c, "migrate"), &stub.Stub{}, time.Second)
	}
	first, second := wrap(a), wrap(b)
	check(t, first.Lock(), nil)
	check(t, second.Lock(), database.ErrLocked)
	check(t, first.SetVersion(1, true), nil)
	check(t, first.Unlock(), nil)
	check(t, second.Lock(), nil)
	check(t, second.Close(), nil)
}

// uploads: the waiter interrupts the holder, which then releases.
func uploads(t *testing.T, a, b *coordinator.Client) {
	first, err := tusdlock.New(a).NewLock("id")
	check(t, err, nil)
	second, err := tusdlock.New(b).NewLock("id")
	check(t, err, nil)
	interrupted, released := make(chan struct{}), make(chan error, 1)
	check(t, first.Lock(t.Context(), func() { close(interrupted) }), nil)
	go func() {
		<-interrupted
		released <- first.Unlock()
	}()
	check(t, second.Lock(t.Context(), func() { t.Error("interrupted") }), nil)
	check(t, <-released, nil)
	check(t, second.Unlock(), nil)
}

func jobs(t *testing.T, a, b *coordinator.Client) {
	runs := 0
	for _, c := range []*coordinator.Client{a, b, a} {
		o, err := once.New(c, "job")
		check(t, err, nil)
		schedule := cron.Every(1000 * time.Hour)
		wrapper := cronlock.Once(t.Context(), o, schedule, func(err error) { t.Error(err) })
		wrapper(cron.FuncJob(func() { runs++ })).Run()
	}
	if runs != 1 {
		t.Errorf("the job ran %d times", runs)
	}
}

func requests(t *testing.T, a, b *coordinator.Client) {
	serve := func(c *coordinator.Client, next http.HandlerFunc) int {
		exclusive := httplock.New(c, "requests", 0, func(*http.Request) string { return "key" })
		w := httptest.NewRecorder()
		exclusive(next).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
		return w.Code
	}
	nothing := func(http.ResponseWriter, *http.Request) {}
	outer := serve(a, func(http.ResponseWriter, *http.Request) {
		if code := serve(b, nothing); code != http.StatusConflict {
			t.Errorf("beside another request: %d", code)
		}
	})
	if code := serve(b, nothing); outer != http.StatusOK || code != http.StatusOK {
		t.Errorf("%d, then %d", outer, code)
	}
}
