// Demo: processes take turns at one lock on a real server, and two of them come
// to harm.
//
//	make demo                                     an etcd inside the demo itself
//	DEMO_URL=zk://127.0.0.1:2181 make demo        a server of yours
//	DEMO_URL=etcd://127.0.0.1:2379/demo make demo
//
// Three worker processes append to one file, in turns. The holder is killed
// with SIGKILL in the middle of its work, and succeeded; another is stopped for
// longer than its TTL, wakes up, and goes on writing, and the file refuses,
// because its token is old.
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
	id := flag.Int("worker", 0, "be worker N (the demo starts its own)")
	url := flag.String("url", os.Getenv("DEMO_URL"), "a running etcd or ZooKeeper; empty: an etcd inside the demo")
	name := flag.String("name", "", "the lock's name (chosen by the demo)")
	path := flag.String("ledger", "", "the ledger's path (chosen by the demo)")
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

// demo prepares the server and the ledger, plays the story, and judges what the
// ledger shows.
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

// grace is what a service may add to the TTL before it hands over: half a
// second on etcd, a tick, two seconds by default, on ZooKeeper.
const grace = 5 * time.Second

// play is the story.
func (s *stage) play(ctx context.Context) error {
	say("three workers take turns; the TTL is %v", s.ttl)
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
	say("succeeded after %v; a new worker takes the empty place", s.afterKill.Round(time.Millisecond))
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
	say("succeeded after %v", s.afterStop.Round(time.Millisecond))
	if err := s.watch(ctx, 3, 10*time.Second); err != nil {
		return err
	}
	say("wake worker %d: it goes on with its write as if nothing had happened", holder.id)
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

// stop stops a holder in the middle of its work, but not in the middle of an
// append: the file's own lock would keep everybody else out of the ledger.
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
