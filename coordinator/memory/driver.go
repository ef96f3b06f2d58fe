package memory

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// Driver is one client of a [Service], with its own link. It implements
// driver.Driver; its other methods cause faults of the link. It is safe for
// concurrent use.
type Driver struct {
	svc  *Service
	name string // of the URL

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

// named has the service of each name in a URL. It is never emptied: a service
// without clients keeps its tokens, as a server does.
var named sync.Map

// Open is the driver.Opener of the scheme "memory". "memory:///NAME" is one
// service per process and name: its clients exclude each other. Each Open of
// "memory://" makes a new service, which excludes no other client. In both
// cases [Driver.Service] returns the service. A host or a parameter, which
// would suggest that processes can share it, is refused.
//
// In a bubble of testing/synctest use a new service: a named one can outlive
// the bubble, and its timers belong to it.
func Open(u *url.URL) (driver.Driver, error) {
	if u.Scheme != "memory" || u.Host+u.Opaque+u.Fragment != "" || u.User != nil {
		return nil, invalid("the service is in this process; want memory:// or memory:///NAME")
	}
	if err := driver.NewParams(u).Err(); err != nil {
		return nil, err
	}
	name, err := driver.Namespace(u.Path)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return NewService().Driver(), nil
	}
	svc, found := named.Load(name)
	if !found {
		svc, _ = named.LoadOrStore(name, NewService())
	}
	d := svc.(*Service).Driver()
	d.name = name
	return d, nil
}

// Service returns the service of this client.
func (d *Driver) Service() *Service { return d.svc }

// String returns "memory://", or "memory:///NAME".
func (d *Driver) String() string {
	if d.name == "" {
		return "memory://"
	}
	return "memory:///" + d.name
}

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
