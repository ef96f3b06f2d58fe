package cli

import (
	"strings"
	"testing"

	_ "github.com/baton-go/baton/coordinator/sql"
)

func TestMigrateWantsTheURLOfADatabase(t *testing.T) {
	for url, says := range map[string]string{
		"":                                 "needs no tables; want postgres://", // that of BATON_URL
		"db:5432/app":                      "no scheme",
		"postgres://u:hid%zz@h:5432/app":   "percent-encoded",
		"postgres://u:12/hidden@h:5432/a":  "percent-encoded",
		"postgres://u:hidden@h:5432/app#x": "fragment",
		"mysql://u:hidden@h:3306/":         "and a database",
		"mysql://u:hidden@h/app?charset=x": "charset",
	} {
		args := []string{"migrate"}
		if url != "" {
			args = append(args, url)
		}
		r := baton(t, "", args...)
		if r.code != exitUsage || !strings.Contains(r.err, says) || strings.Contains(r.err, "hid") {
			t.Errorf("baton migrate %s: code %d, %q; want %d and %q", url, r.code, r.err, exitUsage, says)
		}
	}
}
