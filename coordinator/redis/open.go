package redis

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/tlsfiles"
)

// Open makes a driver from a URL:
//
//	redis://h1:6379/namespace
//	rediss://user:password@h1/namespace?cacert=/etc/ca.pem&cert=...&key=...
//	redis://h1:26379,h2:26379,h3:26379/namespace?master=name
//	redis://h1,h2,h3/namespace?cluster=true
//
// With master, the hosts are Sentinels (port 26379 by default), which name the
// server; sentinel-user and sentinel-password are their credentials. With
// cluster=true the hosts are members of a cluster, and not all need be named.
// One of the two is required with several hosts.
//
// db is the number of a database; the path is no database, but the namespace. A
// password without a user name is that of Redis' requirepass. dial-timeout (2s)
// bounds an attempt to connect. A request without a reply for timeout (2s) ends
// its connection. Renewals have connections of their own.
//
// The scheme rediss uses TLS. It trusts the system's roots unless cacert names
// a file of certificates. cert and key name the client's certificate. All three
// are read again for each connection. servername replaces the host's name in
// the check of the servers' certificates.
//
// For a URL that breaks a rule Open fails with driver.ErrInvalid. The first
// session reports bad credentials with driver.ErrRefused. Errors and the
// driver's String never show a password.
func Open(u *url.URL) (driver.Driver, error) {
	if u == nil {
		return nil, invalid("no URL")
	}
	if u.Scheme != "redis" && u.Scheme != "rediss" {
		return nil, invalid("scheme %q; want redis or rediss", u.Scheme)
	}
	o, err := parse(u)
	if err != nil {
		return nil, err
	}
	namespace, err := driver.Namespace(u.Path)
	if err != nil {
		return nil, err
	}
	name := u.Scheme + "://" + strings.Join(o.Addrs, ",") + "/" + namespace
	c := newClient(goredis.NewUniversalClient(o), true, name, namespace)
	c.exposed = exposes(o)
	few := *o
	few.PoolSize = renewalConns
	c.renewals = goredis.NewUniversalClient(&few)
	return c, nil
}

// renewalConns is for a renewal without an answer, and for the next.
const renewalConns = 2

// FromClient makes a driver on an existing client: a *redis.Client, which may
// be one of a Sentinel's master, or a *redis.ClusterClient. The caller still
// owns it: closing the driver does not close it. It is an error if c is nil or
// of another type, or if the namespace breaks a rule.
//
// Renewals wait for a connection of its pool, as other requests do. Keep one
// free. Set its ReadTimeout and DialTimeout to at most a quarter of the TTL.
// MaxRetries has no effect on the driver's requests.
func FromClient(c goredis.UniversalClient, namespace string) (driver.Driver, error) {
	namespace, err := driver.Namespace(namespace)
	if err != nil {
		return nil, err
	}
	var addr string
	var o goredis.UniversalOptions
	if one, ok := c.(*goredis.Client); ok && one != nil {
		addr = one.Options().Addr
		o.Password, o.TLSConfig = one.Options().Password, one.Options().TLSConfig
		o.Addrs = []string{addr}
	} else if many, ok := c.(*goredis.ClusterClient); ok && many != nil {
		addr = strings.Join(many.Options().Addrs, ",")
		o.Password, o.TLSConfig = many.Options().Password, many.Options().TLSConfig
		o.Addrs = many.Options().Addrs
	} else {
		return nil, invalid("a client of type %T; want a *redis.Client or a "+
			"*redis.ClusterClient that is not nil", c)
	}
	d := newClient(c, false, "redis://"+addr+"/"+namespace, namespace)
	d.exposed = exposes(&o)
	return d, nil
}

func parse(u *url.URL) (*goredis.UniversalOptions, error) {
	p := driver.NewParams(u)
	cluster, files := p.String("cluster", "false"), tlsfiles.Read(p)
	db, err := strconv.Atoi(p.String("db", "0"))
	if err != nil {
		db = -1
	}
	o := &goredis.UniversalOptions{
		MasterName:       p.String("master", ""),
		SentinelUsername: p.String("sentinel-user", ""),
		SentinelPassword: p.String("sentinel-password", ""),
		DialTimeout:      p.Duration("dial-timeout", 2*time.Second),
		ReadTimeout:      p.Duration("timeout", 2*time.Second),
		IsClusterMode:    cluster == "true",
		DB:               db,
		MaxRetries:       -1, // the engine repeats requests
		DialerRetries:    1,
	}
	o.WriteTimeout = o.ReadTimeout
	if err := p.Err(); err != nil {
		return nil, err
	}
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
		if o.Password == "" {
			return nil, invalid("URL has a user name but no password; " +
				"write redis://:password@host for a password alone")
		}
	}
	port := "6379"
	if o.MasterName != "" {
		port = "26379"
	}
	if o.Addrs, err = driver.Hosts(u, port); err != nil {
		return nil, err
	}
	source, err := files.For(u, "rediss")
	if err != nil {
		return nil, err
	}
	if source != nil {
		if o.TLSConfig, err = source.Config(context.Background()); err != nil {
			return nil, err
		}
		o.Dialer = dialer(source, o.DialTimeout)
	}
	return o, conflicts(o, cluster)
}

// dialer connects with TLS. The client's own dialer would keep one
// configuration for all connections.
func dialer(
	source *tlsfiles.Source, timeout time.Duration,
) func(ctx context.Context, network, addr string) (net.Conn, error) {
	const keepAlive = 5 * time.Minute // go-redis' own
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		conn, err := (&net.Dialer{KeepAlive: keepAlive}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		host, _, _ := net.SplitHostPort(addr)
		return source.Client(ctx, conn, host)
	}
}

// conflicts returns an error for parameters that contradict each other.
func conflicts(o *goredis.UniversalOptions, cluster string) error {
	switch {
	case cluster != "true" && cluster != "false":
		return invalid(`parameter cluster must be true or false`)
	case o.DB < 0:
		return invalid("parameter db must be a number, not negative")
	case o.IsClusterMode && o.MasterName != "":
		return invalid("parameters master and cluster exclude each other")
	case o.IsClusterMode && o.DB != 0:
		return invalid("a cluster has only database 0")
	case len(o.Addrs) > 1 && !o.IsClusterMode && o.MasterName == "":
		return invalid("URL has several hosts; add cluster=true, " +
			"or master=name if they are Sentinels")
	case o.MasterName == "" && o.SentinelUsername+o.SentinelPassword != "":
		return invalid("sentinel-user and sentinel-password need the parameter master")
	}
	return nil
}

func init() {
	coordinator.Register("redis", Open)
	coordinator.Register("rediss", Open)
}
