package virtualetcd_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/integration/internal/masked"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
)

// TestConformance has all levers, also those that no test on real servers has.
// The driver makes its own client, as that of a URL does.
func TestConformance(t *testing.T) {
	coordinatortest.Run(t, harness(""))
}

func TestConformanceOfForeignLayouts(t *testing.T) {
	coordinatortest.Run(t, masked.Harness(harness("layout="+etcd.Concurrency)))
}

func harness(query string) coordinatortest.Harness {
	return coordinatortest.Harness{
		Start: func(t *testing.T) coordinatortest.Service {
			return levers{newWorld(t), query, map[driver.Driver]*virtualetcd.Link{}}.service()
		},
		TTL: 3 * time.Second, OddTTL: time.Second, GrantedTTL: 2 * time.Second, Patience: 20 * time.Second,
		Bubble: synctest.Test,
	}
}

// levers does what an operator or a fault does to the service.
type levers struct {
	*world
	query string // of the drivers' URLs
	links map[driver.Driver]*virtualetcd.Link
}

func (l levers) service() coordinatortest.Service {
	return coordinatortest.Service{
		Connect: l.connect,
		Expire:  func(_ context.Context, s driver.Session) error { return l.expire(s) },
		Remove: func(_ context.Context, _ driver.Queue, p driver.Place) error {
			there, err := l.Delete(p.Key[:strings.LastIndexByte(p.Key, '@')])
			if err == nil && !there {
				err = fmt.Errorf("%q does not exist", p.Key)
			}
			return err
		},
		Restart: func(context.Context) error {
			l.Stop()
			return l.Start()
		},
		Compact: func(context.Context) error { return l.Compact() },
		Stall:   l.stall,
		Watches: func(context.Context) (int, error) {
			time.Sleep(50 * time.Millisecond) // sessions open theirs after Open has returned
			return len(l.Watches()), nil
		},
		Sessions: func(context.Context) (int, error) { return len(l.Leases()), nil },
	}
}

func (l levers) connect() (coordinatortest.Client, error) {
	link := l.Link()
	d, err := link.Driver("conformance", l.query)
	l.links[d] = link
	c := coordinatortest.Client{Driver: d, Link: link, Events: link.Events}
	if l.query == "" {
		c.External = func(ctx context.Context) (driver.Driver, error) { return l.external(ctx, link) }
	}
	return c, err
}

// external makes a driver on the lease of another program.
func (l levers) external(ctx context.Context, link *virtualetcd.Link) (driver.Driver, error) {
	c, err := link.Client("")
	if err != nil {
		return nil, err
	}
	l.t.Cleanup(func() { _ = c.Close() })
	lease, err := virtualetcd.Grant(ctx, c, 3*time.Second)
	if err != nil {
		return nil, err
	}
	return lease.Driver("conformance")
}

func (l levers) expire(s driver.Session) error {
	lease, err := strconv.ParseUint(s.ID(), 16, 64)
	if err != nil {
		return err
	}
	return l.Revoke(int64(lease))
}

func (l levers) stall(_ context.Context, c coordinatortest.Client) (heal func(), err error) {
	m := l.links[c.Driver].Serving()
	if m == nil {
		return nil, errors.New("no member serves this client's watches")
	}
	m.Suffer(virtualetcd.Stalled)
	return m.Heal, nil
}
