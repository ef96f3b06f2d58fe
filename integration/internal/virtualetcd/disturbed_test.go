package virtualetcd_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
	"github.com/baton-go/baton/mutex"
)

// Three clients lock, try and give up, several contenders each, while requests
// and replies are lost, and applied late. In layout concurrency clients of that
// package do the same. No two hold at once, tokens rise, and after the faults
// all is served and nothing is left.
func TestMutexesExcludeEachOtherWhileRequestsAreLostOrLate(t *testing.T) {
	for _, layout := range []string{etcd.Native, etcd.Concurrency} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s %d", layout, seed), func(t *testing.T) {
				inWorld(t, func(w *world) {
					d := &disturbed{world: w, layout: layout, rng: rand.New(rand.NewPCG(seed, 0)),
						held: map[string]*mutex.Lock{}, tokens: map[string]coordinator.Token{}}
					d.run()
				})
			})
		}
	}
}

var names = []string{"a", "b"}

type disturbed struct {
	*world
	layout string
	faults atomic.Bool

	mu     sync.Mutex
	rng    *rand.Rand
	held   map[string]*mutex.Lock // the last grant of a name
	tokens map[string]coordinator.Token
	grants int
}

func (d *disturbed) run() {
	ctx, stop := context.WithCancel(d.t.Context())
	var all sync.WaitGroup
	disturbed := map[*virtualetcd.Link]bool{}
	for range 3 {
		c, l := d.client("")
		c.SetEndpoints(c.Endpoints()[:1+d.below(3)]...)
		disturbed[l] = true
		b := d.baton(c, etcd.Layout(d.layout))
		for range 1 + d.below(3) {
			all.Go(func() { d.contend(ctx, b) })
		}
	}
	admin, _ := d.client("")
	d.OnRequest(func(r virtualetcd.Request) virtualetcd.Fate {
		if !disturbed[r.Link] {
			return virtualetcd.Fate{}
		}
		return d.disturb(r.Message)
	})
	if d.layout == etcd.Concurrency {
		all.Go(func() { d.contendAsAnother(ctx, admin) })
	}
	d.faults.Store(true)
	for range 60 {
		time.Sleep(d.upTo(2 * time.Second))
		if d.below(8) == 0 {
			_ = d.Compact() // unless nothing was written since
		}
	}
	d.faults.Store(false)
	time.Sleep(ttl)
	before := d.granted()
	time.Sleep(ttl)
	if after := d.granted(); after == before {
		d.t.Errorf("%d grants with faults, and none after them", before)
	}
	stop()
	all.Wait()
	time.Sleep(2 * time.Second)
	for _, prefix := range []string{"x/./mutex/", "x/a/", "x/b/"} {
		for _, kv := range must(admin.Get(d.t.Context(), prefix, clientv3.WithPrefix())).Kvs {
			if key := string(kv.Key); !strings.HasSuffix(key, "~") { // no marker of a handoff
				d.t.Errorf("left: %s", key)
			}
		}
	}
}

// below is a random number below n.
func (d *disturbed) below(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

func (d *disturbed) upTo(most time.Duration) time.Duration {
	return time.Duration(d.below(int(most)))
}

// disturb loses or delays one of some twenty requests.
func (d *disturbed) disturb(req any) virtualetcd.Fate {
	f := virtualetcd.Fate{DelayRequest: d.upTo(3 * time.Millisecond)}
	switch req.(type) {
	case *pb.StatusRequest, *pb.LeaseKeepAliveRequest, *pb.WatchCreateRequest:
		return virtualetcd.Fate{}
	}
	if !d.faults.Load() {
		return f
	}
	switch d.below(100) {
	case 0:
		f.Err = status.Error(codes.Unavailable, "the request is lost")
	case 1:
		f.DropReply = true
	case 2:
		f.DelayRequest = d.upTo(4 * time.Second)
	case 3: // it is applied after its call has returned
		f.DelayRequest, f.DropReply = d.upTo(6*time.Second), true
	case 4: // its reply is later than the call waits
		f.DelayReply = 30 * time.Second
	}
	return f
}

func (d *disturbed) contend(ctx context.Context, b *coordinator.Client) {
	for ctx.Err() == nil {
		name := names[d.below(len(names))]
		m := must(mutex.New(b, name))
		lock := m.Lock
		if d.below(3) == 0 {
			lock = m.TryLock
		}
		within, cancel := context.WithTimeout(ctx, d.upTo(8*time.Second))
		l, err := lock(within)
		cancel()
		if err != nil {
			time.Sleep(d.upTo(100 * time.Millisecond))
			continue
		}
		d.admit(name, l)
		time.Sleep(d.upTo(600 * time.Millisecond))
		within, cancel = context.WithTimeout(d.t.Context(), d.upTo(3*time.Second))
		_ = l.Unlock(within) // goes on in the background
		cancel()
	}
}

// admit checks a grant against the one before.
func (d *disturbed) admit(name string, l *mutex.Lock) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.grants++
	if other := d.held[name]; other != nil && other.Err() == nil && l.Err() == nil {
		d.t.Errorf("%s: token %d holds beside token %d", name, l.Token(), other.Token())
	}
	if l.Token() <= d.tokens[name] && l.Err() == nil {
		d.t.Errorf("%s: token %d after %d", name, l.Token(), d.tokens[name])
	}
	d.held[name], d.tokens[name] = l, max(l.Token(), d.tokens[name])
}

func (d *disturbed) granted() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.grants
}

// contendAsAnother is a client of package concurrency.
func (d *disturbed) contendAsAnother(ctx context.Context, c *clientv3.Client) {
	for ctx.Err() == nil {
		s := must(concurrency.NewSession(c, concurrency.WithTTL(int(ttl/time.Second))))
		name := names[d.below(len(names))]
		m := concurrency.NewMutex(s, "x/"+name)
		if within, cancel := context.WithTimeout(ctx, ttl/2); m.Lock(within) == nil {
			d.mu.Lock()
			if other := d.held[name]; other != nil && other.Err() == nil {
				d.t.Errorf("%s: another client holds beside token %d", name, other.Token())
			}
			d.mu.Unlock()
			time.Sleep(d.upTo(300 * time.Millisecond))
			check(d.t, m.Unlock(d.t.Context()))
			cancel()
		} else {
			cancel()
		}
		check(d.t, s.Close())
	}
}
