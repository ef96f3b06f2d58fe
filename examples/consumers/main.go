// Consumers is a fleet that works on the files of a directory. The files are
// spread over shards by their names, and the shards over the replicas that are
// alive, so two live replicas never work on one file.
//
//	go run ./examples/consumers                                   # no server: four replicas in memory
//	go run ./examples/consumers -dir /srv/inbox -url etcd://127.0.0.1:2379   # in several terminals; Ctrl-C, kill -9
//	go run ./examples/consumers -dir /srv/inbox -url zk://127.0.0.1:2181
//
// Without -dir it makes 60 files, and ends when all are done. The result of a
// file is in the directory "done", and is written once: a replica that was
// paused and is late finds it there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/examples/internal/demo"
	"github.com/baton-go/baton/recipes/partition"
)

// fleet is what the replicas share.
type fleet struct {
	dir    string
	shards int
	// process returns the result of a file.
	process func(ctx context.Context, file string) (result string, err error)
	done    func(replica string, shard int, file string)
	failed  func(error)
}

// replica consumes shards until ctx ends.
func (f *fleet) replica(ctx context.Context, client *coordinator.Client) error {
	p, err := partition.New(client, "inbox", f.shards, partition.WithOnError(f.failed))
	if err != nil {
		return err
	}
	return p.Run(ctx, func(ctx context.Context, s *partition.Shard) error {
		for ctx.Err() == nil { // it ends when the shard moves or is lost
			files, err := f.waiting(s.Number())
			if err != nil {
				return err // Run reports it, and tries again
			}
			for _, file := range files {
				if ctx.Err() != nil {
					return nil
				}
				if err := f.consume(ctx, file, s.Token()); err != nil {
					return err
				}
				f.done(client.Identity(), s.Number(), file)
			}
			_ = demo.Sleep(ctx, 50*time.Millisecond)
		}
		return nil
	})
}

// waiting returns the files of a shard.
func (f *fleet) waiting(shard int) (files []string, err error) {
	all, err := os.ReadDir(f.dir)
	for _, e := range all {
		h := fnv.New32a()
		h.Write([]byte(e.Name()))
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") &&
			int(h.Sum32()%uint32(f.shards)) == shard {
			files = append(files, e.Name())
		}
	}
	return files, err
}

// consume makes the result of a file, once, and removes the file. A crash
// between the two steps leaves the file to the next holder of the shard, which
// finds the result.
func (f *fleet) consume(ctx context.Context, file string, token coordinator.Token) error {
	result, err := f.process(ctx, file)
	if err != nil {
		return err
	}
	// A new file for each call: an earlier one may be linked as the result.
	part, err := f.write(fmt.Sprintf(".%s.%d.*", file, token), result)
	defer os.Remove(part)
	if err != nil {
		return err
	}
	err = os.Link(part, filepath.Join(f.dir, "done", file))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Remove(filepath.Join(f.dir, file)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write writes a new file in the directory of results, and returns its name.
func (f *fleet) write(pattern, text string) (name string, err error) {
	part, err := os.CreateTemp(filepath.Join(f.dir, "done"), pattern)
	if err != nil {
		return "", err
	}
	_, err = part.WriteString(text)
	return part.Name(), errors.Join(err, part.Close())
}

// fill makes the files of the demonstration.
func fill(dir string, n int) error {
	for i := range n {
		name := filepath.Join(dir, fmt.Sprintf("order-%03d", i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	url := demo.URL()
	dir := flag.String("dir", "", "directory of files to work on; empty: a temporary one with 60 files")
	shards := flag.Int("shards", 16, "number of shards, the same for all replicas")
	replicas := flag.Int("replicas", 4, "replicas in this process")
	demo.Main(func(ctx context.Context, out *log.Logger) error {
		const files = 60
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var done atomic.Int32
		f := &fleet{dir: *dir, shards: *shards}
		f.process = func(ctx context.Context, file string) (string, error) {
			return "shipped " + file + "\n", demo.Sleep(ctx, 20*time.Millisecond)
		}
		f.failed = func(err error) { out.Print(err) }
		f.done = func(replica string, shard int, file string) {
			out.Printf("%s: shard %d, %s", replica, shard, file)
			if done.Add(1) == files && *dir == "" {
				cancel()
			}
		}
		if f.dir == "" {
			var err error
			if f.dir, err = os.MkdirTemp("", "consumers"); err != nil {
				return err
			}
			defer os.RemoveAll(f.dir)
			if err := fill(f.dir, files); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(filepath.Join(f.dir, "done"), 0o700); err != nil {
			return err
		}
		err := demo.Run(ctx, *url, *replicas, f.replica)
		out.Printf("%d files done by %d replicas", done.Load(), *replicas)
		return err
	})
}
