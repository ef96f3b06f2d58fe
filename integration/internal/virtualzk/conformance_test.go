package virtualzk_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/integration/internal/masked"
	"github.com/baton-go/baton/integration/internal/virtualzk"
)

// TestConformance runs the suite on the driver, the client library and this
// server, with all levers that a service of so many members has.
func TestConformance(t *testing.T) {
	for name, members := range map[string]int{"one member": 1, "three members": 3} {
		t.Run(name, func(t *testing.T) { coordinatortest.Run(t, harness(members, native)) })
	}
}

func TestConformanceOfForeignLayouts(t *testing.T) {
	for layout, members := range map[string]int{"curator": 1, "kazoo": 3} {
		t.Run(layout, func(t *testing.T) {
			coordinatortest.Run(t, masked.Harness(harness(members, queues{"?layout=" + layout, "/"})))
		})
	}
}

// queues says where the drivers' queues are.
type queues struct {
	query string // of the drivers' URLs
	below string // the chroot
}

var native = queues{below: "/~/"}

// harness removes empty containers all the time, so that a queue vanishes, and
// its sequence restarts, whenever a case leaves it empty for a moment.
func harness(members int, q queues) coordinatortest.Harness {
	const longest = 40 * time.Second
	lacks := map[coordinatortest.Lever]string{
		coordinatortest.Compact:  "ZooKeeper keeps no history for clients that could be compacted",
		coordinatortest.External: "the driver has no external sessions",
	}
	if members == 1 {
		lacks[coordinatortest.Stall] = "there is no other member to follow"
	}
	return coordinatortest.Harness{
		TTL: 4 * time.Second, OddTTL: longest + 20*time.Second, GrantedTTL: longest,
		Bubble: synctest.Test, Lacks: maps.Clone(lacks),
		Start: func(t *testing.T) coordinatortest.Service {
			e := virtualzk.New(virtualzk.Config{
				Members: members, Tick: 200 * time.Millisecond, MinTimeout: 500 * time.Millisecond,
				MaxTimeout: longest, Containers: 5 * time.Millisecond, Peers: time.Millisecond,
				Random: rand.New(rand.NewPCG(1, 2)),
			})
			t.Cleanup(func() {
				e.Close()
				time.Sleep(5 * time.Second) // the client library's Close waits for a reply
			})
			s := levers{e, q, map[driver.Driver]*virtualzk.Link{}}.service()
			if members == 1 {
				s.Stall = nil
			}
			return s
		},
	}
}

// levers does what an operator or a fault does to the service.
type levers struct {
	*virtualzk.Ensemble
	queues
	links map[driver.Driver]*virtualzk.Link
}

var errNone = errors.New("not found")

func (l levers) service() coordinatortest.Service {
	return coordinatortest.Service{
		Connect: func() (coordinatortest.Client, error) {
			link := l.Link("")
			d, err := zookeeper.OpenWith(l.URL("/conformance"+l.query), zookeeper.Dialer(link.Dial))
			l.links[d] = link
			return coordinatortest.Client{Driver: d, Link: link, Events: link.Notices}, err
		},
		Expire: func(_ context.Context, s driver.Session) error {
			id, err := strconv.ParseUint(s.ID(), 16, 64)
			if err == nil && !l.Expire(int64(id)) {
				err = errNone
			}
			return err
		},
		Remove: func(_ context.Context, queue driver.Queue, p driver.Place) error {
			if !l.Delete("/conformance" + l.below + string(queue) + "/" + p.Key) {
				return errNone
			}
			return nil
		},
		Restart: func(context.Context) error {
			l.Stop(-1)
			time.Sleep(time.Second)
			l.Start(-1)
			return nil
		},
		Stall:    l.stall,
		Watches:  func(context.Context) (int, error) { return l.Stats().Watches, nil },
		Sessions: func(context.Context) (int, error) { return l.Stats().Sessions, nil },
	}
}

// stall stalls the member that serves a client, which a leader cannot.
func (l levers) stall(ctx context.Context, c coordinatortest.Client) (heal func(), err error) {
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		sessions := l.links[c.Driver].Sessions()
		if len(sessions) == 0 {
			continue
		}
		at := l.Connected(sessions[0])
		switch {
		case len(at) != 1:
		case at[0] == l.Leader():
			l.Elect((at[0] + 1) % l.Members())
		default:
			l.Stall(at[0], true)
			return func() { l.Stall(at[0], false) }, nil
		}
	}
	return nil, ctx.Err()
}
