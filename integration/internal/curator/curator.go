// Package curator runs Java programs that use Apache Curator.
package curator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// jars are Curator's dependencies, as named by Debian's packages.
var jars = []string{
	"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-api", "slf4j-nop",
	"netty-all", "netty-common", "netty-handler", "netty-transport", "netty-buffer", "netty-codec", "netty-resolver",
}

// Jars is Debian's directory of jars.
const Jars = "/usr/share/java"

// Installed returns nil if programs that use Curator can run here, else an
// error that names what is missing and how to install it.
func Installed() error {
	_, err := classPath()
	return err
}

// Command returns a command that runs a program, given as source and written to
// dir, with arguments.
func Command(dir, name string, source []byte, args ...string) (*exec.Cmd, error) {
	path, err := classPath()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, name)
	if err := os.WriteFile(program, source, 0o600); err != nil {
		return nil, err
	}
	return exec.Command(javaTool("java"), append([]string{"-Xmx512m", "-cp", path, program}, args...)...), nil
}

func classPath() (string, error) {
	// java runs the program from source, which needs the compiler.
	if _, err := exec.LookPath(javaTool("javac")); err != nil {
		return "", fmt.Errorf("curator: not here: %w; %s", err, advice)
	}
	if dir := os.Getenv("BATON_CURATOR"); dir != "" {
		if found, _ := filepath.Glob(filepath.Join(dir, "curator-recipes*.jar")); len(found) == 0 {
			return "", fmt.Errorf("curator: BATON_CURATOR=%s has no curator-recipes*.jar", dir)
		}
		return filepath.Join(dir, "*"), nil
	}
	var paths []string
	for _, name := range jars {
		path := filepath.Join(Jars, name+".jar")
		if _, err := os.Stat(path); err == nil {
			paths = append(paths, path)
		} else if !strings.HasPrefix(name, "netty") { // depends on the release
			return "", fmt.Errorf("curator: not here: %w; %s", err, advice)
		}
	}
	return strings.Join(paths, ":"), nil
}

const advice = `install it with
	apt-get update && apt-get install -y --no-install-recommends libcurator-recipes-java default-jdk-headless
or put Curator's jars and their dependencies into a directory, and set BATON_CURATOR to it`

// javaTool returns the path of a program of the JDK at JAVA_HOME or, if there
// is none, of the Java in the path.
func javaTool(name string) string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		if javac := filepath.Join(home, "bin", "javac"); executable(javac) {
			return filepath.Join(home, "bin", name)
		}
	}
	return name
}

func executable(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}
