package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/baton-go/baton/internal/engine"
)

func TestNamesThatBreakARuleAreRefusedWithNameAndRule(t *testing.T) {
	for name, rule := range map[string]string{
		"":                       "empty",
		" ":                      "visible",
		"a/ /b":                  "visible",
		"\u200b":                 "visible",
		"a/\u200b\u2060/b":       "visible",
		"\u3164":                 "visible",
		"\u0301":                 "visible",
		"\t":                     "control",
		"a\x00b":                 "control",
		"a\x7f":                  "control",
		"a\u0085b":               "control",
		"a\xffb":                 "UTF-8",
		"/a":                     "empty segment",
		"a/":                     "empty segment",
		"a//b":                   "empty segment",
		".":                      `segment "."`,
		"..":                     `segment ".."`,
		"a/../b":                 `segment ".."`,
		"zookeeper/quota":        "reserved",
		strings.Repeat("x", 256): "at most 255",
		strings.Repeat("é", 128): "at most 255",
	} {
		err := engine.CheckName(name)
		if !errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), rule) {
			t.Errorf("CheckName(%q) = %v, want ErrInvalid naming %q", name, err, rule)
		}
	}
	for _, name := range []string{"a", "a/b", "jobs/nightly report", "日本", "👩‍🚒", "e\u0301", "-", "a.b", "...", "%", "x/zookeeper", strings.Repeat("x", 255)} {
		if err := engine.CheckName(name); err != nil {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}

func FuzzQueueOf(f *testing.F) {
	f.Add("a/b")
	f.Add("a%2Fb ~é")
	f.Fuzz(func(t *testing.T, name string) {
		queue, err := engine.QueueOf("k", name)
		if err != nil {
			return
		}
		_, escaped, _ := strings.Cut(string(queue), "/")
		if escaped == "" || escaped == "." || escaped == ".." {
			t.Fatalf("%q gives the component %q", name, escaped)
		}
		for _, c := range escaped {
			if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~%", c) {
				t.Fatalf("%q gives %q with %q", name, queue, c)
			}
		}
	})
}
