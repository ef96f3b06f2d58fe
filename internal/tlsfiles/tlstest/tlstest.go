// Package tlstest has certificate authorities and servers for tests of TLS.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// Authority is a certificate authority.
type Authority struct {
	PEM []byte // its certificate

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority.
func NewAuthority() *Authority {
	a := &Authority{
		cert: &x509.Certificate{
			SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
			IsCA: true, BasicConstraintsValid: true,
		},
		key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)),
	}
	der := must(x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key))
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// Server returns the configuration of a server with this IP address.
func (a *Authority) Server(ip string) *tls.Config {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.ParseIP(ip)},
	}
	der := must(x509.CreateCertificate(rand.Reader, leaf, a.cert, &key.PublicKey, a.key))
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}
}

// Trusted serves on a listener, with handshakes alone. It closes the channel
// when a client has accepted the server's certificate.
func Trusted(listener net.Listener, conf *tls.Config) <-chan struct{} {
	trusted := make(chan struct{})
	go func() {
		for done := false; ; {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if err := tls.Server(conn, conf).Handshake(); err == nil && !done {
				done = true
				close(trusted)
			}
			_ = conn.Close()
		}
	}()
	return trusted
}

// must is for calls that fail only if the system has no randomness.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
