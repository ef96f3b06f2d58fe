package driver_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator/driver"
)

func TestHostsThatCannotBeReachedAreRefused(t *testing.T) {
	for host, rule := range map[string]string{
		"::1:2379":     "brackets",
		"fe80::1":      "brackets",
		"[::1":         "IPv6 address between the brackets",
		"[::1:2379":    "IPv6 address between the brackets",
		"::1]:2379":    "brackets",
		"[h1]:2379":    "IPv6 address between the brackets",
		"[10.0.0.1]":   "IPv6 address between the brackets",
		"h1;h2":        "commas between hosts",
		"h1 h2":        "commas between hosts",
		"h1:2181, h2":  "commas between hosts",
		" h1":          "commas between hosts",
		"h1,":          "commas between hosts",
		"hé":           "commas between hosts",
		"h1:0":         "port from 1 to 65535",
		"h1:65536":     "port from 1 to 65535",
		"h1:etcd":      "port from 1 to 65535",
		"h1:2181:2181": "brackets",
	} {
		hosts, err := driver.Hosts(&url.URL{Scheme: "etcd", Host: host}, "2379")
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), rule) {
			t.Errorf("%q: %q, %v; want ErrInvalid with %q", host, hosts, err, rule)
		}
	}
	for host, want := range map[string][]string{
		"h1,h2:1":                 {"h1:2379", "h2:1"},
		"[::1],[fe80::1%eth0]:1":  {"[::1]:2379", "[fe80::1%eth0]:1"},
		"10.0.0.1,node_1.ex-a.io": {"10.0.0.1:2379", "node_1.ex-a.io:2379"},
	} {
		if hosts, err := driver.Hosts(&url.URL{Scheme: "etcd", Host: host}, "2379"); err != nil || !slices.Equal(hosts, want) {
			t.Errorf("%q: %q, %v", host, hosts, err)
		}
	}
}

// A namespace after each host is a slip that would open one host with another
// namespace: no exclusion with clients that write the URL correctly.
func TestNamespaceAfterEachHostIsRefused(t *testing.T) {
	for _, path := range []string{"/app,h2:2181/app", "/app,h2/app", "/a,b"} {
		if ns, err := driver.Namespace(path); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "all hosts first") {
			t.Errorf("%q: %q, %v", path, ns, err)
		}
	}
}

// TestUnknownParameterBesideAPasswordIsNotShown: an "&" in the password that is
// not encoded makes the rest a parameter.
func TestUnknownParameterBesideAPasswordIsNotShown(t *testing.T) {
	for query, shown := range map[string]bool{"a=1&hunter2": true, "sentinel-password=x&hunter2": false, "password=x&hunter2=y": false, "password=x&hunter2password": false} {
		p := driver.NewParams(&url.URL{RawQuery: query})
		for _, name := range []string{"a", "password", "sentinel-password"} {
			p.String(name, "")
		}
		err := p.Err()
		if !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), "hunter2") != shown {
			t.Errorf("%s: %v; the name is shown: %t", query, err, shown)
		}
	}
}
