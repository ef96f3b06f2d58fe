package coordinatortest

import (
	"context"
	"strings"
	"testing"
)

// Named is a client, as FuzzSecrets sees it: a *coordinator.Client.
type Named interface {
	String() string
	Identity() string
	Close(ctx context.Context) error
}

// FuzzSecrets is the body of a fuzz target for the URLs of a driver: neither an
// error of open nor the name of a client shows a password, also if it has
// characters that should have been encoded, so that the URL parses differently.
// open is coordinator.Open. Each form is a URL in which PASSWORD and REST stand
// for what is fuzzed:
//
//	func FuzzOpenShowsNoSecret(f *testing.F) {
//		coordinatortest.FuzzSecrets(f, coordinator.Open,
//			"redis://user:PASSWORD@REST", "redis://h1/a?master=m&sentinel-password=PASSWORD")
//	}
func FuzzSecrets[C Named, O any](f *testing.F, open func(string, ...O) (C, error), forms ...string) {
	const secret = "Zq7hunter2Zq7"
	around := [][2]string{{"", ""}, {"/", ""}, {"a/b", "c"}, {"#", "#"}, {"", "/x"}, {"", "#x"}, {"p@", "/x"}, {"1/", ""},
		{"[", "]"}, {"%zz", ""}, {"", ","}, {"a&", ""}, {"a?b&", "=c"}, {"1?", "&b"}, {":", ":1"}, {"", "\n"}}
	rests := []string{"h1:2379/ns?ttl=10s", "h1:x", "h1,h2/a//b", "h1?unknown=1", "", "h1?ttl=x", "h1/a?sslmode=x", "h1/a?cluster=yes"}
	for form := range forms {
		for _, password := range around {
			for _, rest := range rests {
				f.Add(uint8(form), password[0], password[1], rest)
			}
		}
	}
	f.Fuzz(func(t *testing.T, form uint8, before, after, rest string) {
		if strings.ContainsAny(before+after, "[]") || strings.Contains(rest, "@") {
			return // ambiguous
		}
		url := strings.NewReplacer("PASSWORD", before+secret+after, "REST", rest).
			Replace(forms[int(form)%len(forms)])
		c, err := open(url)
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
