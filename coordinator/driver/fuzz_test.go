package driver_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
)

// FuzzNamespace: an accepted namespace has visible segments, and is accepted
// again unchanged.
func FuzzNamespace(f *testing.F) {
	for _, path := range []string{"", "/", "/a/b/", "a//b", "/./a", "/..", "a b", "/é", strings.Repeat("a", 256), "//"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		ns, err := driver.Namespace(path)
		if err != nil {
			if !errors.Is(err, driver.ErrInvalid) || ns != "" {
				t.Errorf("%q: %q, %v", path, ns, err)
			}
			return
		}
		if again, err := driver.Namespace(ns); again != ns || err != nil {
			t.Errorf("%q gives %q, and that %q, %v", path, ns, again, err)
		}
		for _, seg := range strings.Split(ns, "/") {
			if ns != "" && (seg == "" || seg == "." || seg == "..") || len(ns) > 255 || strings.ContainsAny(ns, "\x00\n \x7f") {
				t.Errorf("%q gives %q", path, ns)
			}
		}
	})
}

// FuzzHosts: an accepted host has a name and a port, and is accepted again
// unchanged.
func FuzzHosts(f *testing.F) {
	for _, host := range []string{"h", "h:1", "h1,h2:2", "[::1]", "[::1]:2", "::1:2", "[::1", "h1;h2", ":1", "h:", "h:0", "h:+1", ",", "h:01", "a]:1", "h:65536"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		hosts, err := driver.Hosts(&url.URL{Scheme: "s", Host: host}, "2379")
		if err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%q: %v", host, err)
			}
			return
		}
		again, err := driver.Hosts(&url.URL{Scheme: "s", Host: strings.Join(hosts, ",")}, "1")
		if err != nil || strings.Join(again, ",") != strings.Join(hosts, ",") || len(hosts) != 1+strings.Count(host, ",") {
			t.Errorf("%q gives %q, and that %q, %v", host, hosts, again, err)
		}
	})
}

// FuzzParams: unknown, repeated and malformed parameters are errors.
func FuzzParams(f *testing.F) {
	for _, query := range []string{"", "a=1&b=10s", "a=1&a=2", "b=-1s", "d=1", "a=", "%zz", "a=1;b=2", "b=99999999999999h"} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		p := driver.NewParams(&url.URL{RawQuery: query})
		p.String("a", "")
		d := p.Duration("b", 1)
		err := p.Err()
		if err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q: %v", query, err)
		}
		if d <= 0 {
			t.Errorf("%q: a duration of %v", query, d)
		}
		values, bad := url.ParseQuery(query)
		if bad != nil && err == nil {
			t.Errorf("%q: accepted", query)
		}
		for name, v := range values {
			if !strings.Contains("abc", name) && err == nil || len(v) > 1 && err == nil {
				t.Errorf("%q: accepted", query)
			}
		}
	})
}

// FuzzQueue: Split inverts NewQueue, and accepts no other queue.
func FuzzQueue(f *testing.F) {
	for _, name := range []string{"a", "a/b", "a%2Fb", "%", "", "ü \x00\xff", "..", "~-_."} {
		f.Add("mutex", name, "mutex/"+name)
	}
	f.Fuzz(func(t *testing.T, kind, name, other string) {
		queue := driver.NewQueue(kind, name)
		if strings.Trim(string(queue[len(kind):]), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%/") != "" ||
			strings.Count(string(queue[len(kind):]), "/") != 1 {
			t.Errorf("%q", queue)
		}
		if k, n, ok := queue.Split(); !strings.Contains(kind, "/") && (k != kind || n != name || !ok) {
			t.Errorf("%q of %q, %q gives %q, %q, %t", queue, kind, name, k, n, ok)
		}
		if k, n, ok := driver.Queue(other).Split(); ok && driver.NewQueue(k, n) != driver.Queue(other) || !ok && (k != "" || n != "") {
			t.Errorf("%q gives %q, %q, %t", other, k, n, ok)
		}
	})
}
