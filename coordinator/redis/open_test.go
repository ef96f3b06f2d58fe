package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/internal/tlsfiles/tlstest"
)

const secret = "s3cr3t"

// target parses a URL as coordinator.Open does: the hosts may be several.
func target(t *testing.T, hosts, rest string) *url.URL {
	t.Helper()
	u, err := url.Parse("redis://hosts" + rest)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = hosts
	return u
}

func TestOpenAcceptsURLs(t *testing.T) {
	for _, c := range []struct {
		hosts, rest, name string
	}{
		{"h1", "", "redis://h1:6379/"},
		{"h1:1", "/apps/orders?db=3&dial-timeout=1s&timeout=1s", "redis://h1:1/apps/orders"},
		{"h1,h2", "/a?master=main&sentinel-user=u&sentinel-password=" + secret, "redis://h1:26379,h2:26379/a"},
		{"h1,h2", "/a?cluster=true", "redis://h1:6379,h2:6379/a"},
		{"h1", "/a?cluster=true", "redis://h1:6379/a"},
	} {
		u := target(t, c.hosts, c.rest)
		u.User = url.UserPassword("user", secret)
		d, err := Open(u)
		if err != nil {
			t.Errorf("%s%s: %v", c.hosts, c.rest, err)
			continue
		}
		if got := fmt.Sprintf("%+v", d); got != c.name {
			t.Errorf("%s%s is %s, want %s", c.hosts, c.rest, got, c.name)
		}
		if found := d.(driver.Examiner).Examine(t.Context()); len(found) != 1 || !strings.Contains(found[0].Text, "without TLS") {
			t.Errorf("%s%s has a password without TLS: %v", c.hosts, c.rest, found)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestPasswordOfThisMachineOrWithTLSIsNoFinding(t *testing.T) {
	for _, text := range []string{"redis://:x@127.0.0.1", "redis://:x@localhost:1", "redis://:x@[::1]:1", "rediss://:x@h1", "redis://h1"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Open(u)
		if err != nil {
			t.Fatal(err)
		}
		if found := d.(driver.Examiner).Examine(t.Context()); len(found) > 0 {
			t.Errorf("%s: %v", text, found)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefusesURLsAndNamesTheRule(t *testing.T) {
	for rest, rule := range map[string]string{
		"?cluster=yes":             "true or false",
		"?db=x":                    "parameter db",
		"?db=-1":                   "parameter db",
		"?master=m&cluster=true":   "exclude each other",
		"?cluster=true&db=1":       "only database 0",
		"":                         "several hosts",
		"?sentinel-user=u":         "several hosts",
		"/a//b?master=m":           "segment",
		"?master=m&timeout=0s":     "positive duration",
		"?master=m&nonsense=1":     "nonsense",
		"?master=m&cacert=/nofile": "rediss",
	} {
		if d, err := Open(target(t, "h1,h2", rest)); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), rule) {
			t.Errorf("%q: %v, %v; want an error about %q", rest, d, err, rule)
		}
	}
	u := target(t, "h1", "")
	u.User = url.User("user")
	if _, err := Open(u); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "no password") {
		t.Error(err)
	}
	u.Scheme = "http"
	for _, u := range []*url.URL{nil, u} {
		if _, err := Open(u); !errors.Is(err, driver.ErrInvalid) {
			t.Error(err)
		}
	}
}

func TestFromClientTakesClientsOfKnownTypes(t *testing.T) {
	var none *goredis.Client
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "h:1"}})
	for _, c := range []goredis.UniversalClient{nil, none, ring} {
		if _, err := FromClient(c, ""); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%T: %v", c, err)
		}
	}
	c := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1"})
	if _, err := FromClient(c, "a b"); !errors.Is(err, driver.ErrInvalid) {
		t.Error(err)
	}
	d, err := FromClient(c, "/a/")
	if err != nil || d.String() != "redis://127.0.0.1:1/a" {
		t.Errorf("%v, %v", d, err)
	}
	if err := errors.Join(d.Close(t.Context()), c.Close()); err != nil {
		t.Error(err)
	}
}

// TestKeysOfANamespaceAreInOneSlot: the first pair of braces is the hash tag,
// also if a namespace has braces.
func TestKeysOfANamespaceAreInOneSlot(t *testing.T) {
	for _, namespace := range []string{"", "a/b", "}", "{", "a}b{c"} {
		c, tags := newClient(nil, false, "", namespace), map[string]bool{}
		for _, k := range slices.Concat(c.keys("join", "mutex/a"), c.keys("join", "election/b"), c.keys("renew", "")) {
			_, rest, _ := strings.Cut(k, "{")
			tag, _, ok := strings.Cut(rest, "}")
			tags[tag] = true
			if !ok || tag == "" {
				t.Errorf("%q has no hash tag", k)
			}
		}
		if len(tags) != 1 {
			t.Errorf("hash tags %v", tags)
		}
	}
}

// reply is an error reply of Redis.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestErrorsAreClassified(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want error
		hint string
	}{
		{t.Context(), reply("NOAUTH Authentication required."), driver.ErrRefused, "user and password"},
		{t.Context(), reply("WRONGPASS invalid username-password pair"), driver.ErrRefused, "check user"},
		{t.Context(), reply("NOPERM this user has no permissions"), driver.ErrRefused, "ACL"},
		{t.Context(), reply("OOM command not allowed when used memory > 'maxmemory'."), driver.ErrRefused, "maxmemory"},
		{t.Context(), reply("MISCONF Redis is configured to save RDB snapshots"), driver.ErrRefused, "disk"},
		{t.Context(), reply("ERR Error running script (call to f_1): @user_script:1: -OOM command"), driver.ErrRefused, "maxmemory"},
		{t.Context(), reply("ERR Error running script (call to f_1): @user_script:1: -READONLY You can't"), driver.ErrUnavailable, "replica"},
		{t.Context(), reply("ERR Lua redis lib command arguments must be strings or integers script: 1, on @user_script:10."), driver.ErrRefused, "another program"},
		{t.Context(), reply("READONLY You can't write against a read only replica."), driver.ErrUnavailable, "replica"},
		{t.Context(), reply("LOADING Redis is loading the dataset in memory"), driver.ErrUnavailable, "loading"},
		{t.Context(), reply("CLUSTERDOWN Hash slot not served"), driver.ErrUnavailable, "master"},
		{t.Context(), reply("MOVED 3999 127.0.0.1:6381"), driver.ErrUnavailable, "cluster=true"},
		{t.Context(), reply("ERR max number of clients reached"), driver.ErrUnavailable, ""},
		{ended, reply("NOAUTH Authentication required."), driver.ErrRefused, ""},
		{ended, net.ErrClosed, context.Canceled, ""},
		{t.Context(), net.ErrClosed, driver.ErrUnavailable, ""},
		{t.Context(), goredis.ErrClosed, driver.ErrClosed, ""},
	} {
		if err := wrap(c.ctx, c.err); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%v is %v, want %v with %q", c.err, err, c.want, c.hint)
		}
	}
}

// TestScriptsCheckTheirSession: only those that need no living one do not.
func TestScriptsCheckTheirSession(t *testing.T) {
	var names []string
	for name, s := range scripts {
		names = append(names, name)
		_, body, ok := strings.Cut(s.text, "local function leftovers")
		guarded := strings.Contains(body, "return refusal('lost')")
		if !ok || !strings.Contains(body, "return") || strings.Contains(s.text, "---") {
			t.Errorf("%s: %s", name, s.text)
		}
		if outside := name == "open" || name == "finish" || name == "sweep"; guarded == outside {
			t.Errorf("%s checks its session: %t", name, guarded)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "ahead ahead, any record extend finish forget join join, any record leave list mine open record renew sweep watch write" {
		t.Errorf("scripts %s", got)
	}
}

func TestOpenRefusesATTLWithFractions(t *testing.T) {
	c := newClient(nil, false, "", "")
	for _, ttl := range []time.Duration{0, -time.Second, time.Second + time.Nanosecond} {
		if _, err := c.Open(t.Context(), ttl); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%v: %v", ttl, err)
		}
	}
}

// TestCloseEndsWithItsContext: Sentinel accepts, and does not say a word.
// go-redis does not close a client while it waits for that.
func TestCloseEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan net.Conn)
	go func() {
		if conn, err := l.Accept(); err == nil {
			asked <- conn
		}
	}()
	d, err := Open(target(t, l.Addr().String(), "/a?master=main&timeout=1m"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _, _ = d.Open(ctx, time.Second) }()
	conn := <-asked
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	closed := make(chan error, 1)
	go func() { closed <- d.Close(ctx) }()
	select {
	case err := <-closed:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("closed: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("still closing after 20 s")
	}
}

// TestRotatedAuthorityIsUsedForTheNextConnection: go-redis would keep the
// configuration of the opening.
func TestRotatedAuthorityIsUsedForTheNextConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	authority, file := tlstest.NewAuthority(), filepath.Join(t.TempDir(), "ca.pem")
	write := func(pem []byte) {
		t.Helper()
		if err := os.WriteFile(file, pem, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(tlstest.NewAuthority().PEM)
	u, err := url.Parse("rediss://" + listener.Addr().String() + "/ns?cacert=" + file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(u)
	if err != nil {
		t.Fatal(err)
	}
	write(authority.PEM)
	trusted := tlstest.Trusted(listener, authority.Server("127.0.0.1"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			_, _ = d.Open(ctx, 5*time.Second)
		}
	}()
	select {
	case <-trusted:
	case <-ctx.Done():
		t.Error("the server was not trusted")
	}
	cancel()
	_ = d.Close(t.Context())
}
