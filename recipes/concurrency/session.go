package concurrency

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	v3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd"
)

// defaultTTL is that of etcd's package, in seconds.
const defaultTTL = 60

// Session is a lease that is renewed until Close or Orphan. It is safe for
// concurrent use.
type Session struct {
	client  *v3.Client
	baton   *coordinator.Client
	session *coordinator.Session
	lease   v3.LeaseID
	opts    sessionOptions

	ctx      context.Context
	cancel   context.CancelFunc
	opened   atomic.Bool
	orphaned atomic.Bool
}

type sessionOptions struct {
	ttl   int
	lease v3.LeaseID
	ctx   context.Context
}

// SessionOption configures a Session.
type SessionOption func(*sessionOptions)

// WithTTL sets the TTL in seconds. The default, also for less than 1, is 60.
func WithTTL(ttl int) SessionOption {
	return func(o *sessionOptions) {
		if ttl > 0 {
			o.ttl = ttl
		}
	}
}

// WithLease makes NewSession return an error, since Baton grants the lease of a
// session. It exists so that code that uses it compiles.
func WithLease(lease v3.LeaseID) SessionOption {
	return func(o *sessionOptions) { o.lease = lease }
}

// WithContext sets the context of NewSession and Close, by default the
// client's. When it ends, the session is orphaned.
func WithContext(ctx context.Context) SessionOption {
	return func(o *sessionOptions) { o.ctx = ctx }
}

// NewSession grants a lease and renews it. On failure nothing is left behind
// for longer than the TTL.
func NewSession(client *v3.Client, opts ...SessionOption) (*Session, error) {
	if client == nil {
		return nil, fmt.Errorf("baton: %w: nil client", coordinator.ErrInvalid)
	}
	o := sessionOptions{ttl: defaultTTL, ctx: client.Ctx()}
	for _, opt := range opts {
		opt(&o)
	}
	if o.lease != v3.NoLease {
		return nil, fmt.Errorf("baton: %w: a session keeps a lease of its own;"+
			" WithLease is for etcd's package", coordinator.ErrInvalid)
	}
	d, err := etcd.FromClient(client, etcd.Layout(etcd.Concurrency))
	if err != nil {
		return nil, err
	}
	s := &Session{client: client, opts: o}
	s.baton, err = coordinator.New(keeper{d.(driver.Sharer), s},
		coordinator.WithTTL(time.Duration(o.ttl)*time.Second))
	if err != nil {
		return nil, err
	}
	if s.session, err = s.baton.Session(o.ctx); err != nil {
		_ = s.baton.Close(o.ctx)
		return nil, err
	}
	s.opened.Store(true)
	id, _ := strconv.ParseUint(s.session.ID(), 16, 64) // the driver wrote it
	s.lease = v3.LeaseID(id)
	s.ctx, s.cancel = context.WithCancel(o.ctx)
	unhook := context.AfterFunc(o.ctx, s.Orphan)
	context.AfterFunc(s.session.Context(), func() {
		unhook()
		s.cancel()
	})
	return s, nil
}

// Client returns the etcd client of the session.
func (s *Session) Client() *v3.Client { return s.client }

// Lease returns the lease of the session.
func (s *Session) Lease() v3.LeaseID { return s.lease }

// Ctx returns a context that ends when the session is lost, closed or orphaned.
// Until then its holds exclude all others.
func (s *Session) Ctx() context.Context { return s.ctx }

// Done is closed when the session ends.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// Orphan ends the session in this process. The lease and its keys stay until
// the TTL passes.
func (s *Session) Orphan() {
	s.orphaned.Store(true)
	_ = s.close(context.Background())
}

// Close ends the session and revokes its lease. It waits for at most the TTL.
func (s *Session) Close() error {
	ctx, cancel := context.WithTimeout(s.opts.ctx, time.Duration(s.opts.ttl)*time.Second)
	defer cancel()
	return s.close(ctx)
}

func (s *Session) close(ctx context.Context) error {
	s.cancel()
	return s.baton.Close(ctx)
}

// keeper is the driver of the session. It opens no other after its end, which
// nobody would close. Close does not revoke the lease of an orphaned session.
type keeper struct {
	driver.Sharer
	owner *Session
}

var errEnded = driver.Wrap(driver.ErrSessionLost, errors.New("the session has ended"))

// Open opens the session.
func (k keeper) Open(ctx context.Context, ttl time.Duration) (driver.Session, error) {
	if k.owner.opened.Load() {
		return nil, errEnded
	}
	s, err := k.Sharer.Open(ctx, ttl)
	if err != nil {
		return nil, err
	}
	return kept{s, k.owner}, nil
}

type kept struct {
	driver.Session
	owner *Session
}

// Close ends the session. If it is orphaned, Close sends nothing.
func (s kept) Close(ctx context.Context) error {
	if !s.owner.orphaned.Load() {
		return s.Session.Close(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	_ = s.Session.Close(ctx) // the error is only that of ctx
	return nil
}
