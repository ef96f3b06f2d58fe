package memory

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// Driver is one client of a [Service], with its own link. It implements
// driver.Driver; its other methods cause faults of the link. It is safe for
// concurrent use.
type Driver struct {
	svc *Service

	// Guarded by svc.mu.
	closed            bool
	requests, replies direction
	stranded          []func()
	calls             map[*call]struct{}
	unnotified        map[*session]struct{} // that the client believes alive
	counts            counts
}

var _ driver.Driver = (*Driver)(nil)

func init() {
	coordinator.Register("memory", Open)
}

// Open is the driver.Opener of the scheme "memory". Each call makes a new
// service, which [Driver.Service] returns. The URL is "memory://": a host, path
// or parameter, which would suggest that programs can share it, is refused.
func Open(u *url.URL) (driver.Driver, error) {
	place := u.Host + strings.TrimPrefix(u.Path, "/") + u.Opaque + u.Fragment
	if u.Scheme != "memory" || place != "" || u.User != nil {
		return nil, invalid("the service is in this process; want memory:// and nothing more")
	}
	if err := driver.NewParams(u).Err(); err != nil {
		return nil, err
	}
	return NewService().Driver(), nil
}

// Service returns the service of this client.
func (d *Driver) Service() *Service { return d.svc }

// String returns "memory://".
func (d *Driver) String() string { return "memory://" }

// Open starts a session. See driver.Driver.
func (d *Driver) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if ttl <= 0 {
		return nil, invalid("ttl %v is not positive", ttl)
	}
	var opened *session
	err := d.do(ctx, Request{Op: OpOpen}, func(c *call) {
		if granted := min(max(ttl, d.svc.minTTL), d.svc.maxTTL); granted != ttl {
			c.reply(invalid("ttl %v; the service grants %v", ttl, granted))
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

// Close ends the client: all calls from now on, and those that wait, return
// driver.ErrUnavailable. Sessions that were not closed end after their TTL, as
// after a crash.
func (d *Driver) Close(context.Context) error {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.closed = true
	d.stranded = nil
	d.requests.drop()
	d.disconnect(errClosed)
	return nil
}
