package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/tlsfiles/tlstest"
)

const secret = "s3cr3t"

func parse(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	check(t, err)
	return u
}

func TestOpenAcceptsURLs(t *testing.T) {
	for _, c := range []struct {
		url, name, namespace string
		endpoints            []string
	}{
		{"etcd://h1", "etcd://h1:2379/", "", []string{"http://h1:2379"}},
		{"etcd://h1:2379,h2:3379/", "etcd://h1:2379,h2:3379/", "", []string{"http://h1:2379", "http://h2:3379"}},
		{"etcd://h1,h2/apps/orders?dial-timeout=1s", "etcd://h1:2379,h2:2379/apps/orders", "apps/orders", []string{"http://h1:2379", "http://h2:2379"}},
		{"etcd://user:" + secret + "@h1/a", "etcd://h1:2379/a", "a", []string{"http://h1:2379"}},
		{"etcds://[::1]:9/a?servername=x", "etcds://[::1]:9/a", "a", []string{"https://[::1]:9"}},
	} {
		u := parse(t, c.url)
		d, err := Open(u)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		for _, got := range []string{d.String(), fmt.Sprintf("%+v", d)} {
			if got != c.name {
				t.Errorf("%s: String is %s, want %s", c.url, got, c.name)
			}
		}
		cfg, o, _ := parseURL(u)
		if o.namespace != c.namespace || !slices.Equal(cfg.Endpoints, c.endpoints) {
			t.Errorf("%s: namespace %q, endpoints %q", c.url, o.namespace, cfg.Endpoints)
		}
		if u.User != nil && (cfg.Username != "user" || cfg.Password != secret) {
			t.Errorf("%s: no credentials", c.url)
		}
		if (cfg.TLS != nil) != (u.Scheme == "etcds") {
			t.Errorf("%s: TLS %v", c.url, cfg.TLS != nil)
		}
	}
	got := describe([]string{"https://u:" + secret + "@h:1", "h2:2"}, "n")
	if got != "etcds://h:1,h2:2/n" {
		t.Error(got)
	}
}

func TestOpenRefusesURLs(t *testing.T) {
	cert, key := certificate(t)
	for _, c := range []struct{ url, want string }{
		{"zk://h1", "scheme"},
		{"etcd:///ns", "no host"},
		{"etcd://h1:99999", "port"},
		{"etcd://h1,,h2", "host"},
		{"etcd://h1/a//b", "namespace"},
		{"etcd://h1/a#" + secret, "fragment"},
		{"etcd://user@h1", "no password"},
		{"etcd://user:@h1", "no password"},
		{"etcd://:" + secret + "@h1", "no user name"},
		{"etcd://h1?color=" + secret, "unknown URL parameter"},
		{"etcd://h1?dial-timeout=" + secret, "dial-timeout"},
		{"etcd://h1?dial-timeout=0s", "dial-timeout"},
		{"etcd://h1?cacert=" + cert, "scheme etcds"},
		{"etcd://h1?servername=x", "scheme etcds"},
		{"etcds://h1?cert=" + cert, "together"},
		{"etcds://h1?key=" + key, "together"},
		{"etcds://h1?cacert=/nowhere/ca.pem", "/nowhere/ca.pem"},
		{"etcds://h1?cacert=" + key, "no PEM certificate"},
		{"etcds://h1?cert=" + key + "&key=" + cert, "cert and key"},
		{"etcds://h1?cert=", "must not be empty"},
	} {
		d, err := Open(parse(t, c.url))
		if !errors.Is(err, driver.ErrInvalid) || d != nil {
			t.Errorf("%s: got %v, want ErrInvalid", c.url, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: error %q, want %q and no secret", c.url, err, c.want)
		}
	}
	if _, err := Open(nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("nil URL: %v", err)
	}
}

func TestTLSFilesAreUsed(t *testing.T) {
	cert, key := certificate(t)
	cfg, _, err := parseURL(parse(t, fmt.Sprintf("etcds://h1?cacert=%s&cert=%s&key=%s&servername=etcd.internal", cert, cert, key)))
	check(t, err)
	if cfg.TLS.ServerName != "etcd.internal" || cfg.TLS.RootCAs == nil || cfg.TLS.MinVersion < tls.VersionTLS12 {
		t.Errorf("%+v", cfg.TLS)
	}
	if pair, err := cfg.TLS.GetClientCertificate(nil); err != nil || len(pair.Certificate) != 1 {
		t.Errorf("client certificate: %v", err)
	}
	// Each connection reads the pair again.
	check(t, os.Remove(key))
	if _, err := cfg.TLS.GetClientCertificate(nil); err == nil {
		t.Error("the certificate was kept")
	}
}

// TestServerNameReachesTheHandshake, although the client library passes the
// endpoint's host to gRPC.
func TestServerNameReachesTheHandshake(t *testing.T) {
	names := make(chan string, 10)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			names <- hello.ServerName
			return nil, errors.New("seen enough")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	d, err := Open(parse(t, fmt.Sprintf("etcds://%s/?servername=etcd.internal", listener.Addr())))
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	go func() {
		defer cancel()
		if name := <-names; name != "etcd.internal" {
			t.Errorf("asked for %q", name)
		}
	}()
	if _, err := d.Open(ctx, 5*time.Second); err == nil {
		t.Error("opened without a handshake")
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Error("no handshake")
	}
	_ = d.Close(t.Context())
}

// certificate writes a certificate and its key and returns their paths.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", keyDER)
}

// TestRotatedAuthorityIsUsedForTheNextConnection: the client library would keep
// the configuration of the opening.
func TestRotatedAuthorityIsUsedForTheNextConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	authority, file := tlstest.NewAuthority(), filepath.Join(t.TempDir(), "ca.pem")
	check(t, os.WriteFile(file, tlstest.NewAuthority().PEM, 0o600))
	d, err := Open(parse(t, fmt.Sprintf("etcds://%s/?cacert=%s", listener.Addr(), file)))
	check(t, err)
	check(t, os.WriteFile(file, authority.PEM, 0o600))
	trusted := tlstest.Trusted(listener, authority.Server("127.0.0.1"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() { _, _ = d.Open(ctx, 5*time.Second) }()
	select {
	case <-trusted:
	case <-ctx.Done():
		t.Error("the server was not trusted")
	}
	cancel()
	_ = d.Close(t.Context())
}
