package integration_test

import (
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

// The driver sends the end of a session right after the request that resumes
// it. Both of the server's connection layers accept that, and both report an
// expired session, though they close the connection with half of the message
// unread.
func TestZooKeeperSessionIsEndedInOneMessage(t *testing.T) {
	t.Parallel()
	for layer, o := range map[string]zkserver.Options{
		"nio":   {},
		"netty": {JVM: []string{"-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"}},
	} {
		t.Run(layer, func(t *testing.T) {
			cluster := servers.NewZooKeeper(t, o)
			proxy := servers.Proxy(t, cluster.Endpoints())
			d, err := zookeeper.Open(&url.URL{Scheme: "zk", Host: proxy.Addr()})
			if err != nil {
				t.Fatal(err)
			}
			for _, over := range []bool{false, true} {
				const ttl = time.Second
				var opened, cut, wg sync.WaitGroup
				opened.Add(20)
				cut.Add(1)
				for range 20 {
					wg.Go(func() {
						s, err := d.Open(await.Context(t), ttl)
						opened.Done()
						if err != nil {
							t.Error(err)
							return
						}
						cut.Wait()
						if err := s.Close(await.Context(t)); err != nil {
							t.Errorf("Close, over %v: %v", over, err)
						}
					})
				}
				opened.Wait()
				if over {
					proxy.Cut()
					await.Until(t, "the sessions to expire", func() bool { return sessions(t, cluster) == 0 })
					proxy.DropHeld()
				}
				cut.Done()
				wg.Wait()
				if n := sessions(t, cluster); n != 0 {
					t.Errorf("%d sessions after Close, over %v", n, over)
				}
			}
		})
	}
}

func sessions(t *testing.T, cluster *zkserver.Cluster) int {
	dump, err := zkserver.Sessions(await.Context(t), cluster.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	return len(dump.Sessions)
}

// Where servers demand credentials, Close ends the session on its own
// connection, too, and doctor's checks work.
func TestCloseWorksWhereZooKeeperDemandsCredentials(t *testing.T) {
	t.Parallel()
	cluster := servers.NewZooKeeper(t, zkserver.Options{JVM: []string{
		"-Dzookeeper.enforce.auth.enabled=true", "-Dzookeeper.enforce.auth.schemes=digest",
	}})
	d, err := zookeeper.Open(&url.URL{
		Scheme: "zk", Host: cluster.Endpoints()[0], User: url.UserPassword("user", "password"),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(await.Context(t), 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(await.Context(t)); err != nil {
		t.Errorf("Close: %v", err)
	}
	if n := sessions(t, cluster); n != 0 {
		t.Errorf("%d sessions after Close", n)
	}
	for _, f := range d.(driver.Examiner).Examine(await.Context(t)) {
		if f.Grade == driver.Failure {
			t.Errorf("%s: %s", f.About, f.Text)
		}
	}
}
