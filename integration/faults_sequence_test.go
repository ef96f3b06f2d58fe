package integration_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

// TestLockGoesOnPastTheLastSequenceNumber has a line that 2^31 contenders have stood in. ZooKeeper 3.8 then gives 2147483647
// to one contender after the other, and now and then a negative number to those whose requests arrive together.
func TestLockGoesOnPastTheLastSequenceNumber(t *testing.T) {
	t.Parallel()
	z := servers.NewZooKeeper(t, zkserver.Options{JVM: []string{"-Dznode.container.checkIntervalMs=3600000"}}) // nothing begins anew
	s, name := site{"zk", z.Endpoints()}, servers.Name(t)
	l := lock(t, newMutex(t, s.client(t, 30*time.Second), name))
	conn, stray := s.zkConn(t, 30*time.Second), "/baton-test/mutex/"+name+"/stray"
	if _, err := conn.Create(stray, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	node := z.Node(0)
	node.Kill()
	if err := node.SetSequence(stray, math.MaxInt32-10); err != nil {
		t.Fatal(err)
	}
	if err := node.Restart(within(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the stray removed", func() bool { return conn.Delete(stray, -1) == nil })

	ctx := within(t, 5*time.Second)
	var b book
	var wg sync.WaitGroup
	for i := range 4 {
		m := newMutex(t, s.client(t, 10*time.Second), name)
		for j := range 2 {
			r := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			wg.Go(func() { contend(ctx, t, r, m, &b) })
		}
	}
	b.enter(t, l)
	time.Sleep(100 * time.Millisecond) // a line forms
	b.exit(l)
	unlock(t, l)
	wg.Wait()
	probe := newMutex(t, s.client(t, 10*time.Second), name)
	eventually(t, 10*time.Second, "nothing left in the line", func() bool { return inLine(t, probe) == 0 })
	unlock(t, lock(t, probe))
	// Without tokens all would be one: the last numbers were given.
	p, err := conn.Create("/baton-test/mutex/"+name+"/n", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
	t.Logf("%d grants, the next contender would be %s", b.entries, p)
	if want := "n2147483647"; err != nil || p[len(p)-len(want):] != want {
		t.Errorf("the line counts on, %s, %v: the test shows nothing", p, err)
	}
	if b.entries < 30 {
		t.Errorf("only %d grants", b.entries)
	}
}
