package coordinator

import (
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/engine"
)

// schemes is the one global table of this module: URL scheme to driver.Opener,
// filled by the init functions of driver packages, as database/sql does it.
var schemes sync.Map

// Register makes a driver known to Open under a URL scheme. Driver packages
// call it from init. It panics when the scheme is taken: that is a build with
// two drivers of one name.
func Register(scheme string, open driver.Opener) {
	if open == nil {
		panic("baton: coordinator.Register: no opener for the scheme " + scheme)
	}
	if _, dup := schemes.LoadOrStore(scheme, open); dup {
		panic("baton: coordinator.Register: scheme " + scheme + " registered twice")
	}
}

// Open returns a client for a service named by URL. It does no I/O: the first
// use connects. The driver's package must be imported, if only for its side
// effect:
//
//	import _ "github.com/baton-go/baton/coordinator/etcd"      // etcd://, etcds://
//	import _ "github.com/baton-go/baton/coordinator/zookeeper" // zk://, zks://
//	import _ "github.com/baton-go/baton/coordinator/memory"    // memory://
//
// The form is
// scheme://[user:password@]host:port[,host:port…]/namespace?parameters. All
// drivers know the parameters ttl (such as 10s; see WithTTL) and identity (see
// WithIdentity); each driver's package lists its own. Unknown parameters are an
// error. Options win over parameters.
func Open(rawURL string, opts ...Option) (*Client, error) {
	u, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	open, ok := schemes.Load(u.Scheme)
	if !ok {
		var known []string
		for s := range schemes.Range {
			known = append(known, s.(string))
		}
		slices.Sort(known)
		return nil, engine.Invalid("no driver for URL scheme %q; known are [%s]; "+
			"is the driver's package imported?", u.Scheme, strings.Join(known, " "))
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

// parse splits a URL. The host list is cut out first: url.Parse does not take
// several hosts with ports. Its errors quote the URL, password included, so
// they are not shown.
func parse(raw string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || scheme == "" {
		return nil, engine.Invalid("URL has no scheme; want etcd://…, zk://… or memory://")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	// A password with a "/", "#" or "?" in it ends the authority early, and its
	// rest would be shown as a namespace or parameter.
	if strings.Contains(tail, "@") {
		return nil, engine.Invalid("%s URL has an \"@\" behind its hosts; "+
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

// takeCommon reads the parameters that every driver knows and removes them from
// u.
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
