package tlsfiles_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/baton-go/baton/internal/tlsfiles"
	"github.com/baton-go/baton/internal/tlsfiles/tlstest"
)

// handshake reports whether a client with this source accepts a server.
func handshake(s *tlsfiles.Source, server *tls.Config, host string) error {
	here, there := net.Pipe()
	defer func() { _ = here.Close() }()
	go func() {
		_ = tls.Server(there, server).Handshake()
		_ = there.Close()
	}()
	_, err := s.Client(context.Background(), here, host)
	return err
}

// TestAuthoritiesAreThoseOfTheMoment: an authority can be rotated without a
// restart. While the file cannot be read, those of before count.
func TestAuthoritiesAreThoseOfTheMoment(t *testing.T) {
	const ip = "10.0.0.1"
	old, renewed := tlstest.NewAuthority(), tlstest.NewAuthority()
	file := filepath.Join(t.TempDir(), "ca.pem")
	write := func(pem []byte) {
		t.Helper()
		if err := os.WriteFile(file, pem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(old.PEM)
	source, err := tlsfiles.Files{CA: file}.For(&url.URL{Scheme: "s"}, "s")
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, trustOld, trustRenewed bool) {
		t.Helper()
		for server, trust := range map[*tlstest.Authority]bool{old: trustOld, renewed: trustRenewed} {
			if err := handshake(source, server.Server(ip), ip); (err == nil) != trust {
				t.Errorf("%s: a server of the old authority (%v): %v", when, server == old, err)
			}
		}
	}
	expect("at first", true, false)
	write(append(renewed.PEM, old.PEM...))
	expect("with both", true, true)
	write(renewed.PEM)
	expect("after the rotation", false, true)
	write([]byte("half of a f"))
	expect("while the file is written", false, true)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	expect("while there is no file", false, true)
	write(old.PEM)
	expect("when it is back", true, false)
	if err := handshake(source, old.Server("10.0.0.2"), ip); err == nil {
		t.Error("a server with the certificate of another host was accepted")
	}
}

func TestWithoutTLSConnectionsStayAsTheyAre(t *testing.T) {
	source, err := tlsfiles.Files{}.For(&url.URL{Scheme: "plain"}, "s")
	if source != nil || err != nil {
		t.Fatalf("%v, %v", source, err)
	}
	here, there := net.Pipe()
	defer func() { _, _ = here.Close(), there.Close() }()
	if conn, err := source.Client(t.Context(), here, "h"); conn != here || err != nil {
		t.Errorf("%v, %v", conn, err)
	}
}
