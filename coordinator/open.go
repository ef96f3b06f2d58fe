package coordinator

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// schemes maps a URL scheme to its driver.Opener. It is the only global state
// of this module, filled by init functions as in database/sql.
var schemes sync.Map

// Register makes a driver available to Open. Driver packages call it from init.
// It panics if the scheme is registered already.
func Register(scheme string, open driver.Opener) {
	if open == nil {
		panic("baton: coordinator.Register: no opener for the scheme " + scheme)
	}
	if _, dup := schemes.LoadOrStore(scheme, open); dup {
		panic("baton: coordinator.Register: scheme " + scheme + " registered twice")
	}
}

// Open is like New, for the driver that a URL names. Import its package:
//
//	import _ "github.com/baton-go/baton/coordinator/etcd"      // etcd://, etcds://
//	import _ "github.com/baton-go/baton/coordinator/zookeeper" // zk://, zks://
//	import _ "github.com/baton-go/baton/coordinator/memory"    // memory://
//	import _ "github.com/baton-go/baton/coordinator/sql"       // postgres://, mysql://
//	import _ "github.com/baton-go/baton/coordinator/redis"     // redis://, rediss://
//
// Parts in brackets are optional:
//
//	scheme://[user:password@]host[:port][,host[:port]...][/namespace][?ttl=10s]
//
// The namespace separates applications that share a service. It is a key prefix
// on etcd and Redis and a chroot on ZooKeeper, created when needed. All drivers
// have the parameters ttl and identity; WithTTL and WithIdentity take
// precedence. Each driver's package lists its own.
func Open(rawURL string, opts ...Option) (*Client, error) {
	u, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	open, ok := schemes.Load(u.Scheme)
	if !ok {
		return nil, unknownScheme(u.Scheme)
	}
	fromURL, err := takeCommon(u)
	if err != nil {
		return nil, err
	}
	d, err := open.(driver.Opener)(u)
	if err != nil {
		return nil, err
	}
	return New(d, append(fromURL, opts...)...)
}

// ours are the schemes of Baton's drivers.
var ours = []string{
	"etcd", "etcds", "zk", "zks", "memory", "postgres", "postgresql", "mysql", "redis", "rediss",
}

// unknownScheme is the error for a scheme that has no driver.
func unknownScheme(scheme string) error {
	hint := ""
	switch {
	case slices.Contains(ours, scheme):
		hint = "; is the driver's package imported?"
	case scheme == "http" || scheme == "https":
		hint = "; write etcd:// instead of http://, and etcds:// instead of https://"
	}
	return engine.Invalid("no driver for URL scheme %q; want %s%s", scheme, wanted(), hint)
}

// wanted lists the forms of URLs that Open takes in this program.
func wanted() string {
	var known []string
	for s := range schemes.Range {
		known = append(known, s.(string)+"://…")
	}
	slices.Sort(known)
	if len(known) == 0 {
		return "the scheme of an imported driver, such as etcd://… or zk://…"
	}
	return strings.Join(known, ", ")
}

var schemeName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)

// parse splits a URL. It cuts the host list out first, because url.Parse does
// not accept several hosts with ports. It hides the errors of url.Parse, which
// quote the URL with its password.
func parse(raw string) (*url.URL, error) {
	// A file or a variable often ends in a newline.
	scheme, rest, ok := strings.Cut(strings.TrimSpace(raw), "://")
	if !ok || !schemeName.MatchString(scheme) { // what is none may be a password
		return nil, engine.Invalid("URL has no scheme; want %s", wanted())
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	// A "/", "#" or "?" in a password ends the authority early. Errors would
	// show the rest of the password as a namespace or parameter.
	if strings.Contains(tail, "@") {
		return nil, engine.Invalid("%s URL has an \"@\" after its hosts; "+
			"are special characters in user or password percent-encoded? (In a namespace or parameter, write %%40.)", scheme)
	}
	at := strings.LastIndexByte(authority, '@')
	u, err := url.Parse(scheme + "://" + authority[:at+1] + "hosts" + tail)
	if err != nil {
		return nil, engine.Invalid("%s URL cannot be parsed; "+
			"are special characters in user or password percent-encoded?", scheme)
	}
	if u.Fragment != "" {
		return nil, engine.Invalid("%s URL has a fragment", scheme)
	}
	u.Host = authority[at+1:]
	return u, nil
}

// takeCommon reads and removes the parameters that all drivers have.
func takeCommon(u *url.URL) ([]Option, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, engine.Invalid("%s URL has a query that cannot be parsed", u.Scheme)
	}
	common := url.Values{}
	for _, name := range []string{"ttl", "identity"} {
		if v, ok := q[name]; ok {
			common[name] = v
			q.Del(name)
		}
	}
	u.RawQuery = q.Encode()
	p := driver.NewParams(&url.URL{RawQuery: common.Encode()})
	var opts []Option
	if ttl := p.Duration("ttl", 0); ttl != 0 {
		opts = append(opts, WithTTL(ttl))
	}
	if id := p.String("identity", ""); id != "" {
		opts = append(opts, WithIdentity(id))
	}
	return opts, p.Err()
}
