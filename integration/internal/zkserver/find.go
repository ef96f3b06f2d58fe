package zkserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNotInstalled means that ZooKeeper or Java is missing. The message has the
// command that installs them.
var ErrNotInstalled = errors.New("zkserver: ZooKeeper cannot be started")

const advice = `install both with
	apt-get update && apt-get install -y --no-install-recommends zookeeper default-jre-headless
(which starts no service), or unpack an official apache-zookeeper-…-bin archive and set ZOOKEEPER_HOME to its directory; JAVA_HOME selects the Java`

// mainClass also runs standalone servers, depending on the configuration.
const mainClass = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

// installation has the locations of ZooKeeper and Java.
type installation struct {
	java      string
	classPath string
	source    string // for error messages: the directory or package it came from
}

// Installed returns nil if ZooKeeper can be started here, else an error that
// names what is missing and how to install it.
func Installed() error {
	_, err := find()
	return err
}

// find tries ZOOKEEPER_HOME first, then Debian's package.
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

// archiveClassPath returns the class path of an official binary archive: all
// jars in lib, and those at the top, where old releases keep their own. conf is
// first: without its logging configuration recent releases print every debug
// message.
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

// debianClassPath returns the jar and the jars that its manifest omits: a
// logger (otherwise there is no log), Netty's codecs (TLS) and the servlet
// interface (admin server).
func debianClassPath(dir string) (string, error) {
	jar := filepath.Join(dir, "zookeeper.jar")
	if !exists(jar) {
		return "", fmt.Errorf("%s does not exist", jar)
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
