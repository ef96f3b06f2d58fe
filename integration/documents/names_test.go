package documents_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Documentation names tests as evidence.
func TestDocsNameTestsThatExist(t *testing.T) {
	exists := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(src), -1) {
			exists[m[1]] = true
			abs, _ := filepath.Abs(path)
			exists[filepath.Base(filepath.Dir(abs))+"."+m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatal("no documents", err)
	}
	named := regexp.MustCompile("`((?:\\w+\\.)?(?:Test|Fuzz)\\w+)(?:/[^`]*)?`")
	found := 0
	for _, path := range append(docs, root+"/README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if found++; !exists[m[1]] {
				t.Errorf("%s names %s, which does not exist", path, m[1])
			}
		}
	}
	if found < 60 {
		t.Errorf("found only %d names of tests: the pattern does not match the documents", found)
	}
}
