package integration_test

import (
	"crypto/sha1" // used by ZooKeeper's digest scheme
	"encoding/base64"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/integration/internal/zkwire"
	"github.com/baton-go/baton/internal/pages"
)

// documented returns the commands of a tool in docs/operations.md that concern
// rights.
func documented(t *testing.T, tool string, words ...string) [][]string {
	t.Helper()
	list, err := pages.All("..")
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for _, p := range list {
		for _, c := range p.Commands() {
			about := slices.ContainsFunc(c.Words, func(w string) bool { return slices.Contains(words, w) })
			if p.Path == "docs/operations.md" && c.Words[0] == tool && about && !c.Mention {
				all = append(all, c.Words[1:])
			}
		}
	}
	if len(all) < 2 {
		t.Fatalf("docs/operations.md shows only %d commands of %s", len(all), tool)
	}
	return all
}

// With the rights in docs/operations.md a client can do everything it has to,
// and others cannot.
func TestDocumentedRightsAreEnough(t *testing.T) {
	t.Parallel()
	const password = "s3cret"
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		addr := servers.NewEtcd(t, etcdserver.Options{Nodes: 1}).Endpoints()[0]
		etcdctl, err := etcdserver.Client(await.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range documented(t, "etcdctl", "user", "role", "auth") {
			if slices.Equal(words[:2], []string{"user", "add"}) { // without a terminal the password is an argument
				words = append(slices.Clone(words), "--interactive=false")
			}
			run := exec.Command(etcdctl, append([]string{"--endpoints=" + addr}, words...)...)
			run.Stdin = strings.NewReader(password + "\n")
			if out, err := run.CombinedOutput(); err != nil {
				t.Fatalf("etcdctl %s: %v: %s", strings.Join(words, " "), err, out)
			}
		}
		rightsAreEnough(t, "etcd://orders:"+password+"@"+addr+"/orders", "etcd://"+addr+"/orders", "etcd://orders:"+password+"@"+addr+"/payments")
	})
	t.Run("zookeeper", func(t *testing.T) {
		t.Parallel()
		addr := servers.NewZooKeeper(t, zkserver.Options{Nodes: 1}).Endpoints()[0]
		sum := sha1.Sum([]byte("orders:" + password))
		digest := base64.StdEncoding.EncodeToString(sum[:])
		for _, words := range documented(t, "zkCli.sh", "create", "setAcl") {
			for i, w := range words {
				words[i] = strings.NewReplacer("h1:2181", addr, "BASE64", digest).Replace(w)
			}
			if out, err := exec.Command(zkCli(t), words...).CombinedOutput(); err != nil {
				t.Fatalf("zkCli.sh %s: %v: %s", strings.Join(words, " "), err, out)
			}
		}
		rightsAreEnough(t, "zk://orders:"+password+"@"+addr+"/orders", "zk://"+addr+"/orders", "zk://orders:other@"+addr+"/orders")
	})
}

// rightsAreEnough acquires all kinds of holds with one URL, and expects
// refusals with the others.
func rightsAreEnough(t *testing.T, may string, mayNot ...string) {
	t.Helper()
	var log ledger
	name := fresh(t)
	c := log.client(t, may)
	for _, w := range alone {
		h := w.take(t, c, name(string(w)))
		h.mustRelease(t)
		w.queued(t, c, name(string(w)), 0)
	}
	for _, url := range mayNot {
		if err := open(t, url); !errors.Is(err, coordinator.ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", url, err)
		}
	}
}

// zkCli is ZooKeeper's own command line.
func zkCli(t *testing.T) string {
	t.Helper()
	for _, home := range []string{os.Getenv("ZOOKEEPER_HOME"), "/usr/share/zookeeper"} {
		path := filepath.Join(home, "bin", "zkCli.sh")
		if _, err := os.Stat(path); err == nil && home != "" {
			return path
		}
	}
	t.Fatal("no zkCli.sh in ZOOKEEPER_HOME nor where Debian has it")
	return ""
}

// javaRandom returns n bytes of java.util.Random with a seed.
func javaRandom(seed int64, n int) (all []byte) {
	const factor, mask = 0x5DEECE66D, 1<<48 - 1
	for state := (uint64(seed) ^ factor) & mask; len(all) < n; {
		state = (state*factor + 0xB) & mask
		all = binary.LittleEndian.AppendUint32(all, uint32(state>>16))
	}
	return all[:n]
}

// SECURITY.md says that all who can connect to ZooKeeper can end sessions, no
// matter what the ACLs are: a session's password follows from its number.
func TestZooKeeperEndsASessionForAnyClient(t *testing.T) {
	t.Parallel()
	addr := servers.NewZooKeeper(t, zkserver.Options{Nodes: 1}).Endpoints()[0]
	stranger := zooKeeperConn(addr)
	defer stranger.Close()
	if _, _, err := stranger.Exists("/"); err != nil { // it has a session
		t.Fatal(err)
	}
	c, err := coordinator.Open("zk://orders:secret@"+addr+"/orders", logTo(t))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, c)
	l, err := newMutex(t, c, servers.Name(t)).Lock(await.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	// The server counts sessions, so the stranger knows the next number. The
	// constant is in ZooKeeper's source.
	next := stranger.SessionID() + 1
	session := zkwire.Session{ID: next, Password: javaRandom(next^0xB3415C00, 16), Timeout: 10 * time.Second}
	if err := session.Kill(await.Context(t), addr); err != nil {
		t.Fatalf("ending session %#x: %v", next, err)
	}
	await.Receive(t, "the end of the hold's context", l.Context().Done())
}
