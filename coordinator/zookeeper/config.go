package zookeeper

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/foreign"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/nodes"
	"github.com/baton-go/baton/coordinator/zookeeper/internal/zkconn"
	"github.com/baton-go/baton/internal/dial"
	"github.com/baton-go/baton/internal/tlsfiles"
)

// rootOf checks a chroot, and returns it as a path.
func rootOf(chroot string) (string, error) {
	ns, err := driver.Namespace(chroot)
	if err != nil || ns == "" {
		return "", err
	}
	if first, _, _ := strings.Cut(ns, "/"); first == nodes.Reserved {
		return "", zkconn.Invalid("chroot %q: /%s belongs to the service", ns, nodes.Reserved)
	}
	if slices.Contains(strings.Split(ns, "/"), queues) {
		return "", zkconn.Invalid("chroot %q has the segment %q, below which the queues of the "+
			"namespace before it lie", ns, queues)
	}
	return "/" + ns, nil
}

// queues is the segment between a chroot and its queues. No chroot has it, so
// no chroot lies within the queues of another: else the locks of /app/mutex
// would be entries in queues of /app.
const queues = "~"

// Open makes a driver from a URL:
//
//	zk://h1:2181,h2:2181/chroot
//	zk://user:password@h1,h2,h3/apps/orders?acl=creator-read
//	zks://h1:2281/chroot?cacert=/etc/ca.pem&cert=/etc/me.pem&key=/etc/me.key
//
// The scheme zookeeper means the same as zk. The scheme zks uses TLS, by
// default at port 2281. It trusts the system's roots unless cacert names a file
// of certificates. cert and key name the client's certificate. All three are
// read again for each connection; authorities that cannot be read are those of
// before. servername replaces the host's name in the check of the servers'
// certificates.
//
// User and password are ZooKeeper's digest authentication. acl says who may use
// the nodes that the driver creates: "open" (everybody; the default without
// credentials), "creator" (clients with the same credentials; the default with
// them), "creator-read" (the same, and everybody may read). A client
// certificate is a credential for "creator" too. ZooKeeper accepts any
// password: a wrong one is another identity, and the first join in a queue that
// excludes it fails with driver.ErrRefused.
//
// tick is the servers' tickTime, such as 2s. Holds survive longer outages if it
// is given: see docs/ttl.md. If the servers' is longer, the loss signal can
// come too late.
//
// layout says how queues are stored: "native" (the default), or as another
// client does, to share queues with it: "curator", which is go-zookeeper's too,
// or "kazoo". With layout=curator, election says which Curator recipe an
// election is: "latch" (the default) or "selector". docs/interop.md says which
// recipes exclude each other.
//
// Open reads the files but does not contact the service; the first session
// does. For a URL that breaks a rule it fails with driver.ErrInvalid. Errors
// and the driver's String never show the password.
func Open(u *url.URL) (driver.Driver, error) { return OpenWith(u) }

// Option configures a driver beyond its URL.
type Option func(*dial.Options)

// Dialer makes the driver's connections with a function, for example through a
// proxy. By default they are TCP.
//
// The driver resolves the names in the URL itself, so addr has an IP address
// and a port. With the scheme zks it uses TLS on the connection. connect
// returns when ctx ends; the connection outlives ctx. It is called
// concurrently.
func Dialer(connect func(ctx context.Context, addr string) (net.Conn, error)) Option {
	return func(o *dial.Options) { o.Connect = connect }
}

// OpenWith is [Open] with options.
func OpenWith(u *url.URL, options ...Option) (driver.Driver, error) {
	if u == nil {
		return nil, zkconn.Invalid("no URL")
	}
	port := "2181"
	switch u.Scheme {
	case "zk", "zookeeper":
	case "zks":
		port = "2281"
	default:
		return nil, zkconn.Invalid("scheme %q; want zk, zookeeper or zks", u.Scheme)
	}
	if u.Fragment != "" {
		// Not shown: it is the end of a password that contains "#".
		return nil, zkconn.Invalid("%s URL has a fragment; write # as %%23", u.Scheme)
	}
	s := new(nodes.Service)
	for _, option := range options {
		if option == nil {
			return nil, zkconn.Invalid("nil option")
		}
		option(&s.Conf.Dial)
	}
	var err error
	if s.Conf.Servers, err = driver.Hosts(u, port); err != nil {
		return nil, err
	}
	if s.Tree.Root, err = rootOf(u.Path); err != nil {
		return nil, err
	}
	if s.Conf.Digest, err = digest(u.User); err != nil {
		return nil, err
	}
	layout, err := setParams(u, &s.Conf, &s.Tree)
	if err != nil {
		return nil, err
	}
	s.Name = u.Scheme + "://" + strings.Join(s.Conf.Servers, ",") + cmp.Or(s.Tree.Root, "/")
	if layout != nil {
		return foreign.New(layout, s), nil
	}
	s.Tree.Root += "/" + queues
	return &service{s}, nil
}

var _ driver.Opener = Open

// digest refuses half of a pair, and a user name that the service would split.
func digest(user *url.Userinfo) (string, error) {
	if user == nil {
		return "", nil
	}
	password, _ := user.Password()
	switch {
	case user.Username() == "" || password == "":
		return "", zkconn.Invalid("URL has a user name or a password, but not both")
	case strings.Contains(user.Username(), ":"):
		return "", zkconn.Invalid("URL has a user name with a colon, " +
			"which ends a user name in digest authentication")
	}
	return user.Username() + ":" + password, nil
}

// setParams reads the URL's parameters. The layout is nil for Baton's own.
func setParams(u *url.URL, conf *zkconn.Config, tree *nodes.Tree) (*foreign.Layout, error) {
	p := driver.NewParams(u)
	files := tlsfiles.Read(p)
	standard := "open"
	if conf.Digest != "" {
		standard = "creator"
	}
	acl := p.String("acl", standard)
	tree.Tick = p.Duration("tick", 0)
	conf.Tick = tree.Tick
	name, election := p.String("layout", foreign.Native), p.String("election", "")
	if err := p.Err(); err != nil {
		return nil, err
	}
	layout, err := foreign.LayoutOf(name, election)
	if err != nil {
		return nil, err
	}
	if conf.TLS, err = files.For(u, "zks"); err != nil {
		return nil, err
	}
	if acl != "open" && conf.Digest == "" && files.Cert == "" {
		return nil, zkconn.Invalid("URL parameter \"acl\": everything but open needs " +
			"a user and password, or a client certificate")
	}
	switch acl {
	case "open":
		tree.ACL = zk.WorldACL(zk.PermAll)
	case "creator":
		tree.ACL = zk.AuthACL(zk.PermAll)
	case "creator-read":
		tree.ACL = append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...)
	default:
		return nil, zkconn.Invalid("URL parameter \"acl\" must be open, creator or creator-read")
	}
	return layout, nil
}

func init() {
	for _, scheme := range []string{"zk", "zookeeper", "zks"} {
		coordinator.Register(scheme, Open)
	}
}
