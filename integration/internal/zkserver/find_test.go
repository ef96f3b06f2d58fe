package zkserver

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func touch(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchiveHasJarsInLibOrAtTheTop(t *testing.T) {
	recent, old, other := t.TempDir(), t.TempDir(), t.TempDir()
	touch(t, recent+"/lib/zookeeper-3.9.3.jar", recent+"/lib/logback-core-1.2.13.jar", recent+"/conf/logback.xml")
	touch(t, old+"/zookeeper-3.4.14.jar", old+"/lib/log4j-1.2.17.jar")
	touch(t, other+"/lib/something.jar")
	for home, want := range map[string][]string{
		recent: {recent + "/conf", recent + "/lib/*"},
		old:    {old + "/lib/*", old + "/*"},
		other:  nil,
	} {
		got, err := archiveClassPath(home)
		if want == nil {
			if err == nil {
				t.Errorf("%s is accepted as ZooKeeper", got)
			}
			continue
		}
		if err != nil || !slices.Equal(filepath.SplitList(got), want) {
			t.Errorf("class path %q, %v; want %q", got, err, want)
		}
	}
}

func TestDebianClassPathOmitsMissingJars(t *testing.T) {
	dir := t.TempDir()
	if _, err := debianClassPath(dir); err == nil {
		t.Error("an empty directory is accepted as Debian's package")
	}
	touch(t, dir+"/zookeeper.jar", dir+"/slf4j-simple.jar")
	got, err := debianClassPath(dir)
	if want := dir + "/zookeeper.jar:" + dir + "/slf4j-simple.jar"; err != nil || got != want {
		t.Errorf("class path %q, %v; want %q", got, err, want)
	}
}

func TestMissingServerErrorSaysHowToInstall(t *testing.T) {
	t.Setenv("ZOOKEEPER_HOME", t.TempDir())
	err := Installed()
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "ZOOKEEPER_HOME=") {
		t.Errorf("an empty ZOOKEEPER_HOME: %v", err)
	}
	t.Setenv("JAVA_HOME", t.TempDir())
	if err := Installed(); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("no Java: %v", err)
	}
}
