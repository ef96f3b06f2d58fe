package integration_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator"
	events "github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/semaphore"
)

// firstClient is a client whose log and strays a test reads.
type firstClient struct {
	*coordinator.Client
	log, debug lockedBuffer // debug has the lines of log, too
	strays     chan string  // what removes them
}

func newFirstClient(t *testing.T, url string) *firstClient {
	t.Helper()
	f := &firstClient{strays: make(chan string, 16)}
	var err error
	f.Client, err = coordinator.Open(url,
		coordinator.WithLogger(slog.New(slog.NewMultiHandler(slog.NewTextHandler(&f.log, nil),
			slog.NewTextHandler(&f.debug, &slog.HandlerOptions{Level: slog.LevelDebug})))),
		coordinator.WithObserver(events.ObserverFunc(func(e events.Event) {
			if e.Kind == events.Stray {
				f.strays <- e.Err.Error()
			}
		})))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, f.Client)
	return f
}

// warned waits for a warning, and for a line with all the words. That is the
// warning itself, except if the service took long to answer the first attempt:
// then a later one says why it failed.
func (f *firstClient) warned(t *testing.T, words ...string) {
	t.Helper()
	await.Until(t, "a warning", func() bool { return strings.Contains(f.log.String(), "\n") })
	line, _, _ := strings.Cut(f.log.String(), "\n")
	says(t, line, "level=WARN")
	await.Until(t, fmt.Sprintf("a line with %q", words), func() bool {
		for line = range strings.Lines(f.debug.String()) {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
				return true
			}
		}
		return false
	})
	says(t, strings.TrimSuffix(line, "\n"), words...)
}

// says checks that an error is one line that has the words, and no cause twice.
func says(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not said in: %s", w, text)
		}
	}
	causes := strings.Split(text, ": ")
	slices.Sort(causes)
	if strings.Contains(text, "\n") || len(slices.Compact(slices.Clone(causes))) < len(causes) {
		t.Errorf("more than a line, or a cause twice: %s", text)
	}
}

var errGivenUp = errors.New("given up")

// TestServiceThatCannotBeUsedIsExplained: the log and the error of a call
// without a deadline say what is wrong, where, and what to try.
func TestServiceThatCannotBeUsedIsExplained(t *testing.T) {
	t.Parallel()
	etcd, zooKeeper := servers.Etcd(t).Endpoints()[0], servers.ZooKeeper(t).Endpoints()[0]
	ca, none := newAuthority(t), freeAddr(t)
	etcdTLS, zooKeeperTLS := securedEtcd(t, ca).addr, securedZooKeeper(t, ca).addr
	const start, plain = "check address and port, and that the server runs", `URL's scheme without "s"`
	for name, c := range map[string]struct{ url, what, try string }{
		"etcd no server":           {"etcd://" + none, "connection refused", start},
		"etcd ZooKeeper's port":    {"etcd://" + zooKeeper, "server preface", "zk:// for ZooKeeper"},
		"etcd TLS server":          {"etcd://" + etcdTLS, "server preface", "etcds:// for TLS"},
		"etcd plain server":        {"etcds://" + etcd, "handshake failed", plain},
		"etcd untrusted":           {"etcds://" + etcdTLS, "unknown authority", "cacert="},
		"ZooKeeper no server":      {"zk://" + none, "connection refused", start},
		"ZooKeeper etcd's port":    {"zk://" + etcd, "not answered", "etcd:// for etcd"},
		"ZooKeeper TLS server":     {"zk://" + zooKeeperTLS, "EOF", "use zks://"},
		"ZooKeeper plain server":   {"zks://" + zooKeeper, "handshake failed", plain},
		"ZooKeeper untrusted":      {"zks://" + zooKeeperTLS, "unknown authority", "cacert="},
		"ZooKeeper no certificate": {"zks://" + zooKeeperTLS + "/?cacert=" + ca.file, "bad certificate", "cert= and key="},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFirstClient(t, c.url)
			where, _, _ := strings.Cut(c.url, "/?")
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := newMutex(t, f.Client, "n").Lock(ctx)
				ended <- err
			}()
			f.warned(t, where, c.what, strings.ReplaceAll(c.try, `"`, `\"`))
			cancel(errGivenUp)
			err := <-ended
			if !errors.Is(err, coordinator.ErrUnavailable) || !errors.Is(err, errGivenUp) {
				t.Errorf("Lock: %v", err)
			}
			says(t, err.Error(), where, c.what, c.try)
		})
	}
	t.Run("baton", func(t *testing.T) {
		for _, url := range []string{"etcd://" + none, "zk://" + none} {
			c := baton(t, url, "lock", "n", "--", "true")
			warned := func() bool { return strings.Contains(c.err.String(), "\n") }
			await.Until(t, "a warning", warned)
			line, _, _ := strings.Cut(c.err.String(), "\n") // more may follow
			says(t, line, url, "level=WARN", "connection refused", start)
		}
		c := baton(t, "zk://"+none, "lock", "-w", "5", "n", "--", "true")
		c.wants(125)
		lines := strings.Split(strings.TrimSpace(c.err.String()), "\n") // warnings may precede the error
		says(t, lines[len(lines)-1], none, "connection refused", start, "baton doctor")
	})
}

func TestWrongPasswordIsExplained(t *testing.T) {
	t.Parallel()
	const advice = "check user and password in the URL"
	t.Run("etcd", func(t *testing.T) {
		cluster := servers.NewEtcd(t, etcdserver.Options{})
		raw, ctx := site{"etcd", cluster.Endpoints()}.etcdClient(t), await.Context(t)
		_, err := raw.RoleAdd(ctx, "root")
		if err == nil {
			_, err = raw.UserAdd(ctx, "root", "right")
		}
		if err == nil {
			_, err = raw.UserGrantRole(ctx, "root", "root")
		}
		if err == nil {
			_, err = raw.AuthEnable(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		addr := cluster.Endpoints()[0]
		for url, words := range map[string][]string{
			"etcd://root:wrong@" + addr: {"authentication failed", advice},
			"etcd://" + addr:            {"user name is empty", "give user and password in the URL"},
		} {
			err := open(t, url)
			if !errors.Is(err, coordinator.ErrRefused) {
				t.Fatalf("%v, want ErrRefused", err)
			}
			says(t, err.Error(), append(words, "etcd://"+addr)...)
		}
	})
	t.Run("zookeeper", func(t *testing.T) {
		at := servers.ZooKeeper(t).Endpoints()[0] + "/" + servers.Name(t)
		if err := open(t, "zk://alice:right@"+at); err != nil {
			t.Fatal(err)
		}
		err := open(t, "zk://alice:wrong@"+at) // which ZooKeeper takes for another identity
		if !errors.Is(err, coordinator.ErrRefused) {
			t.Fatalf("%v, want ErrRefused", err)
		}
		says(t, err.Error(), `lock "Test`, "not authenticated", advice)
	})
}

func TestBadNamesAndOtherLimitsAreExplained(t *testing.T) {
	t.Parallel()
	for _, s := range []site{{"etcd", servers.Etcd(t).Endpoints()}, {"zk", servers.ZooKeeper(t).Endpoints()}} {
		c := s.client(t, longTTL)
		for name, words := range map[string][]string{
			"a\x01b":                 {`"a\x01b"`, "control character"},
			strings.Repeat("x", 300): {"xxx", "300 bytes; at most 255 are allowed"},
		} {
			_, err := mutex.New(c, name)
			if !errors.Is(err, coordinator.ErrInvalid) {
				t.Fatalf("%v, want ErrInvalid", err)
			}
			says(t, err.Error(), words...)
		}
		name := servers.Name(t)
		acquire := func(limit int) error {
			sem, err := semaphore.New(c, name, limit)
			if err != nil {
				t.Fatal(err)
			}
			p, err := sem.Acquire(await.Context(t), 1)
			if err == nil {
				err = p.Release(await.Context(t))
			}
			return err
		}
		if err := acquire(3); err != nil {
			t.Fatal(err)
		}
		err := acquire(4)
		if !errors.Is(err, coordinator.ErrInvalid) {
			t.Fatalf("%v, want ErrInvalid", err)
		}
		says(t, err.Error(), name, "is 3, not 4", "change it with SetLimit", "Set(4)", "or use the stored one")
	}
}

// TestSilenceIsToldWhileTheCallGoesOn: the service falls silent when there is a
// session already.
func TestSilenceIsToldWhileTheCallGoesOn(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, url string, pause, resume func() error) {
		f := newFirstClient(t, url)
		m := newMutex(t, f.Client, servers.Name(t))
		unlock(t, lock(t, m))
		if err := pause(); err != nil {
			t.Fatal(err)
		}
		locks := make(chan *mutex.Lock, 1)
		go func() {
			l, err := m.Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			locks <- l
		}()
		f.warned(t, "the service has not answered, still trying", url)
		if err := resume(); err != nil {
			t.Fatal(err)
		}
		if l := <-locks; l != nil {
			unlock(t, l)
		}
	}
	t.Run("etcd", func(t *testing.T) {
		c := servers.NewEtcd(t, etcdserver.Options{})
		run(t, "etcd://"+c.Endpoints()[0], c.Node(0).Pause, c.Node(0).Resume)
	})
	t.Run("zookeeper", func(t *testing.T) {
		c := servers.NewZooKeeper(t, zkserver.Options{})
		run(t, "zk://"+c.Endpoints()[0], c.Node(0).Pause, c.Node(0).Resume)
	})
}

// plantEtcd makes a key without a lease, and returns what removes it.
func plantEtcd(t *testing.T, key string) (command string, remove func() error) {
	t.Helper()
	c := site{"etcd", servers.Etcd(t).Endpoints()}.etcdClient(t)
	if _, err := c.Put(await.Context(t), key, ""); err != nil {
		t.Fatal(err)
	}
	return "etcdctl del '" + key + "'", func() error {
		_, err := c.Delete(await.Context(t), key)
		return err
	}
}

// plantZooKeeper makes a persistent node, and those above it.
func plantZooKeeper(t *testing.T, node string, flags int32) (command string, remove func() error) {
	t.Helper()
	c := site{"zk", servers.ZooKeeper(t).Endpoints()}.zkConn(t, longTTL)
	parts := strings.Split(node, "/")
	for i := 2; i < len(parts); i++ {
		_, err := c.Create(strings.Join(parts[:i], "/"), nil, 0, zk.WorldACL(zk.PermAll))
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
	}
	made, err := c.Create(node, nil, flags, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	return "zkCli.sh delete '" + made + "'", func() error { return c.Delete(made, -1) }
}

// TestStraysAreNamed: entries that no session owns, and the command that
// removes them, in the log and to observers of a contender that waits, in an
// error of one that does not, in inspect and by doctor.
func TestStraysAreNamed(t *testing.T) {
	t.Parallel()
	const numbered = "/x_0123456789abcdef_1_"
	name := servers.Name(t)
	etcd := "etcd://" + servers.Etcd(t).Endpoints()[0] + "/" + name
	zooKeeper := "zk://" + servers.ZooKeeper(t).Endpoints()[0] + "/" + name
	for _, c := range []struct {
		what, url string
		plant     func(*testing.T) (command string, remove func() error)
	}{
		{"etcd", etcd, func(t *testing.T) (string, func() error) {
			return plantEtcd(t, name+"/./mutex/n/stray")
		}},
		{"zookeeper", zooKeeper, func(t *testing.T) (string, func() error) {
			return plantZooKeeper(t, "/"+name+"/~/mutex/n"+numbered, zk.FlagSequence)
		}},
		{"zookeeper unnumbered", zooKeeper + "2", func(t *testing.T) (string, func() error) {
			return plantZooKeeper(t, "/"+name+"2/~/mutex/n/stray", 0)
		}},
		{"curator", zooKeeper + "3?layout=curator", func(t *testing.T) (string, func() error) {
			return plantZooKeeper(t, "/"+name+"3/n/_c_0123-lock-", zk.FlagSequence)
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			f := newFirstClient(t, c.url)
			m := newMutex(t, f.Client, "n")
			command, remove := c.plant(t)
			_, err := m.TryLock(await.Context(t))
			if err == nil {
				t.Fatal("it was taken")
			}
			says(t, err.Error(), `"n"`, command)
			show := baton(t, c.url, "inspect", "--kind", "mutex", "n")
			if show.code(); !strings.Contains(show.out.String()+show.err.String(), command) {
				t.Errorf("inspect does not say %q", command)
			}
			if c.what != "curator" { // whose queues cannot be listed
				await.State(t, "doctor to say "+command, func() (string, bool) { // it has ten seconds, which may be few
					doctor := baton(t, c.url, "doctor")
					return doctor.out.String(), doctor.code() == 1 && strings.Contains(doctor.out.String(), command)
				})
			}
			if errors.Is(err, coordinator.ErrRefused) {
				if err := remove(); err != nil {
					t.Fatal(err)
				}
				unlock(t, lock(t, m))
				return
			}
			locks := make(chan *mutex.Lock, 1)
			go func() { locks <- lock(t, m) }()
			says(t, await.Receive(t, "the event", f.strays), command)
			// The log is written in the background.
			var warning string // a slow service may be another
			await.Until(t, "the warning in the log", func() bool {
				lines := slices.DeleteFunc(strings.Split(f.log.String(), "\n"), func(l string) bool { return !strings.Contains(l, "a stray entry") })
				warning = strings.Join(lines, "\n")
				return len(lines) > 0
			})
			says(t, warning, "level=WARN", "a stray entry blocks the contenders behind it", command)
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			unlock(t, <-locks)
		})
	}
}
