package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/integration/internal/child"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
)

// etcdSite is the etcd shared by all tests here.
type etcdSite struct{ endpoints []string }

func newEtcdSite(t *testing.T) etcdSite { return etcdSite{servers.Etcd(t).Endpoints()} }

func (s etcdSite) addresses() string { return strings.Join(s.endpoints, ",") }

func (s etcdSite) baton(t *testing.T, ttl time.Duration) party {
	return goParty(t, "baton", fmt.Sprintf("etcd://%s?layout=concurrency&ttl=%v", s.addresses(), ttl))
}

func (s etcdSite) concurrency(t *testing.T, ttl time.Duration) party {
	return goParty(t, "concurrency", s.addresses(), fmt.Sprint(ttl.Seconds()))
}

func (s etcdSite) lockService(t *testing.T, ttl time.Duration) party {
	return goParty(t, "lock-service", s.addresses(), fmt.Sprint(ttl.Seconds()))
}

// The other clients are the mutex and the election of etcd's package
// concurrency, in the client and in the server.
func TestLocksAreSharedWithEtcdConcurrency(t *testing.T) {
	s := newEtcdSite(t)
	for what, other := range map[string]starter{"concurrency": s.concurrency, "service": s.lockService} {
		for _, recipe := range []string{"mutex", "election"} {
			t.Run(what+" "+recipe, func(t *testing.T) {
				t.Parallel()
				pair(t, "/interop/"+what+"-"+recipe, s.baton, recipe, other, recipe)
			})
		}
	}
}

// etcdctl returns the program of a version.
func etcdctl(t *testing.T, version string) string {
	t.Helper()
	var path string
	var err error
	switch version {
	case "3.7":
		path, err = etcdserver.Client(bounded(t))
	default:
		path, err = oldEtcdctl()
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "etcdctl version: "+version+".") {
		t.Fatalf("%s is not of version %s: %s, %v", path, version, out, err)
	}
	return path
}

// oldEtcdctl returns Debian's, as unpacked by .ci/deps.
func oldEtcdctl() (string, error) {
	if path := os.Getenv("BATON_OLD_ETCDCTL"); path != "" {
		return path, nil
	}
	if cache, err := os.UserCacheDir(); err == nil {
		if path, err := exec.LookPath(filepath.Join(cache, "baton-integration", "etcdctl-debian", "usr", "bin", "etcdctl")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("etcdctl")
	if err != nil {
		return "", fmt.Errorf("%w; unpack Debian's package etcd-client (3.4) or an official archive, and set BATON_OLD_ETCDCTL to its etcdctl", err)
	}
	return path, nil
}

// script is the command of etcdctl lock. It knows only the name of its key.
const script = `n=$(cat counter) && sleep 0.001 && printf %s $((n+1)) > counter && echo "w etcdctl $ETCD_LOCK_KEY" >> journal`

func TestLockIsSharedWithEtcdctl(t *testing.T) {
	s := newEtcdSite(t)
	for _, version := range []string{"3.7", "3.4"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			program := etcdctl(t, version)
			name := "/interop/etcdctl-" + version
			g := newGround(t)
			revisions := s.revisions(t, name)
			a := s.baton(t, long)
			a.prepare("mutex", name, 2, 52, g.dir)
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					for range 52 {
						cmd := exec.Command(program, "--endpoints="+s.addresses(), "lock", "--ttl=20", name, "--", "sh", "-c", script)
						cmd.Dir = g.dir
						if out, err := cmd.CombinedOutput(); err != nil {
							t.Errorf("%v: %v\n%s", cmd, err, out)
							return
						}
					}
				})
			}
			a.tell("go")
			wg.Wait()
			a.hear("done")
			known := number(t)
			inOrder(t, g.check(208), func(n note) int64 {
				if n.who == "etcdctl" {
					return revisions()[n.order]
				}
				return known(n)
			})

			// The holder is killed, in both directions.
			a.tell("take mutex %s", name)
			a.got()
			holder := startEtcdctl(t, program, "--endpoints="+s.addresses(), "lock", "--ttl=2", name)
			holder.silent(t)
			a.tell("release")
			a.hear("released")
			if key := holder.line(t); !strings.HasPrefix(key, name+"/") {
				t.Errorf("etcdctl prints %q", key)
			}
			a.tell("take mutex %s", name)
			a.waits()
			holder.process.Kill()
			a.got()
			waiter := startEtcdctl(t, program, "--endpoints="+s.addresses(), "lock", "--ttl=2", name)
			waiter.silent(t)
			a.tell("release")
			a.hear("released")
			waiter.line(t)
			waiter.process.Kill()
			dying := s.baton(t, brief)
			dying.tell("take mutex %s", name)
			dying.got()
			waiter = startEtcdctl(t, program, "--endpoints="+s.addresses(), "lock", name)
			waiter.silent(t)
			dying.Kill()
			waiter.line(t)
		})
	}
}

// etcdctl elect of both versions is candidate and observer.
func TestElectionIsSharedWithEtcdctl(t *testing.T) {
	s := newEtcdSite(t)
	for _, version := range []string{"3.7", "3.4"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			program, name := etcdctl(t, version), "/interop/elect-"+version
			a := s.baton(t, brief)
			a.tell("take election %s", name)
			a.got()
			observer := startEtcdctl(t, program, "--endpoints="+s.addresses(), "elect", "-l", name)
			if key, value := observer.line(t), observer.line(t); !strings.HasPrefix(key, name+"/") || value != "baton" {
				t.Errorf("etcdctl elect -l shows %q, %q", key, value)
			}
			candidate := startEtcdctl(t, program, "--endpoints="+s.addresses(), "elect", name, "etcdctl")
			candidate.silent(t)
			a.Kill()
			candidate.line(t)
			if value := candidate.line(t); value != "etcdctl" {
				t.Errorf("etcdctl elect shows %q", value)
			}
			b := s.baton(t, long)
			b.tell("take election %s", name)
			b.waits()
			candidate.process.Interrupt() // its TTL is a minute: it resigns
			b.got()
			b.tell("release")
			b.hear("released")
		})
	}
}

// The clients are concurrency, the drop-in and Baton.
func TestThreeEtcdClientsShareALock(t *testing.T) {
	t.Parallel()
	s := newEtcdSite(t)
	g := newGround(t)
	laps := []lap{{s.baton(t, long), "mutex", 2, 34}, {s.concurrency(t, long), "mutex", 2, 34}, {s.dropIn(t, long), "mutex", 2, 34}}
	inOrder(t, g.play("/interop/three", 204, laps...), number(t))
}

// ctl is a running etcdctl.
type ctl struct {
	process *child.Process
	out     chan string
}

func startEtcdctl(t *testing.T, program string, args ...string) ctl {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout = w
	p, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	c := ctl{p, make(chan string, 100)}
	go func() { // ends with the process
		defer r.Close()
		for s := bufio.NewScanner(r); s.Scan(); {
			c.out <- s.Text()
		}
		close(c.out)
	}()
	t.Cleanup(p.Kill)
	return c
}

// line waits for a line of output.
func (c ctl) line(t *testing.T) string {
	t.Helper()
	select {
	case s := <-c.out:
		return s
	case <-bounded(t).Done():
		t.Fatal("etcdctl prints nothing")
	}
	return ""
}

// silent fails the test if the program prints something within settle.
func (c ctl) silent(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settle)
	defer cancel()
	select {
	case s := <-c.out:
		t.Fatalf("etcdctl holds beside another client: %s", s)
	case <-ctx.Done():
	}
}

// revisions watches a name, and returns the create revisions of all keys ever
// created there. Each etcdctl has its own lease, so no key of theirs is created
// twice.
func (s etcdSite) revisions(t *testing.T, name string) func() map[string]int64 {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.endpoints})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	now, err := c.Get(bounded(t), "x")
	if err != nil {
		t.Fatal(err)
	}
	return sync.OnceValue(func() map[string]int64 {
		ctx, cancel := context.WithCancel(bounded(t))
		defer cancel()
		all := make(map[string]int64)
		last, err := c.Get(ctx, "x")
		if err != nil {
			t.Error(err)
			return all
		}
		for resp := range c.Watch(ctx, name+"/", clientv3.WithPrefix(), clientv3.WithRev(now.Header.Revision+1), clientv3.WithProgressNotify(), clientv3.WithFilterDelete()) {
			for _, ev := range resp.Events {
				all[string(ev.Kv.Key)] = ev.Kv.CreateRevision
			}
			if resp.Header.Revision >= last.Header.Revision {
				break
			}
		}
		return all
	})
}
