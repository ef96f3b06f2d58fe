package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/etcd"
	_ "github.com/baton-go/baton/coordinator/memory"
	_ "github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/internal/engine"
)

// FuzzOpen: Open returns a client or an error for any URL.
func FuzzOpen(f *testing.F) {
	for _, url := range []string{
		"etcd://127.0.0.1:2379/orders?ttl=10s&identity=me", "etcds://u:p@[::1]:1,h2/a/b?dial-timeout=5s", "memory://", "memory:///x?ttl=1s",
		"zk://u:p%40@h1,h2:2181/a?acl=creator-read", "zks://h?servername=x", "zk://h?ttl=-1s", "zk://", "://", "", "zk://h1/a/../b#x",
		"etcd://h1:99999", "zk://%zz@h", "zk://h?%zz", "zk://h?ttl=10s&ttl=10s",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		c, err := coordinator.Open(url)
		if err != nil {
			if !errors.Is(err, engine.ErrInvalid) || c != nil {
				t.Errorf("%q: %v, %v; want ErrInvalid and no client", url, c, err)
			}
			return
		}
		if c.String() == "" || engine.CheckIdentity(c.Identity()) != nil {
			t.Errorf("%q: a client named %q, %q", url, c.String(), c.Identity())
		}
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("%q: Close = %v", url, err)
		}
	})
}

// FuzzOpenShowsNoSecret, also if the password has characters that should have
// been encoded, so that the URL parses differently.
func FuzzOpenShowsNoSecret(f *testing.F) {
	for _, password := range [][2]string{{"", ""}, {"/", ""}, {"a/b", "c"}, {"#", "#"}, {"", "/x"}, {"", "#x"}, {"p@", "/x"}, {"1/", ""}, {"[", "]"}, {"%zz", ""}, {"", ","}} {
		for _, rest := range []string{"h1:2379/ns?ttl=10s", "h1:x", "h1,h2/a//b", "h1?unknown=1", "", "h1?ttl=x"} {
			f.Add(uint8(1), password[0], password[1], rest)
		}
	}
	f.Fuzz(func(t *testing.T, scheme uint8, before, after, rest string) {
		const secret = "Zq7hunter2Zq7"
		if strings.ContainsAny(before+after, "[]") || strings.Contains(rest, "@") {
			return // ambiguous
		}
		url := []string{"etcd", "zk", "etcds", "zks", "memory"}[scheme%5] + "://user:" + before + secret + after + "@" + rest
		c, err := coordinator.Open(url)
		if err != nil {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error shows the password: %v", url, err)
			}
			return
		}
		if strings.Contains(c.String()+c.Identity(), secret) {
			t.Errorf("%q: the client's name shows the password: %v", url, c)
		}
		_ = c.Close(context.Background())
	})
}

// FuzzQueuesOfTwoNamesDiffer, and neither is inside the other.
func FuzzQueuesOfTwoNamesDiffer(f *testing.F) {
	for _, names := range [][2]string{{"a", "a/b"}, {"a/b", "a%2Fb"}, {"A", "a"}, {"é", "e\u0301"}, {"a ", "a"}, {"a+record", "a"},
		{"a b", "a%20b"}, {"a_b", "a-b"}, {"%", "%25"}} {
		f.Add(names[0], names[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, err := engine.QueueOf("k", a)
		if (err == nil) != (engine.CheckName(a) == nil) || err != nil && !errors.Is(err, engine.ErrInvalid) {
			t.Fatalf("QueueOf(%q) = %v, CheckName = %v", a, err, engine.CheckName(a))
		}
		y, err2 := engine.QueueOf("k", b)
		if err != nil || err2 != nil || a == b {
			return
		}
		if x == y || strings.HasPrefix(string(x), string(y)+"/") || strings.HasPrefix(string(y), string(x)+"/") {
			t.Errorf("%q and %q have the queues %q and %q", a, b, x, y)
		}
	})
}

// FuzzCheckIdentity: a valid identity fits in one row of a listing.
func FuzzCheckIdentity(f *testing.F) {
	for _, id := range []string{"", "host/1", "a\nb", "\x00", "é", strings.Repeat("x", 256), "\xff"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		err := engine.CheckIdentity(id)
		switch {
		case err != nil && !errors.Is(err, engine.ErrInvalid):
			t.Errorf("%q: %v", id, err)
		case err == nil && (id == "" || len(id) > engine.MaxIdentity || strings.ContainsAny(id, "\x00\n\r\x1b\x7f")):
			t.Errorf("%q is accepted", id)
		}
	})
}
