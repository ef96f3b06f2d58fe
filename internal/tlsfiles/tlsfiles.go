// Package tlsfiles makes a TLS configuration from the files that a URL names.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
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

// For returns the configuration for a URL whose scheme is that of TLS, or nil
// for another scheme, whose URL must not name files.
func (f Files) For(u *url.URL, scheme string) (*tls.Config, error) {
	switch {
	case u.Scheme == scheme:
		return f.config()
	case f != Files{}:
		return nil, invalid("cacert, cert, key and servername need the scheme %s", scheme)
	}
	return nil, nil // no TLS
}

// config reads the files. Each connection reads certificate and key again, so
// that renewed ones work without a restart.
func (f Files) config() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if (f.Cert == "") != (f.Key == "") {
		return nil, invalid("cert and key must be given together")
	}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, invalid("cacert: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid("cacert: %s has no PEM certificate", f.CA)
		}
	}
	if f.Cert != "" {
		load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
			return &pair, err
		}
		if _, err := load(nil); err != nil {
			return nil, invalid("cert and key: %w", err)
		}
		conf.GetClientCertificate = load
	}
	return conf, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}
