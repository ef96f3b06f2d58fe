package memory

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
)

// Driver is one client of a [Service], with a link of its own. It implements
// driver.Driver; its other methods are the levers of the link. All methods may be called by
// many goroutines at once.
type Driver struct {
	svc *Service

	// Guarded by svc.mu.
	closed            bool
	requests, replies direction
	stranded          []func()
	calls             map[*call]struct{}
	watches           map[*watch]struct{}
	sessions          map[*session]struct{} // those whose end was not told yet
	counts            counts
}

var _ driver.Driver = (*Driver)(nil)

// Open is the driver.Opener of the scheme "memory": each call makes a driver of a new
// service that nobody else shares, which [Driver.Service] returns. The URL is
// "memory://" and nothing else: a host, path or parameter would suggest that two programs can
// meet there, and is refused with driver.ErrInvalid.
func Open(u *url.URL) (driver.Driver, error) {
	switch {
	case u.Scheme != "memory":
		return nil, fmt.Errorf("%w: scheme %q; want memory://", driver.ErrInvalid, u.Scheme)
	case u.Host != "" || u.User != nil:
		return nil, fmt.Errorf("%w: memory URL names a host; the service lives in this process: want memory://",
			driver.ErrInvalid)
	case u.Path != "" && u.Path != "/" || u.Opaque != "":
		return nil, fmt.Errorf("%w: memory URL has a path; the service is private and needs no namespace: want memory://",
			driver.ErrInvalid)
	case u.Fragment != "":
		return nil, fmt.Errorf("%w: memory URL has a fragment: want memory://", driver.ErrInvalid)
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
		return nil, driver.Wrap(driver.ErrInvalid, fmt.Errorf("memory: ttl %v is not positive", ttl))
	}
	var opened *session
	_, err := d.do(ctx, Request{Op: OpOpen}, func(c *call) {
		granted := min(max(ttl, d.svc.minTTL), d.svc.maxTTL)
		if granted != ttl {
			c.reply(driver.Wrap(driver.ErrInvalid,
				fmt.Errorf("memory: asked for a ttl of %v, the service grants %v", ttl, granted)))
			return
		}
		opened = newSession(d, d.svc.open(ttl))
		d.sessions[opened] = struct{}{}
		c.reply(nil)
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// Close ends the client: waiting calls get driver.ErrUnavailable, and so does every later
// one. What is under way is lost. It never waits. Sessions that were not
// closed live on at the service until their ttl, as after the death of a process.
func (d *Driver) Close(context.Context) error {
	d.svc.mu.Lock()
	defer d.svc.mu.Unlock()
	d.closed = true
	d.stranded = nil
	d.requests.drop()
	d.disconnect(errClosed)
	return nil
}

// Importing this package makes its schemes known to coordinator.Open.
func init() {
	coordinator.Register("memory", Open)
}

// Check looks for one entry. Its key has been used for no other, so the token
// is compared for the caller's sake: one that is wrong was forged.
func (s *session) Check(ctx context.Context, queue driver.Queue, key string, token driver.Token) error {
	_, err := s.do(ctx, Request{Op: OpCheck, Queue: queue}, func(*call) error {
		if e := s.driver.svc.find(queue, driver.Place{Key: key}); e == nil || e.Token != token {
			return driver.Wrap(driver.ErrGone, errNoEntry)
		}
		return nil
	})
	return err
}
