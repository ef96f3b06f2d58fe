package release_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestVulncheckReportsOrSaysThatItCannot runs make vulncheck with databases of
// its own: one without entries, one with a vulnerability of a dependency, and
// one that cannot be reached.
func TestVulncheckReportsOrSaysThatItCannot(t *testing.T) {
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^GOVULNCHECK \?= (.+)$`).FindSubmatch(makefile)
	if m == nil {
		t.Fatal("the Makefile has no GOVULNCHECK")
	}
	govulncheck := string(m[1])
	if own := os.Getenv("GOVULNCHECK"); own != "" {
		govulncheck = own
	}
	clean := database(t, "")
	vulnerable := database(t, "github.com/cenkalti/backoff/v4")
	tr := tree{t, root}
	offline := filepath.Join(t.TempDir(), "offline") // only govulncheck is: the go command may need the module proxy
	if err := os.WriteFile(offline, []byte("#!/bin/sh\nHTTPS_PROXY=http://127.0.0.1:1 exec \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	unreachable := "GOVULNCHECK=" + strings.Replace(govulncheck, "go run ", "go run -exec="+offline+" ", 1)
	for _, c := range []struct {
		args []string
		ok   bool
		says string
	}{
		{[]string{"GOVULNCHECK=" + govulncheck + " -db " + clean}, true, ".: no known vulnerability is called"},
		{[]string{"GOVULNCHECK=" + govulncheck + " -db " + vulnerable}, false, "GO-2026-0001"},
		{[]string{"GITHUB_ACTIONS=", unreachable}, true, "NOTHING WAS CHECKED"},
		{[]string{"GITHUB_ACTIONS=true", unreachable}, false, "NOTHING WAS CHECKED"},
	} {
		args := append([]string{"vulncheck", "PARTS=."}, c.args...)
		out, err := tr.run("make", args...)
		if (err == nil) != c.ok || !strings.Contains(out, c.says) {
			t.Errorf("make %q: %v, want success %v and %q\n%s", args, err, c.ok, c.says, out)
		}
	}
}

// database writes a database of vulnerabilities, with one for a module unless
// it is empty, and returns its URL.
func database(t *testing.T, module string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"index/db.json":      `{"modified":"2026-01-02T00:00:00Z"}`,
		"index/modules.json": `[]`,
		"index/vulns.json":   `[]`,
	}
	if module != "" {
		files["index/modules.json"] = `[{"path":"` + module + `","vulns":[{"id":"GO-2026-0001","modified":"2026-01-02T00:00:00Z"}]}]`
		files["index/vulns.json"] = `[{"id":"GO-2026-0001","modified":"2026-01-02T00:00:00Z"}]`
		files["ID/GO-2026-0001.json"] = `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-01-02T00:00:00Z","published":"2026-01-02T00:00:00Z",
			"summary":"invented","details":"invented","affected":[{"package":{"name":"` + module + `","ecosystem":"Go"},
			"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],"ecosystem_specific":{"imports":[{"path":"` + module + `"}]}}]}`
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + dir
}
