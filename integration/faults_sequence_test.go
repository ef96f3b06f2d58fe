package integration_test

import (
	"math"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

// A queue has had 2^31 contenders. ZooKeeper 3.8 then assigns 2147483647 to
// every contender, and sometimes a negative number to those whose requests
// arrive together.
func TestLockWorksPastTheLastSequenceNumber(t *testing.T) {
	t.Parallel()
	z := servers.NewZooKeeper(t, zkserver.Options{JVM: []string{"-Dznode.container.checkIntervalMs=3600000"}}) // no sequence restarts
	s, name := site{"zk", z.Endpoints()}, servers.Name(t)
	l := lock(t, newMutex(t, s.client(t, 30*time.Second), name))
	conn, stray := s.zkConn(t, 30*time.Second), "/baton-test/~/mutex/"+name+"/stray"
	if _, err := conn.Create(stray, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	node := z.Node(0)
	node.Kill()
	if err := node.SetSequence(stray, math.MaxInt32-10); err != nil {
		t.Fatal(err)
	}
	if err := node.Restart(await.Context(t)); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the stray removed", func() bool { return conn.Delete(stray, -1) == nil })

	workload := s.newWorkload(t, name)
	workload.join(s, 4, 10*time.Second)
	workload.enter(l)
	await.Until(t, "a queue", func() bool { return inQueue(t, workload.probe) > 2 })
	workload.exit(l)
	unlock(t, l)
	for range 10 {
		workload.progresses("past the last number")
	}
	workload.finish()
	// Without tokens all contenders would look equal: the numbers are used up.
	p, err := conn.Create("/baton-test/~/mutex/"+name+"/n", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
	t.Logf("the next contender would be %s", p)
	if want := "n2147483647"; err != nil || p[len(p)-len(want):] != want {
		t.Errorf("the sequence continues, %s, %v: the test shows nothing", p, err)
	}
}
