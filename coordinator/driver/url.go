package driver

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Opener makes a driver from a URL, without I/O. Package coordinator has
// removed its own parameters, ttl and identity, from the URL.
type Opener func(u *url.URL) (Driver, error)

// common are the parameters of all drivers, which package coordinator reads.
var common = []string{"identity", "ttl"}

// Params reads the parameters of a URL and refuses unknown, repeated and
// malformed ones. Its errors do not show values, which may be secrets.
type Params struct {
	values url.Values
	known  []string
	err    error
}

// NewParams parses the query of u.
func NewParams(u *url.URL) *Params {
	v, err := url.ParseQuery(u.RawQuery)
	p := &Params{values: v}
	if err != nil {
		p.err = fmt.Errorf("%w: URL query cannot be parsed", ErrInvalid)
	}
	return p
}

// String returns the parameter, or def if it is absent.
func (p *Params) String(name, def string) string {
	p.known = append(p.known, name)
	switch v := p.values[name]; len(v) {
	case 0:
		return def
	case 1:
		if v[0] == "" {
			p.fail(name, "must not be empty")
		}
		return v[0]
	default:
		p.fail(name, "given more than once")
		return def
	}
}

// Duration returns the parameter as a positive duration such as "10s".
func (p *Params) Duration(name string, def time.Duration) time.Duration {
	s := p.String(name, "")
	if s == "" {
		return def
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		p.fail(name, "must be a positive duration such as 10s")
		return def
	}
	return d
}

func (p *Params) fail(name, rule string) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: URL parameter %q %s", ErrInvalid, name, rule)
	}
}

// Err returns the first error, or one for an unknown parameter. Call it after
// reading all parameters.
func (p *Params) Err() error {
	if p.err != nil {
		return p.err
	}
	all := append(slices.Clone(p.known), common...)
	slices.Sort(all)
	known := strings.Join(slices.Compact(all), ", ")
	for name := range p.values {
		switch {
		case slices.Contains(p.known, name):
		case p.hasPassword() && name != "password": // the name may be the rest of it
			return fmt.Errorf(`%w: unknown URL parameter beside a password; `+
				`write "&" in a password as %%26 (known: %s)`, ErrInvalid, known)
		default:
			return fmt.Errorf("%w: unknown URL parameter %q (known: %s)", ErrInvalid, name, known)
		}
	}
	return nil
}

func (p *Params) hasPassword() bool {
	for name := range p.values {
		if strings.Contains(name, "password") {
			return true
		}
	}
	return false
}

// Hosts splits the host part of a URL, "h1:2379,h2:2379", and adds the default
// port where there is none. A host is a name, an IPv4 address, or an IPv6
// address in brackets. Its errors do not quote a host, since that may be part
// of a password that was not percent-encoded.
func Hosts(u *url.URL, defaultPort string) ([]string, error) {
	if u.Host == "" {
		return nil, fmt.Errorf("%w: %s URL names no host; want %s://host:%s[,host...]/namespace",
			ErrInvalid, u.Scheme, u.Scheme, defaultPort)
	}
	hosts := strings.Split(u.Host, ",")
	for i, h := range hosts {
		name, port := h, defaultPort
		if j := strings.LastIndexByte(h, ':'); j > strings.LastIndexByte(h, ']') {
			name, port = h[:j], h[j+1:]
		}
		if rule := hostRule(name, port); rule != "" {
			return nil, fmt.Errorf("%w: host number %d in %s URL: %s", ErrInvalid, i+1, u.Scheme, rule)
		}
		hosts[i] = name + ":" + port
	}
	return hosts, nil
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// hostRule returns the rule that a host breaks, or "". A host that can never be
// reached is refused here: later it would look like an outage.
func hostRule(name, port string) string {
	if inner, ok := strings.CutPrefix(name, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if a, err := netip.ParseAddr(inner); !ok || err != nil || !a.Is6() {
			return "want an IPv6 address between the brackets"
		}
	} else if strings.Contains(name, ":") {
		return "write IPv6 addresses in brackets: [::1]:2379"
	} else if !hostName.MatchString(name) {
		return "want host:port, of letters, digits, \"-\", \".\" and \"_\", with commas between hosts"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "want host:port with a port from 1 to 65535"
	}
	return ""
}

// Namespace checks the path of a URL as a namespace. It trims slashes at the
// ends: "/apps/orders" becomes "apps/orders", and "/" becomes "".
func Namespace(path string) (string, error) {
	ns := strings.Trim(path, "/")
	if ns == "" {
		return "", nil
	}
	if len(ns) > 255 {
		return "", fmt.Errorf("%w: namespace %q is longer than 255 bytes", ErrInvalid, ns)
	}
	for _, seg := range strings.Split(ns, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return "", fmt.Errorf(`%w: namespace %q has an empty, "." or ".." segment`,
				ErrInvalid, ns)
		}
		for _, r := range seg {
			if r <= ' ' || r > '~' {
				return "", fmt.Errorf("%w: namespace %q: use visible ASCII characters",
					ErrInvalid, ns)
			}
			if r == ',' {
				// "zk://h1/app,h2/app" is a slip that would be another
				// namespace on one host, without exclusion.
				return "", fmt.Errorf("%w: namespace %q has a comma; "+
					"write all hosts first, then one namespace: h1,h2/namespace", ErrInvalid, ns)
			}
		}
	}
	return ns, nil
}
