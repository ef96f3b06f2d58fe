package interop_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
	"github.com/baton-go/baton/mutex"
)

// Curator and Kazoo compare sequence numbers as text, so in a queue whose
// numbers become negative each new contender comes first. Baton refuses such a
// queue in time, with the reason.
func TestQueueIsRefusedBeforeItsNumbersOverflow(t *testing.T) {
	t.Parallel()
	z := servers.NewZooKeeper(t, zkserver.Options{JVM: []string{"-Dznode.container.checkIntervalMs=3600000"}}) // no sequence restarts
	s, ctx := zkSite{z.Endpoints()}, bounded(t)
	const path = "/spent"
	m, err := mutex.New(s.client(t, "curator"), path)
	check(t, err)
	conn := s.conn(t)
	for _, p := range []string{path, path + "/stray"} {
		_, err = conn.Create(p, nil, 0, zk.WorldACL(zk.PermAll))
		check(t, err)
	}
	for _, next := range []int32{math.MaxInt32 - 1<<20 - 1, math.MaxInt32 - 1<<19} {
		node := z.Node(0)
		node.Kill()
		check(t, node.SetSequence(path+"/stray", next))
		check(t, node.Restart(ctx))
		conn = s.conn(t) // the library can need a minute to reconnect with the old one
		if next < math.MaxInt32-1<<20 {
			check(t, conn.Delete(path+"/stray", -1))
			l, err := m.Lock(ctx)
			check(t, err)
			check(t, l.Unlock(ctx))
			_, err = conn.Create(path+"/stray", nil, 0, zk.WorldACL(zk.PermAll))
			check(t, err)
			continue
		}
		check(t, conn.Delete(path+"/stray", -1))
		_, err = m.Lock(ctx)
		refusedBy(t, err, "-lock-")
		names, _, err := conn.Children(path)
		if err != nil || len(names) != 0 {
			t.Errorf("left behind: %v, %v", names, err)
		}
	}
	// Another client's negative number.
	_, err = conn.Create(path+"/_c_x-lock--2147483648", nil, 0, zk.WorldACL(zk.PermAll))
	check(t, err)
	bound, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = m.Contenders(bound)
	refusedBy(t, err, "-lock--2147483648")
}
