package virtualetcd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd"
)

// TestConformance checks the clauses that hold when a member stops to apply,
// which no test on real servers can cause, and most others.
func TestConformance(t *testing.T) {
	const elsewhere = "the suite on real servers has it"
	coordinatortest.Run(t, coordinatortest.Harness{
		Start: func(t *testing.T) coordinatortest.Service { return levers{newWorld(t)}.service() },
		TTL:   ttl, OddTTL: time.Second, GrantedTTL: 2 * time.Second, Bubble: synctest.Test,
		Lacks: map[coordinatortest.Lever]string{
			coordinatortest.Network: elsewhere, coordinatortest.Restart: elsewhere,
			coordinatortest.Watches: elsewhere, coordinatortest.Events: elsewhere,
			coordinatortest.External: elsewhere,
		},
	})
}

// levers does what an operator or a fault does to the service.
type levers struct{ *world }

func (l levers) service() coordinatortest.Service {
	admin := l.client(1, "")
	clients := map[driver.Driver]*client{}
	return coordinatortest.Service{
		Connect: func() (coordinatortest.Client, error) {
			c := l.client(3, "")
			d, err := etcd.FromClient(c.Client, etcd.Namespace("conformance"))
			clients[d] = c
			return coordinatortest.Client{Driver: d}, err
		},
		Expire: func(ctx context.Context, s driver.Session) error {
			lease, err := strconv.ParseUint(s.ID(), 16, 64)
			if err == nil {
				_, err = admin.Revoke(ctx, clientv3.LeaseID(lease))
			}
			return err
		},
		Remove: func(ctx context.Context, _ driver.Queue, p driver.Place) error {
			resp, err := admin.Delete(ctx, p.Key[:strings.LastIndexByte(p.Key, '@')])
			if err == nil && resp.Deleted != 1 {
				err = fmt.Errorf("%q does not exist", p.Key)
			}
			return err
		},
		Compact: func(ctx context.Context) error {
			return errOf(admin.Compact(ctx, l.server.KV().Rev()))
		},
		Stall: func(_ context.Context, c coordinatortest.Client) (func(), error) {
			m := clients[c.Driver].serving()
			m.stall()
			return m.heal, nil
		},
		Sessions: func(ctx context.Context) (int, error) {
			resp, err := admin.Leases(ctx)
			if err != nil {
				return 0, err
			}
			return len(resp.Leases), nil
		},
	}
}
