package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/examples/internal/demo"
)

// TestEachFileIsDoneOnce by one of four replicas, of which one leaves early.
func TestEachFileIsDoneOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "done"), 0o700); err != nil {
		t.Fatal(err)
	}
	const files = 60
	if err := fill(dir, files); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		running, done, by, left := map[string]bool{}, map[string]int{}, map[string]int{}, false
		f := &fleet{dir: dir, shards: 16, failed: func(err error) { t.Error(err) }}
		f.process = func(_ context.Context, file string) (string, error) {
			mu.Lock()
			if running[file] {
				t.Errorf("two replicas work on %s", file)
			}
			running[file] = true
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			running[file] = false
			return "result", nil
		}
		f.done = func(replica string, _ int, file string) {
			mu.Lock()
			defer mu.Unlock()
			done[file]++
			by[replica]++
			if len(done) == files {
				cancel()
			}
		}
		err := demo.Run(ctx, demo.InMemory, 4, func(ctx context.Context, client *coordinator.Client) error {
			mu.Lock()
			early := !left
			left = true
			mu.Unlock()
			if early {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, 150*time.Millisecond)
				defer stop()
				_ = f.replica(ctx, client)
				return nil
			}
			return f.replica(ctx, client)
		})
		if err != nil {
			t.Error(err)
		}
		for file, n := range done {
			if n != 1 {
				t.Errorf("%s was done %d times", file, n)
			}
		}
		if len(done) != files || len(by) < 3 {
			t.Errorf("%d files done by %d replicas: %v", len(done), len(by), by)
		}
	})
	left, err := filepath.Glob(filepath.Join(dir, "order-*"))
	results, err2 := filepath.Glob(filepath.Join(dir, "done", "*"))
	if err != nil || err2 != nil || len(left) != 0 || len(results) != files {
		t.Errorf("%d files left, %d results, %v, %v", len(left), len(results), err, err2)
	}
}

// TestResultIsWrittenOnce, also if the same holder tries again since the file
// could not be removed.
func TestResultIsWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	stays := filepath.Join(dir, "order-000", "x") // a directory that is not empty
	done := filepath.Join(dir, "done")
	if err := errors.Join(os.MkdirAll(stays, 0o700), os.Mkdir(done, 0o700)); err != nil {
		t.Fatal(err)
	}
	calls := 0
	f := &fleet{dir: dir, process: func(context.Context, string) (string, error) {
		calls++
		return fmt.Sprint(calls), nil
	}}
	for range 2 {
		if err := f.consume(t.Context(), "order-000", 7); err == nil {
			t.Error("no error for a file that stays")
		}
	}
	if text, err := os.ReadFile(filepath.Join(done, "order-000")); err != nil || string(text) != "1" {
		t.Errorf("result %q, %v", text, err)
	}
	if all, err := os.ReadDir(done); err != nil || len(all) != 1 {
		t.Errorf("left in the directory of results: %v, %v", all, err)
	}
}
