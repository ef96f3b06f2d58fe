package coredriver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-go/baton/coordinator/coordinatortest"
	"github.com/baton-go/baton/coordinator/coordinatortest/coredriver"
	"github.com/baton-go/baton/coordinator/driver"
)

// TestConformance runs the suite without any capability.
func TestConformance(t *testing.T) {
	const absent, local, none = "the driver has the core only", "calls do not cross a network", "the service has no such state"
	coordinatortest.Run(t, coordinatortest.Harness{
		TTL: 10 * time.Second, OddTTL: 2 * time.Hour, GrantedTTL: time.Hour,
		Bubble: synctest.Test,
		Lacks: map[coordinatortest.Lever]string{
			coordinatortest.Handoff: absent, coordinatortest.Converter: absent, coordinatortest.Writer: absent,
			coordinatortest.HeadWatcher: absent, coordinatortest.QueueWatcher: absent, coordinatortest.Operator: absent, coordinatortest.External: absent,
			coordinatortest.Network: local, coordinatortest.Events: local,
			coordinatortest.Restart: none, coordinatortest.Compact: none, coordinatortest.Stall: none, coordinatortest.Watches: none,
		},
		Start: func(*testing.T) coordinatortest.Service {
			svc := coredriver.NewService()
			return coordinatortest.Service{
				Connect: func() (coordinatortest.Client, error) { return coordinatortest.Client{Driver: svc.Driver()}, nil },
				Expire:  func(_ context.Context, s driver.Session) error { return found(svc.End(s.ID())) },
				Remove: func(_ context.Context, queue driver.Queue, p driver.Place) error {
					return found(svc.Remove(queue, p.Key))
				},
				Sessions: func(context.Context) (int, error) { return svc.Sessions(), nil },
			}
		},
	})
}

func found(ok bool) error {
	if !ok {
		return errors.New("not found")
	}
	return nil
}
