package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEachCommandHasAManPage: the pages have the text of --help, and groff,
// where installed, reads them without a warning.
func TestEachCommandHasAManPage(t *testing.T) {
	dir := t.TempDir()
	if r := baton(t, "", "man", dir); r.code != 0 || r.err != "" {
		t.Fatalf("baton man exits with %d: %s", r.code, r.err)
	}
	want := []string{"baton-completion.1", "baton.1"}
	for _, c := range newApp(Env{}).root().Commands() {
		if !c.Hidden {
			want = append(want, "baton-"+c.Name()+".1")
		}
	}
	slices.Sort(want)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the pages are %q, want %q", got, want)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed: the pages were not formatted")
	}
	for _, name := range got {
		format := exec.Command(groff, "-man", "-Tutf8", "-wall", "-P-cbou", "-rLL=200n", filepath.Join(dir, name))
		var warnings strings.Builder
		format.Stderr = &warnings
		out, err := format.Output()
		if err != nil || warnings.Len() > 0 {
			t.Errorf("%s: %v: %s", name, err, warnings.String())
		}
		if name == "baton-lock.1" {
			page := strings.ReplaceAll(string(out), "‐", "-")
			for _, words := range []string{"baton lock [flags] NAME... -- COMMAND", "  124  baton ended the command", "      --grace duration"} {
				if !strings.Contains(page, words) {
					t.Errorf("the page does not show %q:\n%s", words, page)
				}
			}
		}
	}
}

func TestRoffIsEscaped(t *testing.T) {
	if got, want := roff(".a -b\n'c…\n\\d e."), "\\&.a \\-b\n\\&'c\\[u2026]\n\\ed e."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
