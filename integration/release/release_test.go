package release_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// parts are the modules that are released, as in the Makefile.
var parts = []string{
	".", "contrib", "coordinator/observe/otelobserve", "coordinator/observe/promobserve", "coordinator/redis", "coordinator/sql", "cmd/baton", "cmd/batonvet",
}

func (tr tree) release(args ...string) (string, error) {
	tr.t.Helper()
	return tr.run(".ci/release", append(args, parts...)...)
}

func TestReleaseRefusesWhatIsNotReady(t *testing.T) {
	tr := copyOfTree(t)
	ready := "## [Unreleased]\n\n## [0.1.0] - 2026-01-02\n\n- Everything.\n"
	tr.changelog(ready)
	tr.commit()
	refuses := func(version, says string) {
		t.Helper()
		if out, err := tr.release("-n", version); err == nil || !strings.Contains(out, says) {
			t.Errorf("release %s: %v, want a refusal with %q\n%s", version, err, says, out)
		}
	}
	if out, err := tr.release("-n", "v0.1.0"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, version := range []string{"", "0.1.0", "v0.1", "v0.01.0", "v2.0.0", "v0.1.0 x", "latest"} {
		refuses(version, "want v0 or v1")
	}
	refuses("v0.2.0", "## [0.2.0] - year-month-day")
	tr.changelog("## [Unreleased]\n\n- Something.\n\n" + strings.TrimPrefix(ready, "## [Unreleased]\n\n"))
	refuses("v0.1.0", "the tree has changes")
	tr.commit()
	refuses("v0.1.0", "[Unreleased] is not empty")
	tr.changelog(strings.Replace(ready, "2026-01-02", "unreleased", 1))
	tr.commit()
	refuses("v0.1.0", "## [0.1.0] - year-month-day")
	tr.changelog(ready)
	tr.commit()
	tr.write("forgotten.go", "package forgotten\n")
	refuses("v0.1.0", "the tree has changes")
	tr.must("rm", "forgotten.go")
	tr.must("git", "tag", "v0.1.0")
	refuses("v0.1.0", "this tag exists")
	for _, version := range []string{"v0.0.9", "v0.1.0-rc.1"} {
		refuses(version, "the last release is v0.1.0")
	}
}

// TestReleaseTagsModulesThatCanBeInstalled makes the first release in a copy of
// the tree. The release itself installs the command from the tags; what is left
// to check are the tags, and that two builds of the command are equal.
func TestReleaseTagsModulesThatCanBeInstalled(t *testing.T) {
	tr := copyOfTree(t)
	tr.changelog("## [Unreleased]\n\n## [0.1.0] - 2026-01-02\n\n- Everything.\n")
	tr.commit()
	head := tr.must("git", "rev-parse", "HEAD")
	out, err := tr.release("v0.1.0")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tr.publishes(out)
	if now, left := tr.must("git", "rev-parse", "HEAD"), tr.must("git", "status", "--porcelain"); now != head || left != "" {
		t.Errorf("the branch moved from %s to %s, or files are left: %q", head, now, left)
	}
	if parent := tr.must("git", "rev-parse", "v0.1.0^"); parent != head {
		t.Errorf("the parent of the release is %s, want %s", parent, head)
	}
	changed := strings.Fields(tr.must("git", "diff", "--name-only", "v0.1.0^", "v0.1.0"))
	if len(changed) != 13 {
		t.Errorf("the release changes %q, want go.mod and go.sum of six modules, and integration/go.mod", changed)
	}
	for _, dir := range parts[1:] {
		mod := tr.must("git", "show", dir+"/v0.1.0:"+dir+"/go.mod")
		requires := strings.Contains(mod, library+" v0.1.0\n")
		if alone := dir == "cmd/batonvet"; strings.Contains(mod, "replace") || requires == alone {
			t.Errorf("the released %s/go.mod is\n%s", dir, mod)
		}
	}

	// Archives are built from a clone of the tag. Another clone in another
	// directory gives the same bytes.
	module := moduleCache(t, tr.dir)
	for _, system := range []string{"linux/amd64", "windows/amd64"} {
		goos, goarch, _ := strings.Cut(system, "/")
		var binaries [2][]byte
		for i := range binaries {
			clone := tree{t, filepath.Join(t.TempDir(), strings.Repeat("deeper/", i)+"clone")}
			if out, err := exec.Command("git", "clone", "-q", "-b", "v0.1.0", tr.dir, clone.dir).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			clone.must("env", append(module, "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch,
				"go", "build", "-C", "cmd/baton", "-trimpath", "-buildvcs=true", "-ldflags=-s -w -buildid=", "-o", "../../build/baton", ".")...)
			if binaries[i], err = os.ReadFile(filepath.Join(clone.dir, "build", "baton")); err != nil {
				t.Fatal(err)
			}
			if goos == runtime.GOOS && goarch == runtime.GOARCH {
				clone.must("go", "-C", "integration", "mod", "tidy", "-diff") // the workflow tests the tag
				if shown := clone.must("build/baton", "--version"); !strings.HasPrefix(shown, "baton v0.1.0 go1.") {
					t.Errorf("baton --version of an archive prints %q", shown)
				}
			}
		}
		if !bytes.Equal(binaries[0], binaries[1]) {
			t.Errorf("two builds for %s differ", system)
		}
	}
}

// publishes runs the push that a release prints, to a remote that has GitHub's
// rule: a push of more than three tags starts no workflow. The library's tag is
// to start one.
func (tr tree) publishes(printed string) {
	tr.t.Helper()
	_, push, _ := strings.Cut(printed, "to publish: ")
	push, _, ok := strings.Cut(push, "\n")
	if !ok {
		tr.t.Fatalf("no push is printed:\n%s", printed)
	}
	origin := filepath.Join(tr.t.TempDir(), "origin.git")
	tr.must("git", "init", "-q", "--bare", origin)
	hook := "#!/bin/sh\nnew=$(tee -a pushed)\n! echo \"$new\" | grep -q refs/tags/v || [ \"$(echo \"$new\" | wc -l)\" -le 3 ]\n"
	if err := os.WriteFile(filepath.Join(origin, "hooks", "pre-receive"), []byte(hook), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	tr.must("git", "remote", "add", "origin", origin)
	tr.must("bash", "-ec", push)
	pushed, err := os.ReadFile(filepath.Join(origin, "pushed"))
	if err != nil {
		tr.t.Fatal(err)
	}
	var tags []string // in the order in which others get them
	for line := range strings.Lines(string(pushed)) {
		tags = append(tags, strings.TrimPrefix(strings.Fields(line)[2], "refs/tags/"))
	}
	var want []string
	for _, dir := range parts {
		want = append(want, strings.TrimPrefix(dir+"/v0.1.0", "./"))
	}
	if !slices.Equal(tags, want) {
		tr.t.Errorf("%s pushes %q, want %q", push, tags, want)
	}
}

// moduleCache returns an environment in which the go command takes Baton from
// a repository into a module cache of the test's own, and other modules from
// the usual cache and proxy.
func moduleCache(t *testing.T, repository string) []string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	usual := strings.Fields(string(out))
	return []string{
		"GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw", "GOPRIVATE=" + library, "GOPROXY=file://" + usual[0] + "/cache/download," + usual[1],
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + repository + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + library,
	}
}
