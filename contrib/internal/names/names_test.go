package names_test

import (
	"strings"
	"testing"

	"github.com/baton-go/baton/contrib/internal/names"
	"github.com/baton-go/baton/coordinator"
)

func TestAllKeysHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{
		"issue_cert_*.example.org", "a", "a/b", "a//b", "a/", "/a", ".", "..", "", " ", "a\nb", "a\x00b", "\xff",
		strings.Repeat("x", 250), strings.Repeat("x", 251), strings.Repeat("y", 5000),
	} {
		name := names.Lock("p", key)
		if err := coordinator.CheckName(name); err != nil {
			t.Errorf("the name of %q: %v", key, err)
		}
		if other, dup := seen[name]; dup {
			t.Errorf("%q and %q share %q", key, other, name)
		}
		seen[name] = key
	}
	if name := names.Lock("p", "a/b"); name != "p/a/b" {
		t.Errorf("a valid name was changed to %q", name)
	}
}
