package zookeeper

import (
	"context"
	"net/url"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/tlsfiles"
)

const (
	defaultPort       = "2181"
	defaultSecurePort = "2281"
)

// reserved is the part of the tree that belongs to the service itself.
const reserved = "zookeeper"

// base is what all drivers of this package have in common.
type base struct {
	chroot string // without slashes at its ends
	acl    []zk.ACL
	kind   *parentKind
	layout *foreign // nil: Baton's own
}

func (b *base) root() string {
	if b.chroot == "" {
		return ""
	}
	return "/" + b.chroot
}

// setChroot checks and sets the namespace.
func (b *base) setChroot(path string) error {
	ns, err := driver.Namespace(path)
	if err != nil {
		return err
	}
	if first, _, _ := strings.Cut(ns, "/"); first == reserved {
		return invalid("chroot %q: /%s belongs to the service", ns, reserved)
	}
	b.chroot = ns
	return nil
}

// Open makes a driver from a URL:
//
//	zk://h1:2181,h2:2181/chroot
//	zk://user:password@h1,h2,h3/apps/orders?acl=creator-read
//	zks://h1:2281/chroot?cacert=/etc/ca.pem&cert=/etc/me.pem&key=/etc/me.key
//
// The scheme zookeeper means the same as zk. The scheme zks uses TLS, by
// default at port 2281, against the system's roots unless cacert names a file
// of trusted certificates. cert and key name the client's certificate; they are
// read again for each connection, so that a renewed certificate is used.
// servername is the name to look for in the servers' certificates instead of
// the host's.
//
// User and password are ZooKeeper's digest authentication. acl says who may use
// the nodes that the driver makes: "open" (everybody; the default without
// credentials), "creator" (whoever has the same credentials; the default with
// them), "creator-read" (the same, and everybody may look). A client
// certificate is a credential for "creator" too.
//
// layout says how queues are laid out: "native" (the default), or as other
// clients do with which they are shared: "curator", which is go-zookeeper's
// too, or "kazoo". With layout=curator, election says which of its recipes an
// election is: "latch" (a LeaderLatch, the default) or "selector" (a
// LeaderSelector). See the package's comment.
//
// ZooKeeper takes any password: a wrong one makes another identity, and is
// refused with driver.ErrRefused by the first join in a queue that is not open
// to it.
//
// Open reads the files but does not talk to the service; the first session
// does. A URL that breaks a rule is driver.ErrInvalid. Errors and the driver's
// String never show the password.
func Open(u *url.URL) (driver.Driver, error) {
	if u == nil {
		return nil, invalid("no URL")
	}
	port := defaultPort
	switch u.Scheme {
	case "zk", "zookeeper":
	case "zks":
		port = defaultSecurePort
	default:
		return nil, invalid("scheme %q; want zk, zookeeper or zks", u.Scheme)
	}
	if u.Fragment != "" {
		// A password with a bare # ends up here, so it is not shown.
		return nil, invalid("%s URL has a fragment; write # as %%23", u.Scheme)
	}
	d := &service{base: base{kind: new(parentKind)}, scheme: u.Scheme}
	var err error
	if d.servers, err = driver.Hosts(u, port); err != nil {
		return nil, err
	}
	if err := d.setChroot(u.Path); err != nil {
		return nil, err
	}
	if d.digest, err = digest(u.User); err != nil {
		return nil, err
	}
	if err := d.setParams(u); err != nil {
		return nil, err
	}
	if d.layout != nil {
		d.kind.plain.Store(d.layout.plain)
		return host{d}, nil
	}
	return d, nil
}

var _ driver.Opener = Open

func (d *service) String() string {
	return d.scheme + "://" + strings.Join(d.servers, ",") + "/" + d.chroot
}

// Close has nothing to give back: each session closes its own connection.
func (d *service) Close(context.Context) error { return nil }

// digest refuses half of a pair, and a user whom the service would split
// elsewhere.
func digest(user *url.Userinfo) (string, error) {
	if user == nil {
		return "", nil
	}
	password, _ := user.Password()
	switch {
	case user.Username() == "":
		return "", invalid("URL has a password but no user name")
	case strings.Contains(user.Username(), ":"):
		return "", invalid("URL has a user name with a colon, which ends a user name in digest authentication")
	case password == "":
		return "", invalid("URL has a user name but no password")
	}
	return user.Username() + ":" + password, nil
}

func (d *service) setParams(u *url.URL) error {
	p := driver.NewParams(u)
	files := tlsfiles.Read(p)
	standard := "open"
	if d.digest != "" {
		standard = "creator"
	}
	acl := p.String("acl", standard)
	layout, election := p.String("layout", nativeLayout), p.String("election", "")
	if err := p.Err(); err != nil {
		return err
	}
	var err error
	if d.layout, err = layoutOf(layout, election); err != nil {
		return err
	}
	if d.tls, err = files.For(u, "zks"); err != nil {
		return err
	}
	if acl != "open" && d.digest == "" && files.Cert == "" {
		return invalid("URL parameter \"acl\": everything but open needs a user and password, or a client certificate")
	}
	switch acl {
	case "open":
		d.acl = zk.WorldACL(zk.PermAll)
	case "creator":
		d.acl = zk.AuthACL(zk.PermAll)
	case "creator-read":
		d.acl = append(zk.AuthACL(zk.PermAll), zk.WorldACL(zk.PermRead)...)
	default:
		return invalid("URL parameter \"acl\" must be open, creator or creator-read")
	}
	return nil
}

func init() {
	for _, scheme := range []string{"zk", "zookeeper", "zks"} {
		coordinator.Register(scheme, Open)
	}
}
