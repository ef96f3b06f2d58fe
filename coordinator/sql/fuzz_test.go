package sql

import (
	"context"
	"strings"
	"testing"

	"github.com/baton-go/baton/coordinator"
)

// FuzzOpenShowsNoSecret, also if the password has characters that should have
// been encoded, so that the URL parses differently.
func FuzzOpenShowsNoSecret(f *testing.F) {
	for _, password := range [][2]string{{"", ""}, {"a&", ""}, {"a?b&", "=c"}, {"a/b", "c"}, {"#", "#"}, {"", "/x"}, {"", "#x"}, {"1/", ""}, {"%zz", ""}, {"", ","}, {"1?", "&b"}} {
		for _, rest := range []string{"h1/ns?ttl=10s", "h1:x", "h1,h2/a//b", "h1?unknown=1", "", "h1?ttl=x", "h1/a?sslmode=x"} {
			f.Add(uint8(0), password[0], password[1], rest)
			f.Add(uint8(1), password[0], password[1], rest)
		}
	}
	f.Fuzz(func(t *testing.T, form uint8, before, after, rest string) {
		const secret = "Zq7hunter2Zq7"
		if strings.ContainsAny(before+after, "[]@") || strings.ContainsAny(rest, "@") {
			return // ambiguous
		}
		password := before + secret + after
		url := "postgres://user:" + password + "@" + rest
		if form%2 == 1 { // among the parameters
			url = "postgres://h1/a?password=" + password
		}
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
