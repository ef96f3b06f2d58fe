package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

// source is the etcd client of a driver: a given one, which belongs to someone
// else, or one that it makes when the first session needs it. With a user name,
// clientv3.New fetches a token from the service, and a driver is made without
// I/O.
type source struct {
	given *clientv3.Client // nil if the driver makes its client

	cfg    *clientv3.Config
	lock   lock // guards client and closed
	client *clientv3.Client
	closed bool

	// trouble is gRPC's last word on why there is no connection, nil while
	// there is one.
	dialErr atomic.Pointer[string]
}

func newSource(cfg *clientv3.Config) *source {
	d := &source{cfg: cfg, lock: newLock()}
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(d.intercept))
	return d
}

// intercept is a gRPC interceptor for requests, below that of clientv3.
func (d *source) intercept(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if !strings.HasPrefix(method, "/etcdserverpb.Maintenance/") { // which ask about the member itself
		ctx = metadata.AppendToOutgoingContext(ctx,
			rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	d.noteDialError(err)
	return err
}

// note keeps the reason for a missing connection. Requests wait for one, and
// when their context ends the client returns the context's bare error. A user
// who has mistyped a port or trusts the wrong authority would never learn it.
func (d *source) noteDialError(err error) {
	if err == nil {
		d.dialErr.Store(nil)
	} else if _, why, ok := strings.Cut(err.Error(), "latest balancer error: "); ok {
		// The reason exists as gRPC's text only. Should that change, it is
		// missing again.
		why = strings.TrimPrefix(why, "connection error: desc = ")
		d.dialErr.Store(&why)
	}
}

// explain adds to the error of a context why it took so long, if that is known.
func (d *source) explain(err error) error {
	why := d.dialErr.Load()
	var known *driver.Error
	if why == nil || errors.As(err, &known) || errors.Is(err, driver.ErrInvalid) {
		return err
	}
	return driver.Wrap(driver.ErrUnavailable, fmt.Errorf("%w: no connection: %s", err, *why))
}

func (d *source) endpoints() []string {
	if d.given != nil {
		return d.given.Endpoints()
	}
	return slices.Clone(d.cfg.Endpoints)
}

func (d *source) get(ctx context.Context) (*clientv3.Client, error) {
	if d.given != nil {
		return d.given, nil
	}
	if err := d.lock.acquire(ctx); err != nil {
		return nil, err
	}
	defer d.lock.release()
	if d.closed {
		return nil, answer.Invalid("driver is closed")
	}
	if d.client != nil {
		return d.client, nil
	}
	c, err := dial(ctx, *d.cfg)
	if err == nil {
		d.client = c
	}
	return c, err
}

// dial bounds clientv3.New by ctx although the client outlives it. New knows
// only the context of the client's whole life, so that one ends with ctx while
// New is at work, and is let go of afterwards. Running New in a goroutine
// instead would leave it behind for as long as the service is away.
func dial(ctx context.Context, cfg clientv3.Config) (*clientv3.Client, error) {
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
		// ctx ended just now and life with it: the client is of no use.
		end()
		_ = c.Close()
		return nil, context.Cause(ctx)
	}
	return c, nil
}

// close ends the client that the driver made. clientv3's Close takes no
// context; it waits for the client's own goroutines, which end as soon as they
// look.
func (d *source) close(ctx context.Context) error {
	if d.given != nil {
		return nil
	}
	if err := d.lock.acquire(ctx); err != nil {
		return err
	}
	defer d.lock.release()
	c := d.client
	d.client, d.closed = nil, true
	if c == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- c.Close() }()
	select {
	case err := <-done:
		return answer.Wrap(ctx, err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lock is a mutex that can be waited for with a context, and so be held across
// I/O: who waits behind a service that does not answer still ends by its own
// context.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

func (l lock) acquire(ctx context.Context) error {
	select {
	case l <- struct{}{}: // also when ctx has ended: what is local has to be released
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

// lead is the context of a request that a member must refuse at once, with
// ErrNoLeader, if it knows no leader. Without it a write hangs there for the
// server's own timeout of 5 s and more, and a serializable read goes on
// answering from the past; refused, the next attempt goes to another member.
//
// To a client that the driver made intercept adds it: added to what clientv3
// has put there by then it costs less.
func (d *source) lead(ctx context.Context) context.Context {
	if d.given == nil {
		return ctx
	}
	return clientv3.WithRequireLeader(ctx)
}
