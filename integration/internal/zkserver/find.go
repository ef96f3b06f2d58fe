package zkserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNotInstalled means that there is no ZooKeeper or no Java on this machine.
// The message has the command that helps.
var ErrNotInstalled = errors.New("zkserver: ZooKeeper cannot be started")

const advice = `install both with
	apt-get update && apt-get install -y --no-install-recommends zookeeper default-jre-headless
(no service is started by that), or unpack an official apache-zookeeper-…-bin archive and set ZOOKEEPER_HOME to its directory; JAVA_HOME chooses a Java`

// mainClass runs standalone servers too, by what their configuration says.
const mainClass = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

// installation is where ZooKeeper and Java were found.
type installation struct {
	java      string
	classPath string
	source    string // for error messages: the directory or package it came from
}

// Installed returns nil when ZooKeeper can be started here, else an error that
// says what is missing and how to get it.
func Installed() error {
	_, err := find()
	return err
}

// find looks at ZOOKEEPER_HOME first, then for Debian's package.
func find() (installation, error) {
	java, err := findJava()
	if err != nil {
		return installation{}, fmt.Errorf("%w: no java: %w; %s", ErrNotInstalled, err, advice)
	}
	if home := os.Getenv("ZOOKEEPER_HOME"); home != "" {
		classPath, err := archiveClassPath(home)
		if err != nil {
			return installation{}, fmt.Errorf("%w: ZOOKEEPER_HOME=%s: %w", ErrNotInstalled, home, err)
		}
		return installation{java: java, classPath: classPath, source: home}, nil
	}
	classPath, err := debianClassPath("/usr/share/java")
	if err != nil {
		return installation{}, fmt.Errorf("%w: ZOOKEEPER_HOME is not set and %w; %s", ErrNotInstalled, err, advice)
	}
	return installation{java: java, classPath: classPath, source: "Debian package zookeeper"}, nil
}

func findJava() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return exec.LookPath(filepath.Join(home, "bin", "java"))
	}
	return exec.LookPath("java")
}

// archiveClassPath is that of an official binary archive: all jars of lib, and
// those at the top, where old releases keep their own. conf comes first:
// without its logging configuration recent releases print every debug message.
func archiveClassPath(home string) (string, error) {
	var entries []string
	if conf := filepath.Join(home, "conf"); exists(conf) {
		entries = append(entries, conf)
	}
	found := false
	for _, dir := range []string{filepath.Join(home, "lib"), home} {
		jars, err := filepath.Glob(filepath.Join(dir, "*.jar"))
		if err != nil {
			return "", err
		}
		for _, jar := range jars {
			found = found || strings.HasPrefix(filepath.Base(jar), "zookeeper")
		}
		if len(jars) > 0 {
			entries = append(entries, filepath.Join(dir, "*")) // Java itself expands this
		}
	}
	if !found {
		return "", errors.New("no zookeeper*.jar in lib or at the top: not an unpacked binary archive")
	}
	return strings.Join(entries, string(os.PathListSeparator)), nil
}

// debianClassPath is the jar and what its manifest forgets: a logger (else
// there is no log at all), Netty's codecs (TLS) and the servlet interface
// (admin server).
func debianClassPath(dir string) (string, error) {
	jar := filepath.Join(dir, "zookeeper.jar")
	if !exists(jar) {
		return "", fmt.Errorf("there is no %s", jar)
	}
	entries := []string{jar}
	for _, name := range []string{"slf4j-simple.jar", "netty-codec.jar", "servlet-api.jar"} {
		if path := filepath.Join(dir, name); exists(path) {
			entries = append(entries, path)
		}
	}
	return strings.Join(entries, string(os.PathListSeparator)), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
