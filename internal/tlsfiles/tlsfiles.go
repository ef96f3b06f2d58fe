// Package tlsfiles makes TLS configurations from the files that a URL names.
package tlsfiles

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/baton-go/baton/coordinator/driver"
)

// Files are the TLS parameters of a URL. Each may be empty.
type Files struct {
	CA, Cert, Key string
	ServerName    string // that the certificate must have, instead of the host
}

// Read reads the parameters of a URL.
func Read(p *driver.Params) Files {
	return Files{
		CA: p.String("cacert", ""), ServerName: p.String("servername", ""),
		Cert: p.String("cert", ""), Key: p.String("key", ""),
	}
}

// Source makes the configuration of each connection from the files as they are
// then, so that renewed ones work without a restart. It is safe for concurrent
// use.
type Source struct {
	files Files

	// reading holds an element while the files are read. A file system may
	// hang.
	reading chan struct{}
	pem     []byte // the roots' file when it was last read
	roots   *x509.CertPool
}

// For returns the source for a URL whose scheme is that of TLS, or nil for
// another scheme, whose URL must not name files. It reads the files.
func (f Files) For(u *url.URL, scheme string) (*Source, error) {
	switch {
	case u.Scheme != scheme && f != Files{}:
		return nil, invalid("cacert, cert, key and servername need the scheme %s", scheme)
	case u.Scheme != scheme:
		return nil, nil // no TLS
	case (f.Cert == "") != (f.Key == ""):
		return nil, invalid("cert and key must be given together")
	}
	s := &Source{files: f, reading: make(chan struct{}, 1)}
	if err := s.readRoots(); err != nil {
		return nil, invalid("cacert: %w", err)
	}
	if f.Cert != "" {
		if _, err := s.certificate(nil); err != nil {
			return nil, invalid("cert and key: %w", err)
		}
	}
	return s, nil
}

// Config returns the configuration of the next connection, which the caller may
// change. If the roots cannot be read now, they are those of before. If
// certificate or key cannot, the handshake fails. It fails only when ctx ends
// first: the files may be on a file system that hangs.
func (s *Source) Config(ctx context.Context) (*tls.Config, error) {
	return read(ctx, s, func() (*tls.Config, error) {
		_ = s.readRoots() // they are as before then
		conf := &tls.Config{
			MinVersion: tls.VersionTLS12, ServerName: s.files.ServerName, RootCAs: s.roots,
		}
		if s.files.Cert != "" {
			conf.GetClientCertificate = s.certificate
		}
		return conf, nil
	})
}

// read calls f, which reads files, unless ctx ends first. One read that hangs
// is enough: others wait for it.
func read[T any](ctx context.Context, s *Source, f func() (T, error)) (T, error) {
	type content struct {
		value T
		err   error
	}
	done := make(chan content, 1)
	select {
	case s.reading <- struct{}{}:
		go func() {
			value, err := f()
			<-s.reading
			done <- content{value, err}
		}()
	case <-ctx.Done():
	}
	select {
	case c := <-done:
		return c.value, c.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("reading the TLS files: %w", context.Cause(ctx))
	}
}

// Client makes a TLS connection to a host on a connection, unless s is nil. If
// it fails it closes the connection, without TLS's close alert.
func (s *Source) Client(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	if s == nil {
		return conn, nil
	}
	conf, err := s.Config(ctx)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if conf.ServerName == "" {
		conf.ServerName = host
	}
	secure := tls.Client(conn, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

func (s *Source) readRoots() error {
	if s.files.CA == "" {
		return nil // the system's
	}
	pem, err := os.ReadFile(s.files.CA)
	if err != nil || bytes.Equal(pem, s.pem) {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s has no PEM certificate", s.files.CA)
	}
	s.pem, s.roots = pem, roots
	return nil
}

func (s *Source) certificate(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	ctx := context.Background() // at first
	if info != nil {
		ctx = info.Context()
	}
	return read(ctx, s, func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(s.files.Cert, s.files.Key)
		return &pair, err
	})
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}
