package onetcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
)

// leasing is a driver each of whose sessions is on an external lease, of an
// owner that never renews it. The lease may be old when its session begins.
type leasing struct {
	driver.Driver // nil
	s             *service
	client        *clientv3.Client
	rand          *rand.Rand

	mu    sync.Mutex
	lease *virtualetcd.Lease // for the next session
	from  time.Time          // when that begins
	ends  time.Time          // when the lease ends unless it is renewed
}

func (s *service) onLeases(l *link, r *rand.Rand) (driver.Driver, error) {
	c, err := l.Client(s.user.Username())
	for passes(err) { // a program whose start fails is started again
		time.Sleep(s.ttl / 10)
		c, err = l.Client(s.user.Username())
	}
	if err != nil {
		return nil, err
	}
	return &leasing{s: s, client: c, rand: r}, nil
}

// passes reports whether the cause of an error passes. The first request of a
// client with a user, to authenticate, may go to a member that cannot.
func passes(err error) bool {
	known := rpctypes.EtcdError{}
	return status.Code(err) == codes.Unavailable || // its connection broke
		errors.As(rpctypes.Error(err), &known) && known.Code() == codes.Unavailable
}

var (
	errYoung = driver.Wrap(driver.ErrUnavailable, errors.New("the owner of the lease does other things"))
	errOld   = driver.Wrap(driver.ErrUnavailable, errors.New("the lease has ended"))
)

func (d *leasing) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	d.mu.Lock()
	lease, from, ends := d.lease, d.from, d.ends
	d.mu.Unlock()
	late := lease != nil && time.Now().After(ends)
	if lease == nil || late {
		var err error
		if lease, err = virtualetcd.Grant(ctx, d.client, ttl); err != nil {
			return nil, driver.Wrap(driver.ErrUnavailable, err)
		}
		d.mu.Lock()
		// Not if the last one waited for too long. Nor after the faults, when
		// clients must not be late.
		if from = time.Now(); !late && !d.s.world.Mended() {
			from = from.Add(ttl/4 + time.Duration(d.rand.Int64N(int64(ttl*6/10))))
		}
		d.lease, d.from, d.ends = lease, from, time.Now().Add(ttl)
		d.mu.Unlock()
	}
	select {
	case <-time.After(time.Until(from)):
	case <-ctx.Done():
		return nil, errYoung
	}
	d.mu.Lock()
	d.lease = nil
	d.mu.Unlock()
	s, err := lease.Open(ctx, namespace, ttl)
	if errors.Is(err, driver.ErrSessionLost) {
		err = errOld // the next one is on another lease
	}
	if err != nil {
		return nil, err
	}
	return &leased{s, lease}, nil
}

func (d *leasing) Close(context.Context) error { return d.client.Close() }
func (d *leasing) String() string              { return "etcd://external" }

// leased is a session whose end ends the lease, too.
type leased struct {
	driver.Session
	lease *virtualetcd.Lease
}

// Err says why the driver's session is over, if it does.
func (s *leased) Err() error {
	if says, ok := s.Session.(interface{ Err() error }); ok {
		return says.Err()
	}
	return nil
}

func (s *leased) Close(ctx context.Context) error {
	err := s.Session.Close(ctx)
	if err != nil {
		return err
	}
	if err := s.lease.Revoke(ctx); err != nil {
		return driver.Wrap(driver.ErrUnavailable, err)
	}
	return nil
}
