package integration_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
)

// open opens a client by URL, and acquires and releases a lock.
func open(t *testing.T, url string) error {
	t.Helper()
	return openUntil(await.Context(t), t, url)
}

// openUntil is open with a context for the wait of the lock. A client that the
// server's certificate keeps out tries until its end.
func openUntil(ctx context.Context, t *testing.T, url string) error {
	t.Helper()
	c, err := coordinator.Open(url, logTo(t))
	if err != nil {
		return err
	}
	closeAtEnd(t, c)
	l, err := newMutex(t, c, servers.Name(t)).Lock(ctx)
	if err != nil {
		return err
	}
	return l.Unlock(await.Context(t))
}

// tlsFront terminates TLS for a server that speaks plain TCP. It returns its
// address and the file of the authority of its certificate for 127.0.0.1.
func tlsFront(t *testing.T, target string) (addr, ca string) {
	t.Helper()
	cert, authority := certificate(t)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority}), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer out.Close()
				go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return ln.Addr().String(), ca
}

// certificate makes an authority, and its certificate for 127.0.0.1.
func certificate(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authority, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, authority
}

func TestTLSVerifiesTheServer(t *testing.T) {
	t.Parallel()
	for scheme, target := range map[string]string{
		"etcds": servers.Etcd(t).Endpoints()[0],
		"zks":   servers.ZooKeeper(t).Endpoints()[0],
	} {
		addr, ca := tlsFront(t, target)
		_, stranger := tlsFront(t, target)
		if err := open(t, scheme+"://"+addr+"/baton-test?cacert="+ca); err != nil {
			t.Errorf("%s: %v", scheme, err)
		}
		for name, bad := range map[string]string{
			"another authority": "?cacert=" + stranger,
			"another name":      "?servername=db.example&cacert=" + ca,
			"system's roots":    "",
		} {
			t.Run(scheme+" "+name, func(t *testing.T) {
				t.Parallel()
				err := openUntil(within(t, 10*time.Second), t, scheme+"://"+addr+"/baton-test"+bad)
				if err == nil {
					t.Error("accepted")
				} else if !strings.Contains(err.Error(), "certificate") {
					t.Errorf("%v, which does not name the certificate", err)
				}
			})
		}
		if err := open(t, scheme+"://"+addr+"?cacert=/does/not/exist"); !errors.Is(err, coordinator.ErrInvalid) {
			t.Errorf("%s: missing file: %v", scheme, err)
		}
	}
}

func TestEtcdUserAndPassword(t *testing.T) {
	t.Parallel()
	cluster := servers.NewEtcd(t, etcdserver.Options{Nodes: 1})
	s := site{"etcd", cluster.Endpoints()}
	raw, ctx := s.etcdClient(t), await.Context(t)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(raw.RoleAdd(ctx, "root"))
	must(raw.UserAdd(ctx, "root", "r00t"))
	must(raw.UserGrantRole(ctx, "root", "root"))
	must(raw.RoleAdd(ctx, "locks"))
	must(raw.RoleGrantPermission(ctx, "locks", "baton-test/", clientv3.GetPrefixRangeEnd("baton-test/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(raw.UserAdd(ctx, "alice", "hunter2"))
	must(raw.UserGrantRole(ctx, "alice", "locks"))
	must(raw.AuthEnable(ctx))
	addr := s.endpoints[0]
	if err := open(t, "etcd://alice:hunter2@"+addr+"/baton-test"); err != nil {
		t.Errorf("with the right password: %v", err)
	}
	for what, url := range map[string]string{
		"wrong password":           "etcd://alice:hunter3@" + addr + "/baton-test",
		"no password":              "etcd://" + addr + "/baton-test",
		"another user's namespace": "etcd://alice:hunter2@" + addr + "/elsewhere",
	} {
		err := open(t, url)
		if !errors.Is(err, coordinator.ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", what, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: the error shows the password: %v", what, err)
		}
	}
}

func TestZooKeeperDigestAndACL(t *testing.T) {
	t.Parallel()
	s := site{"zk", servers.ZooKeeper(t).Endpoints()}
	addr, root := s.endpoints[0], servers.Name(t)
	// With credentials, by default, only the creator has access to what it
	// creates.
	c, err := coordinator.Open("zk://alice:hunter2@"+addr+"/"+root, logTo(t))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, c)
	m := newMutex(t, c, "job")
	l := lock(t, m)
	conn := s.zkConn(t, 5*time.Second)
	acl, _, err := conn.GetACL("/" + root + "/~/mutex/job")
	if err == nil && (len(acl) != 1 || acl[0].Scheme != "digest" || acl[0].Perms != zk.PermAll) {
		t.Errorf("the queue's ACL is %+v", acl)
	}
	for what, url := range map[string]string{
		"another user":   "zk://bob:hunter3@" + addr + "/" + root,
		"no credentials": "zk://" + addr + "/" + root,
	} {
		other, err := coordinator.Open(url, logTo(t))
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, other)
		o := newMutex(t, other, "job")
		if _, err := o.Lock(await.Context(t)); !errors.Is(err, coordinator.ErrRefused) {
			t.Errorf("%s: Lock = %v, want ErrRefused", what, err)
		} else if strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: the error shows the password: %v", what, err)
		}
		if _, err := o.Contenders(await.Context(t)); !errors.Is(err, coordinator.ErrRefused) {
			t.Errorf("%s: Contenders = %v, want ErrRefused", what, err)
		}
	}
	if err := open(t, "zk://bob:hunter3@"+addr+"/"+root+"?acl=open"); !errors.Is(err, coordinator.ErrRefused) {
		t.Errorf("below alice's root: %v, want ErrRefused", err)
	}
	unlock(t, l)
	// If everyone may read, others can list but not join.
	reader := servers.Name(t)
	c, err = coordinator.Open("zk://alice:hunter2@"+addr+"/"+reader+"?acl=creator-read", logTo(t))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, c)
	l = lock(t, newMutex(t, c, "job"))
	other, err := coordinator.Open("zk://"+addr+"/"+reader, logTo(t))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, other)
	o := newMutex(t, other, "job")
	if list, err := o.Contenders(context.Background()); err != nil || len(list) != 1 {
		t.Errorf("a reader lists %v, %v", list, err)
	}
	if _, err := o.Lock(await.Context(t)); !errors.Is(err, coordinator.ErrRefused) {
		t.Errorf("a reader's Lock = %v, want ErrRefused", err)
	}
	unlock(t, l)
}
