package release_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestServersComeFromImages runs the step that takes servers from container
// images with a docker that is a script, and has the tests' own look-up find
// them.
func TestServersComeFromImages(t *testing.T) {
	dir := t.TempDir()
	const docker = `#!/bin/sh
echo "$@" >>"$DOCKER_LOG"
case "$1" in
create) echo container-1 ;;
image) echo /apache-zookeeper-3.9.9-bin ;;
pull) echo pulled ;;
cp)
	case "$3" in
	*:/usr/local/bin/*) printf '#!/bin/sh\necho from an image\n' >"$4" && chmod +x "$4" ;;
	*:/apache-zookeeper-3.9.9-bin/.) mkdir -p "$4/lib" && : >"$4/lib/zookeeper-3.9.9.jar" ;;
	*) echo "no such path" >&2 && exit 1 ;;
	esac
	;;
esac
`
	log := filepath.Join(dir, "log")
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(docker), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", root+"/.ci/servers", filepath.Join(dir, "servers"), "3.6.5", "3.9")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "DOCKER_LOG="+log)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	env := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || strings.ContainsAny(value, " \t") {
			t.Errorf("%q is no line of GITHUB_ENV", line)
		}
		env[key] = value
	}
	for _, key := range []string{"BATON_ETCD", "BATON_ETCDCTL"} {
		if out, err := exec.Command(env[key]).Output(); err != nil || string(out) != "from an image\n" {
			t.Errorf("%s=%s: %q, %v", key, env[key], out, err)
		}
	}
	if _, err := os.Stat(filepath.Join(env["ZOOKEEPER_HOME"], "lib", "zookeeper-3.9.9.jar")); err != nil {
		t.Error(err)
	}
	calls, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"create gcr.io/etcd-development/etcd:v3.6.5\n", "create zookeeper:3.9\n", "rm container-1\n"} {
		if !strings.Contains(string(calls), want) {
			t.Errorf("docker was not called with %q:\n%s", want, calls)
		}
	}
}
