package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/coordinatortest"
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

func FuzzOpenShowsNoSecret(f *testing.F) {
	var forms []string
	for _, scheme := range []string{"etcd", "zk", "etcds", "zks", "memory"} {
		forms = append(forms, scheme+"://user:PASSWORD@REST")
	}
	coordinatortest.FuzzSecrets(f, coordinator.Open, forms...)
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
