package integration_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
)

// TestAdaptersOnRealServers runs the test of contrib/internal/live with the
// versions of the modules that contrib requires: those here may be others.
func TestAdaptersOnRealServers(t *testing.T) {
	t.Parallel()
	for _, s := range []site{{"etcd", servers.Etcd(t).Endpoints()}, {"zk", servers.ZooKeeper(t).Endpoints()}} {
		t.Run(s.service, func(t *testing.T) {
			cmd := exec.CommandContext(await.Context(t), "go", "test", "-C", "../contrib", "-count=1", "-tags=live", "./internal/live")
			cmd.Env = append(os.Environ(), "BATON_URL="+s.url(10*time.Second))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
