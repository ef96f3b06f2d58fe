package sql

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/baton-go/baton/internal/tlsfiles/tlstest"
)

// greeting is the first packet of a MySQL server that has TLS.
func greeting() []byte {
	packet := slices.Concat([]byte("\x0a8.0.36\x00"), make([]byte, 4), []byte("12345678\x00"),
		[]byte{0x00, 0x8a, 45, 2, 0, 0x08, 0x00, 21}, make([]byte, 10),
		[]byte("123456789012\x00"), []byte("mysql_native_password\x00"))
	return append([]byte{byte(len(packet)), 0, 0, 0}, packet...)
}

// TestMySQLTrustsTheAuthorityOfTheURL, and reads its file for each connection.
func TestMySQLTrustsTheAuthorityOfTheURL(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	authority, file := tlstest.NewAuthority(), filepath.Join(t.TempDir(), "ca.pem")
	trusted := make(chan bool)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write(greeting())
			_, _ = io.ReadFull(conn, make([]byte, 36)) // asks for TLS
			secure := tls.Server(conn, authority.Server("127.0.0.1"))
			_ = secure.Handshake()
			_, err = secure.Read(make([]byte, 1)) // the client has accepted the certificate
			trusted <- err == nil
			_ = conn.Close()
		}
	}()
	u := &url.URL{Scheme: "mysql", User: url.UserPassword("u", "p"), Host: l.Addr().String(), Path: "/app"}
	params := url.Values{"tls": {"true"}, "cacert": {file}}
	write := func(pem []byte) {
		t.Helper()
		if err := os.WriteFile(file, pem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(tlstest.NewAuthority().PEM)
	connector, err := mySQL(u, params, &lastMessage{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{false, true} {
		if want {
			write(authority.PEM)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if conn, err := connector.Connect(ctx); err == nil {
				_ = conn.Close()
			}
		}()
		if got := <-trusted; got != want {
			t.Errorf("trusted: %t; want %t", got, want)
		}
		<-done
		cancel()
	}
}
