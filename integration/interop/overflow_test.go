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

// TestRefusesBeforeNumbersRunOut: Curator and Kazoo compare sequence numbers as
// texts, so on a queue in which they become negative each newcomer comes first.
// Baton leaves such a queue alone in time, and says why.
func TestRefusesBeforeNumbersRunOut(t *testing.T) {
	t.Parallel()
	z := servers.NewZooKeeper(t, zkserver.Options{JVM: []string{"-Dznode.container.checkIntervalMs=3600000"}}) // nothing begins anew
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
		conn = s.conn(t) // the library can take a minute to find the way back with the old one
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
	// A negative number that somebody else has.
	_, err = conn.Create(path+"/_c_x-lock--2147483648", nil, 0, zk.WorldACL(zk.PermAll))
	check(t, err)
	bound, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = m.Contenders(bound)
	refusedBy(t, err, "-lock--2147483648")
}
