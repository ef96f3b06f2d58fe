package etcd

import (
	"context"
	"net"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/internal/tlsfiles"
)

const (
	// defaultDialTimeout bounds one attempt to connect to one member. gRPC's
	// own 20 s would keep a client that long on an address that drops packets.
	defaultDialTimeout = 2 * time.Second

	// pingTime and pingTimeout detect a connection whose peer is gone silently.
	// gRPC raises less than 10 s to 10 s. The timeout is also TCP's: data
	// unacknowledged for so long ends the connection, and renewals provide
	// data.
	pingTime    = 10 * time.Second
	pingTimeout = 2 * time.Second

	// window is how much of a reply a member may send before the client reads
	// it: more than all but the longest listings. With gRPC's default, an
	// adaptive window, each reply is followed by a ping that measures the
	// connection.
	window = 1 << 20
)

// Open makes a driver from a URL:
//
//	etcd://h1:2379,h2:2379/namespace
//	etcds://user:password@h1,h2,h3/namespace?cacert=/etc/ca.pem&cert=...&key=...
//
// The scheme etcds uses TLS. It trusts the system's roots unless cacert names a
// file of certificates. cert and key name the client's certificate. All three
// are read again for each connection, so that renewed ones are used;
// authorities that cannot be read are those of before. servername replaces the
// host's name in the check of the servers' certificates. dial-timeout (2s)
// bounds one attempt to connect to one member. layout says how queues are
// stored: native (the default), or as another client does: see [Layout].
//
// Open reads the files. For a URL that breaks a rule it fails with
// driver.ErrInvalid. The first session reports bad credentials with
// driver.ErrRefused, and why there is no connection with driver.ErrUnavailable.
// Errors and the driver's String never show the password.
func Open(u *url.URL) (driver.Driver, error) {
	cfg, o, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	return newDriver(o, newSource(cfg)), nil
}

func parseURL(u *url.URL) (*clientv3.Config, options, error) {
	if u == nil {
		return nil, options{}, answer.Invalid("no URL")
	}
	if u.Scheme != "etcd" && u.Scheme != "etcds" {
		return nil, options{}, answer.Invalid("scheme %q; want etcd or etcds", u.Scheme)
	}
	if u.Fragment != "" {
		// Not shown: it is the end of a password that contains "#".
		return nil, options{}, answer.Invalid("%s URL has a fragment; write # as %%23", u.Scheme)
	}
	hosts, err := driver.Hosts(u, "2379")
	if err != nil {
		return nil, options{}, err
	}
	var o options
	if o.namespace, err = driver.Namespace(u.Path); err != nil {
		return nil, options{}, err
	}
	cfg := &clientv3.Config{}
	if err := setUser(cfg, u.User); err != nil {
		return nil, options{}, err
	}
	if err := setParams(cfg, &o, u); err != nil {
		return nil, options{}, err
	}
	scheme := "http://"
	if cfg.TLS != nil {
		scheme = "https://"
	}
	for _, h := range hosts {
		cfg.Endpoints = append(cfg.Endpoints, scheme+h)
	}
	return cfg, o, nil
}

// setUser refuses half of a pair: the client would connect without credentials,
// and a server that does not know why would report the error.
func setUser(cfg *clientv3.Config, user *url.Userinfo) error {
	if user == nil {
		return nil
	}
	password, _ := user.Password()
	switch {
	case user.Username() == "":
		return answer.Invalid("URL has a password but no user name")
	case password == "":
		return answer.Invalid("URL has a user name but no password")
	}
	cfg.Username, cfg.Password = user.Username(), password
	return nil
}

func setParams(cfg *clientv3.Config, o *options, u *url.URL) error {
	p := driver.NewParams(u)
	timeout := p.Duration("dial-timeout", defaultDialTimeout)
	files := tlsfiles.Read(p)
	name := p.String("layout", Native)
	if err := p.Err(); err != nil {
		return err
	}
	if err := Layout(name)(o); err != nil {
		return err
	}
	source, err := files.For(u, "etcds")
	if err != nil {
		return err
	}
	// No DialTimeout: in this client it bounds the authentication, which the
	// call's context already bounds. No PermitWithoutStream: etcd refuses pings
	// without a stream ("too_many_pings"), and an open session always has one.
	cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout = pingTime, pingTimeout
	cfg.Logger = zap.NewNop()
	cfg.DialOptions = []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{
			// A member that returns is found within a quarter of a second.
			// gRPC's own maximum of two minutes is longer than most TTLs.
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, MaxDelay: 200 * time.Millisecond,
				Multiplier: 1.6, Jitter: 0.2,
			},
			MinConnectTimeout: timeout,
		}),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
	}
	if source != nil {
		if cfg.TLS, err = source.Config(context.Background()); err != nil {
			return err
		}
		// The client would keep this configuration for all connections.
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithTransportCredentials(
			transport{credentials.NewTLS(cfg.TLS), source}))
	}
	if files.ServerName != "" {
		// The client passes each endpoint's own host to gRPC, which then
		// overrides the name in the TLS configuration; only this option
		// overrides both.
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithAuthority(files.ServerName))
	}
	return nil
}

// transport reads the TLS files again for each connection.
type transport struct {
	credentials.TransportCredentials
	source *tlsfiles.Source
}

func (t transport) ClientHandshake(
	ctx context.Context, authority string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conf, err := t.source.Config(ctx)
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return credentials.NewTLS(conf).ClientHandshake(ctx, authority, conn)
}

func (t transport) Clone() credentials.TransportCredentials {
	return transport{t.TransportCredentials.Clone(), t.source}
}

// describe names a service: scheme, members, namespace. It drops the part of an
// external client's endpoint before an "@".
func describe(endpoints []string, namespace string) string {
	scheme, hosts := "etcd", make([]string, len(endpoints))
	for i, e := range endpoints {
		if strings.HasPrefix(e, "https://") || strings.HasPrefix(e, "unixs:") {
			scheme = "etcds"
		}
		hosts[i] = e[strings.LastIndex(e, "@")+1:]
		if _, host, ok := strings.Cut(hosts[i], "://"); ok {
			hosts[i] = host
		}
	}
	return scheme + "://" + strings.Join(hosts, ",") + "/" + namespace
}

func init() {
	coordinator.Register("etcd", Open)
	coordinator.Register("etcds", Open)
}
