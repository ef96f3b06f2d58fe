package zookeeper

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/fence"
)

// parse parses a URL with several hosts, which url.Parse refuses.
func parse(t *testing.T, raw string) *url.URL {
	t.Helper()
	scheme, rest, _ := strings.Cut(raw, "://")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	at := strings.LastIndexByte(rest[:end], '@')
	u, err := url.Parse(scheme + "://" + rest[:at+1] + "hosts" + rest[end:])
	ok(t, err)
	u.Host = rest[at+1 : end]
	return u
}

func TestOpenReadsItsURL(t *testing.T) {
	all := zk.WorldACL(zk.PermAll)
	creator := zk.AuthACL(zk.PermAll)
	for raw, want := range map[string]struct {
		servers, root, digest string
		acl                   []zk.ACL
		name                  string
	}{
		"zk://h1":           {"h1:2181", "", "", all, "zk://h1:2181/"},
		"zookeeper://h1/a/": {"h1:2181", "/a", "", all, "zookeeper://h1:2181/a"},
		"zk://h1:1,[::1]:2,h3/a/b?acl=open": {
			"h1:1,[::1]:2,h3:2181", "/a/b", "", all, "zk://h1:1,[::1]:2,h3:2181/a/b",
		},
		"zk://u:p%3A%40@h1/zookeeper2": {"h1:2181", "/zookeeper2", "u:p:@", creator, "zk://h1:2181/zookeeper2"},
		"zk://u:secret@h1?acl=creator-read": {
			"h1:2181", "", "u:secret", append(creator, zk.WorldACL(zk.PermRead)...), "zk://h1:2181/",
		},
		"zk://u:secret@h1?acl=open":    {"h1:2181", "", "u:secret", all, "zk://h1:2181/"},
		"zks://h1,h2:1?servername=srv": {"h1:2281,h2:1", "", "", all, "zks://h1:2281,h2:1/"},
	} {
		d, err := Open(parse(t, raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		got := d.(*service)
		if strings.Join(got.Conf.Servers, ",") != want.servers || got.Tree.Root != want.root+"/~" ||
			got.Conf.Digest != want.digest || !slices.Equal(got.Tree.ACL, want.acl) {
			t.Errorf("%s: servers %v, digest %q, root %q, ACL %v", raw,
				got.Conf.Servers, got.Conf.Digest, got.Tree.Root, got.Tree.ACL)
		}
		if got.String() != want.name {
			t.Errorf("%s: String() = %q; want %q", raw, got.String(), want.name)
		}
		if (got.Conf.TLS != nil) != strings.HasPrefix(raw, "zks:") {
			t.Errorf("%s: TLS %v", raw, got.Conf.TLS)
		}
	}
}

func TestOpenRefusesBadURLsWithoutShowingSecrets(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	ok(t, os.WriteFile(text, []byte("no certificate"), 0o600))
	for _, raw := range []string{
		"etcd://h1", "zk://", "zk://h1:0", "zk://h1:x", "zk://h1,,h2", "zk://:2181",
		"zk://h1/zookeeper", "zk://h1/zookeeper/quota", "zk://h1//zookeeper", "zk://h1/a//b", "zk://h1/a/../b", "zk://h1/a%20b",
		"zk://h1/" + strings.Repeat("a", 256), "zk://h1/a#b",
		"zk://user@h1", "zk://:hunter2@h1", "zk://user:@h1", "zk://us%3Aer:hunter2@h1",
		"zk://h1?acl=creator", "zk://h1?acl=creator-read", "zk://user:hunter2@h1?acl=hunter2", "zk://h1?acl=",
		"zk://user:hunter2@h1?acl=open&acl=open", "zk://h1?unknown=hunter2", "zk://h1?%zz",
		"zk://h1?cacert=/x", "zk://h1?servername=a", "zks://h1?cacert=" + filepath.Join(t.TempDir(), "none"),
		"zks://h1?cacert=" + text, "zks://h1?cert=" + text, "zks://h1?key=" + text, "zks://h1?cert=" + text + "&key=" + text,
	} {
		d, err := Open(parse(t, raw))
		if !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v, %v; want ErrInvalid", raw, d, err)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows a secret: %v", raw, err)
		}
	}
	if _, err := OpenWith(parse(t, "zk://h1"), nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("nil option: %v", err)
	}
	if _, err := Open(nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Open(nil): %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestNamespaceInAnothersQueuesHasItsOwn: the locks of /app/mutex are no
// entries in the queue of the lock "mutex" of /app.
func TestNamespaceInAnothersQueuesHasItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, tr, outer := openTree(t)
		for _, node := range []string{"/app/~/mutex", "/app/mutex", "/app/mutex/~"} {
			tr.put(node, "")
		}
		inner, err := f.driver("/app/mutex").Open(soon(t, 20*time.Second), testTTL)
		ok(t, err)
		t.Cleanup(func() { _ = inner.Close(soon(t, time.Millisecond)) })
		for _, s := range []driver.Session{inner, outer} {
			for _, name := range []driver.Queue{"mutex/mutex", "mutex/rwlock", "rwlock/mutex"} {
				own, err := s.Join(soon(t, 20*time.Second), name, driver.Contender{ID: testID, Mode: "x", Alone: true})
				if err != nil || !own.First {
					t.Errorf("%v is not free: %+v, %v", s.(*session).Path(name), own, err)
				}
			}
		}
		for _, chroot := range []string{"/~", "/app/~", "/app/~/mutex"} {
			if _, err := Open(parse(t, f.url()+chroot)); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), chroot[1:]) {
				t.Errorf("%s: %v", chroot, err)
			}
			if _, err := Guard(chroot, fence.Sequencer{Scope: fence.Scope{Service: "s", Kind: "mutex", Name: "a"}, Token: 5, Key: "k"}); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%s: %v", chroot, err)
			}
		}
	})
}
