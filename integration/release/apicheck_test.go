package release_test

import (
	"strings"
	"testing"
)

// TestAPICheckFindsBreakingChanges: a removed function fails make apicheck
// until the changelog names it. Before the first release the tree is compared
// with its last commit, later with the last release.
func TestAPICheckFindsBreakingChanges(t *testing.T) {
	tr := copyOfTree(t)
	check := func(wants bool, words ...string) {
		t.Helper()
		out, err := tr.run("make", "apicheck")
		if (err == nil) != wants {
			t.Fatalf("make apicheck: %v, want success %v\n%s", err, wants, out)
		}
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("make apicheck does not print %q:\n%s", w, out)
			}
		}
	}
	remove := func() {
		t.Helper()
		tr.replace("election/election.go", "func (e *Election) Leader(", "func (e *Election) FirstLeader(")
		tr.replace("recipes/multilock/member.go", "func Permits(", "func Semaphore(")
	}
	restore := func() { t.Helper(); tr.must("git", "checkout", "-q", ".") }

	tr.changelog("## [Unreleased]\n")
	tr.commit()
	check(true, "no release yet", "0 incompatible changes")
	remove()
	check(false, "2 incompatible changes, 2 of them not in CHANGELOG.md")
	restore()

	// A release, and commits after it. What its section of the changelog says
	// is no news.
	tr.changelog("## [Unreleased]\n\n## [0.1.0] - 2026-01-02\n\n- `multilock.Permits`\n")
	tr.commit()
	tr.must("git", "tag", "v0.1.0")
	tr.must("git", "tag", "cmd/baton/v0.9.0") // another module's
	tr.must("git", "tag", "v0.2.0-rc.1")
	tr.write("mutex/added.go", "package mutex\n\n// Added is new.\nconst Added = 1\n")
	tr.commit()
	check(true, "compared with v0.1.0: 0 incompatible changes")

	remove()
	tr.commit()
	check(false, "unnamed: - ./election.(*Election).Leader: removed", "does not name election.Election.Leader", "unnamed: - ./recipes/multilock.Permits: removed")
	tr.changelog("## [Unreleased]\n\n- `election.Election.LeaderOf`, `multilock.Permits.`\n\n## [0.1.0] - 2026-01-02\n")
	check(false, "unnamed: - ./election.(*Election).Leader", "named:   - ./recipes/multilock.Permits")
	tr.changelog("## [Unreleased]\n\n- `election.Election.Leader` and `multilock.Permits` were removed.\n\n## [0.1.0] - 2026-01-02\n")
	check(true, "2 incompatible changes, 0 of them not in CHANGELOG.md")

	// An observer, a module of its own; and a whole package.
	tr.replace("coordinator/observe/promobserve/promobserve.go", "func New(", "func Make(")
	tr.must("git", "rm", "-r", "-q", "recipes/concurrency")
	check(false, "does not name promobserve.New", "does not name concurrency\n")
}
