package memory

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// Driver is one client of a [Service], with a link of its own. It implements
// driver.Driver; its other methods are the levers of the link. All methods may
// be called by many goroutines at once.
type Driver struct {
	svc *Service

	// Guarded by svc.mu.
	closed            bool
	requests, replies direction
	stranded          []func()
	calls             map[*call]struct{}
	untold            map[*session]struct{} // those not known to be over
	counts            counts
}

var _ driver.Driver = (*Driver)(nil)

// Importing this package makes its scheme known to coordinator.Open.
func init() {
	coordinator.Register("memory", Open)
}

// Open is the driver.Opener of the scheme "memory": each call makes a driver of
// a new service, which [Driver.Service] returns. The URL is "memory://" and
// nothing else: a host, path or parameter would suggest that two programs can
// meet there.
func Open(u *url.URL) (driver.Driver, error) {
	place := u.Host + strings.TrimPrefix(u.Path, "/") + u.Opaque + u.Fragment
	if u.Scheme != "memory" || place != "" || u.User != nil {
		return nil, invalid("URL names a place; the service lives in this process: want memory://")
	}
	if err := driver.NewParams(u).Err(); err != nil {
		return nil, err
	}
	return NewService().Driver(), nil
}

// Service returns the service that this is a client of.
func (d *Driver) Service() *Service { return d.svc }

// String names the service: "memory://".
func (d *Driver) String() string { return "memory://" }

// Open starts a session. See driver.Driver.
func (d *Driver) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if ttl <= 0 {
		return nil, invalid("ttl %v is not positive", ttl)
	}
	var opened *session
	err := d.do(ctx, Request{Op: OpOpen}, func(c *call) {
		if granted := min(max(ttl, d.svc.minTTL), d.svc.maxTTL); granted != ttl {
			c.reply(invalid("asked for a ttl of %v, the service grants %v", ttl, granted))
			return
		}
		opened = d.svc.open(d, ttl)
		c.reply(nil)
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// Close ends the client: waiting calls get driver.ErrUnavailable, and so does
// every later one. Sessions that were not closed live on at the service until
// their TTL ends, as after the death of a process.
func (d *Driver) Close(context.Context) error {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.closed = true
	d.stranded = nil
	d.requests.drop()
	d.disconnect(errClosed)
	return nil
}
