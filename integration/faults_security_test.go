package integration_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/internal/freeport"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its own certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of " + t.Name()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, cert: cert, key: key, file: filepath.Join(t.TempDir(), "ca.pem")}
	a.write(a.file, "CERTIFICATE", der)
	return a
}

func (a *authority) write(file, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// issue writes a new certificate and its key over the old files.
func (a *authority) issue(cert, key string) {
	a.t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "anyone"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &own.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(key, "PRIVATE KEY", pkcs8)
	a.write(cert, "CERTIFICATE", der)
}

// secured is a server that requires client certificates.
type secured struct {
	scheme string
	addr   string
	// renew makes the server load the current files.
	renew func(t *testing.T)
}

func securedEtcd(t *testing.T, ca *authority) secured {
	t.Helper()
	addr, dir := freeAddr(t), t.TempDir()
	cert, key := filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem")
	ca.issue(cert, key)
	servers.NewEtcd(t, etcdserver.Options{Listen: []string{"https://" + addr}, Args: []string{
		"--cert-file=" + cert, "--key-file=" + key, "--client-cert-auth", "--trusted-ca-file=" + ca.file,
	}})
	// etcd reads its files at each handshake.
	return secured{"etcds", addr, func(*testing.T) { ca.issue(cert, key) }}
}

func securedZooKeeper(t *testing.T, ca *authority) secured {
	t.Helper()
	addr, dir := freeAddr(t), t.TempDir()
	cert, key := filepath.Join(dir, "server-cert.pem"), filepath.Join(dir, "server-key.pem")
	both := filepath.Join(dir, "server.pem")
	issue := func() { // one file for both
		ca.issue(cert, key)
		k, err := os.ReadFile(key)
		if err != nil {
			t.Fatal(err)
		}
		c, err := os.ReadFile(cert)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(both, append(k, c...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issue()
	_, port, _ := strings.Cut(addr, ":")
	cluster := servers.NewZooKeeper(t, zkserver.Options{Config: []string{
		"secureClientPort=" + port, "secureClientPortAddress=127.0.0.1",
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"ssl.keyStore.location=" + both, "ssl.keyStore.type=PEM",
		"ssl.trustStore.location=" + ca.file, "ssl.trustStore.type=PEM",
	}})
	return secured{"zks", addr, func(t *testing.T) {
		issue()
		cluster.Node(0).Kill()
		if err := cluster.Node(0).Restart(await.Context(t)); err != nil {
			t.Fatal(err)
		}
	}}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ports, err := freeport.Take(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { freeport.Release(ports...) })
	return freeport.Addr(ports[0])
}

// Both sides accept only a certificate of the right authority. A replaced
// certificate is used for the next connection, so a hold survives the rotation
// on both sides.
func TestMutualTLSWithRotatedCertificates(t *testing.T) {
	for name, start := range map[string]func(*testing.T, *authority) secured{"etcd": securedEtcd, "zookeeper": securedZooKeeper} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca, stranger := newAuthority(t), newAuthority(t)
			server := start(t, ca)
			dir := t.TempDir()
			cert, key := filepath.Join(dir, "client.pem"), filepath.Join(dir, "client-key.pem")
			ca.issue(cert, key)
			bad, badKey := filepath.Join(dir, "bad.pem"), filepath.Join(dir, "bad-key.pem")
			stranger.issue(bad, badKey)

			base := server.scheme + "://" + server.addr + "/baton-test"
			for what, query := range map[string]string{
				"no certificate":                           "?cacert=" + ca.file,
				"a certificate of another authority":       "?cacert=" + ca.file + "&cert=" + bad + "&key=" + badKey,
				"a server of another authority than meant": "?cacert=" + stranger.file + "&cert=" + cert + "&key=" + key,
			} {
				began := time.Now()
				err := openUntil(within(t, 2*time.Second), t, base+query)
				if !errors.Is(err, coordinator.ErrUnavailable) && !errors.Is(err, coordinator.ErrRefused) {
					t.Errorf("%s: %v, want a refusal", what, err)
				}
				t.Logf("%s: after %v: %v", what, time.Since(began).Round(time.Millisecond), err)
			}

			proxy := servers.Proxy(t, []string{server.addr})
			url := server.scheme + "://" + proxy.Addr() + "/baton-test?ttl=30s&cacert=" + ca.file + "&cert=" + cert + "&key=" + key
			c, err := coordinator.Open(url, logTo(t))
			if err != nil {
				t.Fatal(err)
			}
			closeAtEnd(t, c)
			n := servers.Name(t)
			m := newMutex(t, c, n)
			l := lock(t, m)
			stranger.issue(cert, key) // an operator installs the wrong files
			proxy.Reset()
			if _, err := m.TryLock(within(t, 5*time.Second)); !errors.Is(err, coordinator.ErrUnavailable) {
				t.Errorf("with the wrong certificate on the disk: %v", err)
			}
			ca.issue(cert, key) // and corrects it
			await.Until(t, "the service answers again", func() bool {
				_, err := m.TryLock(within(t, 2*time.Second))
				return errors.Is(err, coordinator.ErrTaken)
			})
			server.renew(t)
			proxy.Reset()
			await.Until(t, "the service to answer with its new certificate", func() bool {
				_, err := m.TryLock(within(t, 2*time.Second))
				return errors.Is(err, coordinator.ErrTaken)
			})
			if l.Err() != nil {
				t.Errorf("the hold did not survive the rotation: %v", l.Err())
			}
			unlock(t, l)
			if left := inQueue(t, m); left != 0 {
				t.Errorf("%d left in the queue", left)
			}
		})
	}
}

// ledger collects everything that clients log, to search it for secrets.
type ledger struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *ledger) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *ledger) option() coordinator.Option {
	return coordinator.WithLogger(slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug - 10})))
}

// note adds an error, in all its formats.
func (l *ledger) note(err error) {
	if err != nil {
		fmt.Fprintf(l, "%v\n%+v\n%#v\n", err, err, err)
	}
}

// tells fails the test if a secret was logged.
func (l *ledger) tells(t *testing.T, secrets ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b.Len() == 0 {
		t.Error("nothing was logged: the test shows nothing")
	}
	for _, secret := range secrets {
		if i := strings.Index(l.b.String(), secret); i >= 0 {
			t.Errorf("%q is in the log: …%s…", secret, l.b.String()[max(0, i-100):min(l.b.Len(), i+100)])
		}
	}
}

// client opens a client that logs to the ledger.
func (l *ledger) client(t *testing.T, url string) *coordinator.Client {
	t.Helper()
	c, err := coordinator.Open(url, l.option())
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, c)
	fmt.Fprintln(l, c.String(), c.Identity())
	return c
}

const (
	alicePassword = "correct-horse-7c1f"
	bobPassword   = "battery-staple-9e2d"
)

// secureEtcd is an etcd with root and users with different rights.
type secureEtcd struct {
	site
	root *clientv3.Client
}

func newSecureEtcd(t *testing.T, tokenTTL time.Duration) secureEtcd {
	t.Helper()
	s := site{"etcd", servers.NewEtcd(t, etcdserver.Options{Args: []string{
		fmt.Sprintf("--auth-token-ttl=%d", int(tokenTTL.Seconds())),
	}}).Endpoints()}
	raw, ctx := s.etcdClient(t), await.Context(t)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(raw.RoleAdd(ctx, "root"))
	must(raw.UserAdd(ctx, "root", "root"))
	must(raw.UserGrantRole(ctx, "root", "root"))
	for role, kind := range map[string]clientv3.PermissionType{
		"all": clientv3.PermissionType(clientv3.PermReadWrite), "readers": clientv3.PermissionType(clientv3.PermRead),
		"writers": clientv3.PermissionType(clientv3.PermWrite),
	} {
		must(raw.RoleAdd(ctx, role))
		must(raw.RoleGrantPermission(ctx, role, "baton-test/", clientv3.GetPrefixRangeEnd("baton-test/"), kind))
	}
	for user, role := range map[string]string{"alice": "all", "reader": "readers", "writer": "writers", "nobody": ""} {
		password := bobPassword
		if user == "alice" {
			password = alicePassword
		}
		must(raw.UserAdd(ctx, user, password))
		if role != "" {
			must(raw.UserGrantRole(ctx, user, role))
		}
	}
	must(raw.AuthEnable(ctx))
	root, err := clientv3.New(clientv3.Config{Endpoints: s.endpoints, Username: "root", Password: "root", DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return secureEtcd{s, root}
}

func (s secureEtcd) as(user, password string) string {
	return fmt.Sprintf("etcd://%s:%s@%s/baton-test?ttl=12s", user, password, s.endpoints[0])
}

// keys counts the keys below the namespace, except those of sessions.
func (s secureEtcd) keys(t *testing.T, below string) int {
	t.Helper()
	resp, err := s.root.Get(within(t, 10*time.Second), "baton-test/./"+below, clientv3.WithPrefix(), clientv3.WithCountOnly())
	for errors.Is(err, rpctypes.ErrInvalidAuthToken) { // this client's token has expired, too
		resp, err = s.root.Get(within(t, 10*time.Second), "baton-test/./"+below, clientv3.WithPrefix(), clientv3.WithCountOnly())
	}
	if err != nil {
		t.Fatal(err)
	}
	return int(resp.Count)
}

// The token lives for a second and renewals are more than a second apart, so
// each renewal uses an expired token.
func TestEtcdTokenThatExpiresWhileHoldingIsRenewed(t *testing.T) {
	t.Parallel()
	s := newSecureEtcd(t, time.Second)
	var log ledger
	c, other := log.client(t, s.as("alice", alicePassword)), log.client(t, s.as("alice", alicePassword))
	name := fresh(t)
	var holds []hold
	var next []*pending
	for _, w := range alone {
		holds = append(holds, w.take(t, c, name(string(w))))
		next = append(next, w.queue(t, other, name(string(w)), 2))
	}
	await.For(t.Context(), 15*time.Second) // more than the TTL
	for i, w := range alone {
		if err := holds[i].Err(); err != nil || next[i].over() {
			t.Errorf("%s: lost with the token: %v", w, err)
		}
		holds[i].mustRelease(t)
		next[i].granted().mustRelease(t) // its watch had an expired token, too
		w.queued(t, c, name(string(w)), 0)
	}
	log.tells(t, alicePassword)
}

// Without the right to write, a client cannot join, release or delete; without
// the right to read, it cannot list. Each failure is ErrRefused, is immediate,
// and leaves nothing. A holder whose rights are revoked cannot release; its
// entry is removed when it has them again.
func TestEtcdUsersWithoutRightsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSecureEtcd(t, 5*time.Minute)
	var log ledger
	name := fresh(t)
	owner := log.client(t, s.as("alice", alicePassword))
	var holds []hold
	for _, w := range alone {
		holds = append(holds, w.take(t, owner, name(string(w))))
	}
	before := s.keys(t, "")
	for _, user := range []string{"reader", "writer", "nobody"} {
		c := log.client(t, s.as(user, bobPassword))
		for _, w := range []way{aLock, aWrite, aRead, aTerm, twoOf} {
			for _, n := range []string{name(string(w)), name("new " + string(w))} {
				began := time.Now()
				_, err := w.ask(await.Context(t), c, n)
				log.note(err)
				if !errors.Is(err, coordinator.ErrRefused) || coordinator.MayHaveApplied(err) {
					t.Errorf("%s: %s: %v after %v, want ErrRefused", user, w, err, time.Since(began))
				}
			}
		}
		_, err := newMutex(t, c, name(string(aLock))).Contenders(within(t, 10*time.Second))
		log.note(err)
		if !errors.Is(err, coordinator.ErrRefused) {
			t.Errorf("%s lists: %v, want ErrRefused", user, err)
		}
		log.note(c.Close(within(t, 5*time.Second)))
	}
	if n := s.keys(t, ""); n != before {
		t.Errorf("%d keys, %d before the users without rights", n, before)
	}
	ctx := await.Context(t)
	if _, err := s.root.UserRevokeRole(ctx, "alice", "all"); err != nil {
		t.Fatal(err)
	}
	for i, w := range alone {
		err := holds[i].Release(await.Context(t))
		log.note(err)
		if !errors.Is(err, coordinator.ErrRefused) {
			t.Errorf("%s: released without rights: %v", w, err)
		}
	}
	if n := s.keys(t, "mutex/"); n != 1 {
		t.Errorf("%d entries of the mutex after a release without rights", n)
	}
	if _, err := s.root.UserGrantRole(ctx, "alice", "all"); err != nil {
		t.Fatal(err)
	}
	other := log.client(t, s.as("alice", alicePassword))
	for i, w := range alone {
		h := w.take(t, other, name(string(w)))
		if h.Token <= holds[i].Token {
			t.Errorf("%s: token %d after %d", w, h.Token, holds[i].Token)
		}
		h.mustRelease(t)
	}
	log.tells(t, alicePassword, bobPassword)
}

// The password is changed while a client holds, and the server forgets all
// tokens. The hold ends by the clock before the next grant; the error names the
// credentials.
func TestEtcdAuthFailsAtReconnect(t *testing.T) {
	t.Parallel()
	s := newSecureEtcd(t, 5*time.Minute)
	var log ledger
	name := fresh(t)
	proxy := servers.Proxy(t, s.endpoints)
	c := log.client(t, strings.Replace(s.as("alice", alicePassword), s.endpoints[0], proxy.Addr(), 1))
	held := aLock.take(t, c, name("lock"))
	told := awaitTelling(t, held.Context, held.Deadline)
	ctx := await.Context(t)
	if _, err := s.root.UserChangePassword(ctx, "alice", bobPassword); err != nil {
		t.Fatal(err)
	}
	other := log.client(t, s.as("alice", bobPassword))
	next := aLock.queue(t, other, name("lock"), 2)
	proxy.Reset()
	n := next.granted()
	told.before(next.at, "the holder")
	_, err := aLock.ask(await.Context(t), c, name("new"))
	log.note(err)
	if !errors.Is(err, coordinator.ErrRefused) {
		t.Errorf("with the old password: %v, want ErrRefused", err)
	}
	n.mustRelease(t)
	log.tells(t, alicePassword, bobPassword)
}

// One permission after the other is removed from the nodes of a queue.
// Operations that need it are refused at once, the others work, and Close
// leaves nothing.
func TestZooKeeperMissingPermissionIsRefused(t *testing.T) {
	s := site{"zk", servers.ZooKeeper(t).Endpoints()}
	admin := s.zkConn(t, 10*time.Second)
	if err := admin.AddAuth("digest", []byte("bob:"+bobPassword)); err != nil {
		t.Fatal(err)
	}
	var log ledger
	root := servers.Name(t)
	makeNode := func(path string, perms int32) {
		t.Helper()
		acl := append(zk.DigestACL(zk.PermAll, "bob", bobPassword), zk.DigestACL(perms, "alice", alicePassword)...)
		if _, err := admin.Create(path, nil, 0, acl); err != nil {
			t.Fatal(err)
		}
	}
	makeNode("/"+root, zk.PermAll)
	makeNode("/"+root+"/~", zk.PermAll)
	makeNode("/"+root+"/~/mutex", zk.PermAll)
	for what, c := range map[string]struct {
		missing               int32
		lock, unlock, listing error
	}{
		"create": {zk.PermCreate, coordinator.ErrRefused, nil, nil},
		"write":  {zk.PermWrite, coordinator.ErrRefused, nil, nil},
		"delete": {zk.PermDelete, nil, coordinator.ErrRefused, nil},
		"read":   {zk.PermRead, nil, nil, coordinator.ErrRefused},
		"admin":  {zk.PermAdmin, nil, nil, nil},
	} {
		t.Run(what, func(t *testing.T) {
			makeNode("/"+root+"/~/mutex/"+what, zk.PermAll&^c.missing)
			client := log.client(t, "zk://alice:"+alicePassword+"@"+s.endpoints[0]+"/"+root)
			m, ctx := newMutex(t, client, what), await.Context(t)
			began := time.Now()
			_, err := m.Contenders(ctx)
			log.note(err)
			if !errors.Is(err, c.listing) {
				t.Errorf("Contenders = %v, want %v", err, c.listing)
			}
			l, err := m.Lock(ctx)
			log.note(err)
			if !errors.Is(err, c.lock) {
				t.Errorf("Lock = %v, want %v", err, c.lock)
			}
			if l != nil {
				err = l.Unlock(ctx)
				log.note(err)
				if !errors.Is(err, c.unlock) {
					t.Errorf("Unlock = %v, want %v", err, c.unlock)
				}
			}
			t.Logf("all of it in %v", time.Since(began).Round(time.Millisecond))
			log.note(client.Close(within(t, 10*time.Second)))
			left, _, err := admin.Children("/" + root + "/~/mutex/" + what)
			if err != nil || len(left) != 0 {
				t.Errorf("left in the queue: %v, %v", left, err)
			}
		})
	}
	log.tells(t, alicePassword, bobPassword)
}
