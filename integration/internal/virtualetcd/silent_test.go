package virtualetcd_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/semaphore"
)

// requests are calls whose requests meet a silent member. Most of them change
// the service.
var requests = map[string]struct {
	prepare func(*coordinator.Client) (call func(context.Context) error)
	within  time.Duration // longer than chance allows
}{
	"open": {func(b *coordinator.Client) func(context.Context) error {
		return func(ctx context.Context) error { return errOf(b.Session(ctx)) }
	}, 100 * ttl},
	"lock": {func(b *coordinator.Client) func(context.Context) error {
		must(b.Session(context.Background()))
		return func(ctx context.Context) error { return errOf(must(mutex.New(b, "a")).Lock(ctx)) }
	}, 50 * ttl},
	"try": {func(b *coordinator.Client) func(context.Context) error {
		must(b.Session(context.Background()))
		return func(ctx context.Context) error { return errOf(must(mutex.New(b, "a")).TryLock(ctx)) }
	}, 50 * ttl},
	"unlock": {func(b *coordinator.Client) func(context.Context) error {
		return must(must(mutex.New(b, "a")).Lock(context.Background())).Unlock
	}, 50 * ttl},
	"read the leader": {func(b *coordinator.Client) func(context.Context) error {
		e := must(election.New(b, "a"))
		must(e.Campaign(context.Background(), nil))
		must(e.Leader(context.Background())) // from now on it reads the known entry
		return func(ctx context.Context) error { return errOf(e.Leader(ctx)) }
	}, ttl / 2}, // as for close
	"set a limit": {func(b *coordinator.Client) func(context.Context) error {
		must(b.Session(context.Background()))
		return func(ctx context.Context) error { return must(semaphore.New(b, "a", 1)).SetLimit(ctx, 2) }
	}, 50 * ttl},
	"close": {func(b *coordinator.Client) func(context.Context) error {
		must(b.Session(context.Background()))
		return b.Close
	}, ttl / 2}, // an attempt at one member, and one at two
}

// TestRequestsDoNotMeetASilentMemberForEver: requests go to the members in
// turn. Others of the same client come between the attempts so that each of
// them meets the member that answers none.
func TestRequestsDoNotMeetASilentMemberForEver(t *testing.T) {
	for name, test := range requests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c, link := w.client("")
				call := test.prepare(w.baton(c))
				o := w.others(c, link)
				defer o.silent.Heal()
				o.silent.Suffer(virtualetcd.Mute)
				o.aim()
				got := make(chan error, 1)
				go func() { got <- call(w.t.Context()) }()
				time.Sleep(test.within)
				synctest.Wait()
				w.OnRequest(nil)
				select {
				case err := <-got:
					check(w.t, err)
				default:
					w.t.Errorf("not answered after %d attempts at the silent member", o.met)
					o.silent.Heal()
					<-got
				}
			})
		})
	}
}

// others are requests of a client besides those of Baton. They come so that
// Baton's next request goes to the silent member. They do not know of reads
// that only shift the turn.
type others struct {
	*world
	client *clientv3.Client
	link   *virtualetcd.Link
	silent *virtualetcd.Member
	before *virtualetcd.Member // the one before it

	mu      sync.Mutex
	last    *virtualetcd.Member // that has got one of the others
	met     int                 // writes that the silent member has got
	shifted bool                // the turn, since the last write
	aiming  bool
}

func (w *world) others(c *clientv3.Client, link *virtualetcd.Link) *others {
	o := &others{world: w, client: c, link: link, silent: w.Members()[0]}
	w.OnRequest(o.arrives)
	for range 2 * len(w.Members()) {
		before := o.last
		if o.send(); o.last == o.silent {
			o.before = before
		}
	}
	return o
}

func (o *others) send() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, _ = o.client.Get(ctx, "others", clientv3.WithSerializable())
}

// aim sends until the silent member is next.
func (o *others) aim() {
	for range len(o.Members()) {
		o.send()
		o.mu.Lock()
		done := o.last == o.before
		o.mu.Unlock()
		if done {
			break
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.aiming = false
}

func (o *others) arrives(r virtualetcd.Request) virtualetcd.Fate {
	if r.Link != o.link {
		return virtualetcd.Fate{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	read, ok := r.Message.(*pb.RangeRequest)
	switch {
	case ok && string(read.Key) == "others":
		o.last = r.Member
		return virtualetcd.Fate{}
	case ok && read.Serializable && strings.HasSuffix(string(read.Key), "-"):
		o.shifted = true
	case isWrite(r.Message):
		if o.shifted = false; r.Member == o.silent {
			o.met++
		}
	}
	if o.before != nil && !o.shifted && !o.aiming {
		o.aiming = true
		go o.aim()
	}
	return virtualetcd.Fate{}
}

func isWrite(message any) bool {
	switch r := message.(type) {
	case *pb.TxnRequest:
		return slices.ContainsFunc(r.Success, func(op *pb.RequestOp) bool {
			return op.GetRequestRange() == nil
		})
	case *pb.DeleteRangeRequest, *pb.PutRequest, *pb.LeaseGrantRequest, *pb.LeaseRevokeRequest:
		return true
	}
	return false
}

// TestSessionThatNoCallerWaitsForIsEnded: a caller that gives up while its
// session opens leaves none at the service.
func TestSessionThatNoCallerWaitsForIsEnded(t *testing.T) {
	for name, slow := range map[string]func(any) bool{
		"at the grant": func(message any) bool {
			_, ok := message.(*pb.LeaseGrantRequest)
			return ok
		},
		"at the sentinel": func(message any) bool {
			_, ok := message.(*pb.TxnRequest)
			return ok
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c, _ := w.client("")
				b := w.baton(c)
				w.OnRequest(func(r virtualetcd.Request) virtualetcd.Fate {
					if slow(r.Message) {
						return virtualetcd.Fate{DelayReply: 200 * time.Millisecond}
					}
					return virtualetcd.Fate{}
				})
				ctx, cancel := context.WithTimeout(w.t.Context(), 100*time.Millisecond)
				defer cancel()
				began := time.Now()
				if err := errOf(b.Session(ctx)); !errors.Is(err, context.DeadlineExceeded) {
					w.t.Errorf("got %v", err)
				}
				if took := time.Since(began); took != 100*time.Millisecond {
					w.t.Errorf("the call took %v", took)
				}
				time.Sleep(time.Second)
				if n := len(w.Leases()); n > 0 {
					w.t.Errorf("%d leases remain", n)
				}
			})
		})
	}
}

// TestRefusalCountsWhileAMemberIsSilent: of two reads at once, one is refused,
// and the silent member does not answer the other.
func TestRefusalCountsWhileAMemberIsSilent(t *testing.T) {
	inWorld(t, func(w *world) {
		c, link := w.client("")
		b := w.baton(c)
		must(b.Session(w.t.Context()))
		e := must(election.New(b, "a"))
		o := w.others(c, link)
		defer o.silent.Heal()
		o.silent.Suffer(virtualetcd.Mute)
		o.aim()
		_ = errOf(e.Leader(w.t.Context())) // now the session knows of the silence
		o.aim()
		w.OnRequest(func(r virtualetcd.Request) virtualetcd.Fate {
			if txn, ok := r.Message.(*pb.TxnRequest); ok && !isWrite(txn) && r.Member != o.silent {
				return virtualetcd.Fate{Err: virtualetcd.Refused}
			}
			return virtualetcd.Fate{}
		})
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second) // less than an attempt
		defer cancel()
		if err := errOf(e.Leader(ctx)); !errors.Is(err, coordinator.ErrRefused) {
			w.t.Errorf("got %v, want a refusal", err)
		}
		w.OnRequest(nil)
	})
}
