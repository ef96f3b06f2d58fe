// Package fleet is what examples with several replicas have in common: how they
// begin and end, how their clients are opened and closed, how one of them
// crashes, and where files are that they share.
package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/etcd" // a scheme of -url
	"github.com/baton-go/baton/coordinator/memory"
	_ "github.com/baton-go/baton/coordinator/zookeeper" // likewise
)

// InMemory is the URL of a service in this process, where the whole fleet is then.
const InMemory = "memory://"

// Main is the main of an example whose flags are declared. It ends the process
// with 2 if there is more on the command line than those, and with 1 and the
// error if run fails. The context of run ends at the first signal to stop; a
// second one ends the process at once.
func Main(run func(ctx context.Context, out io.Writer) error) {
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "argument %q: there are only flags\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Size is how many replicas an example has in one process, by default: a
// service in memory is that process's own.
func Size(url string) int {
	if url == InMemory {
		return 3
	}
	return 1
}

// Replica is one process of the fleet, as far as the service can tell: it has a
// connection and a session of its own.
type Replica struct {
	Name   string
	First  bool // of those in this process
	Client *coordinator.Client
	Out    *log.Logger // shared by all, and safe to share

	link *memory.Driver // nil on a real service
}

// Say prints a line of this replica.
func (r *Replica) Say(format string, args ...any) {
	r.Out.Printf("%-10s %s", r.Name, fmt.Sprintf(format, args...))
}

// Crash is the replica's death, as far as the service can tell: nothing is
// heard of it any more. The caller must not go on. It reports whether it could
// be done, which is on a service in memory only; on another one, kill the
// process.
func (r *Replica) Crash() bool {
	if r.link == nil {
		return false
	}
	r.link.Cut()
	return true
}

// Stop is SIGSTOP, or a long pause, as far as the service can tell: nothing is
// heard of the replica until Continue. Otherwise it is as Crash.
func (r *Replica) Stop() bool { return r.Crash() }

// Continue ends Stop.
func (r *Replica) Continue() {
	if r.link != nil {
		r.link.Heal()
	}
}

// Open opens n replicas, all on one service, each with a session, so that a
// wrong address shows within five seconds.
func Open(ctx context.Context, out io.Writer, url string, n int) (replicas []*Replica, err error) {
	defer func() {
		if err != nil {
			_ = Close(ctx, replicas)
			replicas = nil
		}
	}()
	svc, lines := memory.NewService(), log.New(out, "", 0)
	for i := range n {
		r := &Replica{Name: fmt.Sprint("replica ", i+1), First: i == 0, Out: lines}
		if url == InMemory {
			r.link = svc.Driver()
			// A short TTL, so that nobody has to wait long for a crash. Losses
			// are part of the story and need no log.
			r.Client, err = coordinator.New(r.link, coordinator.WithIdentity(r.Name), coordinator.WithTTL(coordinator.MinTTL),
				coordinator.WithLogger(slog.New(slog.DiscardHandler)))
		} else {
			r.Name = fmt.Sprintf("%d/%d", os.Getpid(), i+1)
			r.Client, err = coordinator.Open(url, coordinator.WithIdentity(r.Name))
		}
		if err != nil {
			return replicas, err
		}
		replicas = append(replicas, r)
		first, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err = r.Client.Session(first)
		cancel()
		if err != nil {
			return replicas, err
		}
	}
	return replicas, nil
}

// Close gives back all that is held, at once and not after the TTL. A replica
// that has crashed has nothing to give back.
func Close(ctx context.Context, replicas []*Replica) error {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var errs []error
	for _, r := range replicas {
		r.Continue()
		errs = append(errs, r.Client.Close(bound))
	}
	return errors.Join(errs...)
}

// Run opens n replicas and runs them until all have returned, one has failed,
// or ctx ends, which is no error.
func Run(ctx context.Context, out io.Writer, url string, n int, life func(context.Context, *Replica) error) (err error) {
	replicas, err := Open(ctx, out, url, n)
	if err != nil {
		return unless(ctx, err)
	}
	defer func() { err = errors.Join(err, Close(ctx, replicas)) }()
	all, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, r := range replicas {
		wg.Go(func() {
			if errs[i] = unless(all, life(all, r)); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// unless returns err, unless that says no more than that ctx has ended.
func unless(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// Passing reports that a replica goes on after an error: its client opens
// another session by itself.
func Passing(err error) bool {
	return errors.Is(err, coordinator.ErrSessionLost) || errors.Is(err, coordinator.ErrRemoved) || errors.Is(err, coordinator.ErrUnavailable)
}

// Pause waits, and reports whether ctx let it.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Dir makes the directory that the replicas of an example share, and returns
// what removes it when it is not needed any more. It is dir if there is one;
// else one in the system's for temporary files, by the service's URL and the
// name of the lock: tokens of one mean nothing to another. That of a service in
// memory is new, since nobody else can share it.
func Dir(example, dir, url, name string) (path string, remove func(), err error) {
	switch {
	case dir != "":
		path = dir
	case url == InMemory:
		path, err = os.MkdirTemp("", "baton-"+example+"-")
		return path, func() { _ = os.RemoveAll(path) }, err
	default:
		h := fnv.New32()
		_, _ = io.WriteString(h, url+" "+name)
		path = filepath.Join(os.TempDir(), fmt.Sprintf("baton-%s-%08x", example, h.Sum32()))
	}
	return path, func() {}, os.MkdirAll(path, 0o700)
}
