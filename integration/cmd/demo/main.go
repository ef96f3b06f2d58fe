// Demo: processes contend for one lock on a real server; one is killed and one
// is stopped.
//
//	make demo                                     an etcd inside the demo itself
//	DEMO_URL=zk://127.0.0.1:2181 make demo        your own server
//	DEMO_URL=etcd://127.0.0.1:2379/demo make demo
//
// Three worker processes append to one file under a lock. The holder is killed
// with SIGKILL in the middle of its work, and the next worker is granted the
// lock. Another holder is stopped for longer than its TTL, continues and
// writes; the file refuses the write because its token is stale.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	_ "github.com/baton-go/baton/coordinator/etcd"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/etcdserver"
)

func main() {
	id := flag.Int("worker", 0, "run as worker N (for the demo itself)")
	url := flag.String("url", os.Getenv("DEMO_URL"), "URL of a running etcd or ZooKeeper (default: an etcd inside the demo)")
	name := flag.String("name", "", "name of the lock (default: chosen by the demo)")
	path := flag.String("ledger", "", "path of the ledger (default: chosen by the demo)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *id > 0 {
		err = work(*url, *name, *path, *id)
	} else {
		err = demo(ctx, *url)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo prepares the server and the ledger, runs the workers, and checks the
// ledger.
func demo(ctx context.Context, url string) error {
	dir, err := os.MkdirTemp("", "baton-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if url == "" {
		say("starting an etcd inside this process")
		server, err := etcdserver.StartEmbedded(ctx, 0)
		if err != nil {
			return err
		}
		defer server.Close()
		url = "etcd://" + server.Endpoints()[0] + "/demo?ttl=2s"
	}
	s, err := newStage(url, ledger{filepath.Join(dir, "ledger")})
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.play(ctx); err != nil {
		return err
	}
	s.end()
	return s.judge()
}

// grace bounds the time after the TTL until the service expires a session: half
// a second on etcd, a tick, two seconds by default, on ZooKeeper.
const grace = 5 * time.Second

// play runs the demo's steps.
func (s *stage) play(ctx context.Context) error {
	say("three workers contend for a lock; the TTL is %v", s.ttl)
	for range 3 {
		if err := s.hire(); err != nil {
			return err
		}
	}
	if err := s.watch(ctx, 15, 20*time.Second); err != nil {
		return err
	}

	holder, token, err := s.holder(ctx)
	if err != nil {
		return err
	}
	say("kill -9 worker %d, which holds token %d", holder.id, token)
	killed := time.Now()
	s.interrupt(holder, token, os.Kill)
	if err := s.successor(ctx, token, s.ttl+grace); err != nil {
		return err
	}
	s.afterKill = time.Since(killed)
	say("the next worker holds after %v; a new worker replaces the killed one", s.afterKill.Round(time.Millisecond))
	if err := s.hire(); err != nil {
		return err
	}
	if err := s.watch(ctx, 6, 10*time.Second); err != nil {
		return err
	}
	return s.pause(ctx)
}

// pause stops the holder for longer than its TTL.
func (s *stage) pause(ctx context.Context) error {
	holder, token, err := s.stop(ctx)
	if err != nil {
		return err
	}
	stopped := time.Now()
	if err := s.successor(ctx, token, s.ttl+grace); err != nil {
		return err
	}
	s.afterStop = time.Since(stopped)
	say("the next worker holds after %v", s.afterStop.Round(time.Millisecond))
	if err := s.watch(ctx, 3, 10*time.Second); err != nil {
		return err
	}
	say("continue worker %d: it writes as if nothing had happened", holder.id)
	if err := holder.cmd.Process.Signal(sigCont); err != nil {
		return err
	}
	if err := s.until(ctx, 5*time.Second, "the late write to be refused", func(e event) bool {
		return e.Kind == "refused" && e.Token == token
	}); err != nil {
		return err
	}
	return s.watch(ctx, 9, 10*time.Second)
}

// stop stops a holder in the middle of its work, but not during an append: its
// file lock would block all other workers.
func (s *stage) stop(ctx context.Context) (*process, int64, error) {
	for {
		holder, token, err := s.holder(ctx)
		if err != nil {
			return nil, 0, err
		}
		s.interrupt(holder, token, sigStop)
		if s.ledger.free() {
			say("stop worker %d, which holds token %d, for longer than its TTL", holder.id, token)
			return holder, token, nil
		}
		delete(s.interrupted, token)
		if err := holder.cmd.Process.Signal(sigCont); err != nil {
			return nil, 0, err
		}
	}
}

func say(format string, args ...any) { fmt.Printf("• "+format+"\n", args...) }
