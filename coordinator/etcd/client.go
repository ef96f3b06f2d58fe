package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
	"github.com/baton-go/baton/coordinator/etcd/internal/lease"
	"github.com/baton-go/baton/internal/dial"
	"github.com/baton-go/baton/internal/hint"
)

// source is the etcd client of a driver: a given one, which the caller owns, or
// one made when the first session needs it. With a user name, clientv3.New
// fetches a token from the service, and a driver is made without I/O.
type source struct {
	given *clientv3.Client // nil if the driver makes its client

	cfg      *clientv3.Config
	dialer   dial.Dialer
	lock     lock // guards client, closed and the making of renewals
	client   *clientv3.Client
	closed   bool
	renewals *renewals // nil without a client, or if that has no connection

	late tasks // see lease.Conn's Go

	// dialErr is gRPC's latest reason for a missing connection, or nil.
	dialErr atomic.Pointer[string]
}

// newGiven returns the source of a given client. A client without a connection
// is one of a test, with methods of its own.
func newGiven(c *clientv3.Client) *source {
	d := &source{given: c, lock: newLock()}
	if c.ActiveConnection() != nil {
		d.renewals = newRenewals(d, c)
	}
	return d
}

func newSource(cfg *clientv3.Config) *source {
	d := &source{cfg: cfg, lock: newLock()}
	cfg.DialOptions = append(cfg.DialOptions,
		grpc.WithContextDialer(d.dialer.TCP), grpc.WithChainUnaryInterceptor(d.intercept))
	return d
}

var mostReply = grpc.MaxCallRecvMsgSize(lease.MaxReply)

// intercept is a gRPC interceptor for requests, below that of clientv3.
func (d *source) intercept(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if !strings.HasPrefix(method, "/etcdserverpb.Maintenance/") { // they ask about the member itself
		ctx = metadata.AppendToOutgoingContext(ctx,
			rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	}
	err := invoke(ctx, method, req, reply, cc, append(opts, mostReply)...) // the last one counts
	d.noteDialError(err)
	return err
}

// noteDialError keeps the reason for a missing connection. Requests wait for a
// connection, and when their context ends the client returns only the context's
// error. It would never show a mistyped port or a wrong authority.
func (d *source) noteDialError(err error) {
	if err == nil {
		d.dialErr.Store(nil)
	} else if _, why, ok := strings.Cut(err.Error(), "connection error: desc = "); ok {
		// The reason exists as gRPC's text only. If that changes, it is lost.
		why, _, _ = strings.Cut(why, ". If you upgraded ") // which gRPC tells its users
		why = strings.Trim(strings.NewReplacer("transport: ", "",
			"Error while dialing: ", "").Replace(why), `"`)
		d.dialErr.Store(&why)
	}
}

// explain adds the reason for a missing connection to the error of a context.
func (d *source) explain(err error) error {
	why := d.dialErr.Load()
	var known *driver.Error
	if why == nil || errors.As(err, &known) || errors.Is(err, driver.ErrInvalid) {
		return err
	}
	return driver.Wrap(driver.ErrUnavailable, fmt.Errorf("%w: %w", err, hint.On(errors.New(*why),
		"server preface", "no etcd answers there: it hangs, or use etcds:// for TLS, zk:// for ZooKeeper",
		"selected ALPN", "no etcd answers there; use zks:// for ZooKeeper")))
}

func (d *source) endpoints() []string {
	if d.given != nil {
		return d.given.Endpoints()
	}
	return slices.Clone(d.cfg.Endpoints)
}

var errDriverClosed = answer.Invalid("driver is closed")

func (d *source) get(ctx context.Context) (*clientv3.Client, error) {
	if err := d.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer d.lock.release()
	switch {
	case d.closed:
		return nil, errDriverClosed
	case d.given != nil:
		return d.given, lease.Conn{Client: d.given}.Closed()
	case d.client != nil:
		return d.client, nil
	}
	c, err := newClient(ctx, *d.cfg)
	if err == nil {
		d.client, d.renewals = c, newRenewals(d, c)
	}
	return c, err
}

// newClient bounds clientv3.New by ctx although the client outlives it. New
// takes only the context of the client's whole life. So that context ends with
// ctx while New runs, and is independent afterwards. Running New in a goroutine
// instead would leave it behind while the service is away.
func newClient(ctx context.Context, cfg clientv3.Config) (*clientv3.Client, error) {
	life, end := context.WithCancel(context.Background())
	cfg.Context = life
	stop := context.AfterFunc(ctx, end)
	c, err := clientv3.New(cfg)
	if err != nil {
		stop()
		end()
		return nil, answer.Wrap(ctx, err)
	}
	if !stop() {
		// ctx has just ended, and life with it: the client is unusable.
		end()
		_ = c.Close()
		return nil, context.Cause(ctx)
	}
	return c, nil
}

// close closes the client that the driver made, after what goes on without a
// caller. clientv3's Close takes no context; it waits for the client's own
// goroutines. Both end soon.
func (d *source) close(ctx context.Context) error {
	if err := d.lock.acquire(ctx); err != nil {
		return err
	}
	defer d.lock.release()
	if d.renewals != nil {
		d.renewals.close()
	}
	d.dialer.Names.Close()
	c := d.client
	d.client, d.closed = nil, true
	done := make(chan error, 1)
	go func() {
		if d.late.end(); c == nil {
			done <- nil
			return
		}
		done <- c.Close()
	}()
	select {
	case err := <-done:
		return answer.Wrap(ctx, err)
	case <-ctx.Done():
		if c == nil {
			return nil
		}
		return context.Cause(ctx)
	}
}

// tasks are functions that go on without a caller.
type tasks struct {
	mu    sync.Mutex
	ended bool
	all   sync.WaitGroup
}

// start calls f in a goroutine, unless end was called.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended { // else end may wait, and Add must not race with Wait
		t.all.Go(f)
	}
	return !t.ended
}

// end waits for all tasks.
func (t *tasks) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.all.Wait()
}

// lock is a mutex whose acquire takes a context. So it can be held across I/O:
// a waiter behind a silent service ends by its own context.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) acquire(ctx context.Context) error {
	select {
	case l <- struct{}{}: // even with a dead ctx: local resources must be released
		return nil
	default:
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l lock) release() { <-l }

// keepAlive is lease.Conn's KeepAlive with c, which get has returned.
func (d *source) keepAlive(
	c *clientv3.Client,
) func(context.Context, ...clientv3.LeaseID) (lease.Kept, error) {
	if d.renewals != nil {
		return d.renewals.keepAlive
	}
	return func(ctx context.Context, ids ...clientv3.LeaseID) (all lease.Kept, err error) {
		for _, id := range ids {
			resp, err := c.KeepAliveOnce(ctx, id)
			switch {
			case err == nil:
				all.Add(resp.ResponseHeader, id, resp.TTL)
			case answer.Is(err, rpctypes.ErrLeaseNotFound):
				all.Missing = append(all.Missing, id)
			default:
				return lease.Kept{}, err
			}
		}
		return all, nil
	}
}

// lead is the context of a request that a member without a leader must refuse
// at once, with ErrNoLeader. Without it a write blocks there for the server's
// own timeout of 5 s and more, and a serializable read still returns old data.
// After the refusal the next attempt goes to another member.
//
// On a client made by the driver, intercept adds the metadata: after clientv3's
// own this costs less.
func (d *source) lead(ctx context.Context) context.Context {
	if d.given == nil {
		return ctx
	}
	return clientv3.WithRequireLeader(ctx)
}
