package virtualetcd_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/baton-go/baton/integration/internal/virtualetcd"
)

// put is a put under way.
func put(c *clientv3.Client, key string, within time.Duration) chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		done <- errOf(c.Put(ctx, key, "v"))
	}()
	return done
}

func (w *world) keys() (all []string) {
	for _, kv := range w.Keys("k") {
		all = append(all, string(kv.Key))
	}
	return all
}

func (w *world) has(when string, want ...string) {
	w.t.Helper()
	if got := w.keys(); !slices.Equal(got, want) {
		w.t.Errorf("%s: keys %q, want %q", when, got, want)
	}
}

// connected is a client that has a connection to each member.
func (w *world) connected() (*clientv3.Client, *virtualetcd.Link) {
	c, l := w.client("")
	for range 3 * len(w.Members()) {
		must(c.Get(w.t.Context(), "k"))
	}
	return c, l
}

func TestHeldRequestArrivesLateAndInOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		c, l := w.connected()
		for what, hold := range map[string]func(){"cut": l.Cut, "requests held": l.HoldRequests} {
			hold()
			first := put(c, "k-"+what, time.Second)
			time.Sleep(5 * time.Second)
			w.has(what)
			if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
				w.t.Errorf("%s: %v", what, err)
			}
			l.Heal()
			time.Sleep(time.Second)
			w.has("healed", "k-"+what)
			must(c.Delete(w.t.Context(), "k-"+what))
		}
	})
}

func TestRequestIsAppliedWhileRepliesAreHeld(t *testing.T) {
	inWorld(t, func(w *world) {
		c, l := w.connected()
		l.HoldReplies()
		done := put(c, "k1", time.Minute)
		time.Sleep(time.Second)
		w.has("held", "k1")
		if len(done) > 0 {
			w.t.Error("the call has returned")
		}
		l.Heal()
		check(w.t, <-done)
	})
}

// The client notices both. What Reset loses, Strand keeps for Deliver.
func TestHeldRequestIsLostByResetAndArrivesLateAfterStrand(t *testing.T) {
	for _, c := range []struct {
		what        string
		hold, sever func(*virtualetcd.Link)
		delivered   []string
	}{
		{"reset", (*virtualetcd.Link).HoldRequests, func(l *virtualetcd.Link) { l.Reset(); l.Heal() }, []string{"k2"}},
		{"stranded", (*virtualetcd.Link).Cut, (*virtualetcd.Link).Strand, []string{"k1", "k2"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				client, l := w.connected()
				c.hold(l)
				done := put(client, "k1", time.Minute)
				time.Sleep(time.Second)
				c.sever(l)
				if err := <-done; err == nil || l.Stranded() != (len(c.delivered) > 1) {
					w.t.Errorf("%v; stranded: %t", err, l.Stranded())
				}
				time.Sleep(time.Second) // until the client has new connections
				must(client.Put(w.t.Context(), "k2", "v"))
				w.has(c.what, "k2")
				l.Deliver()
				time.Sleep(time.Second)
				w.has(c.what+" and delivered", c.delivered...)
			})
		})
	}
}

func TestDelaysAddUp(t *testing.T) {
	inWorld(t, func(w *world) {
		c, l := w.connected()
		l.Delay(time.Second, 2*time.Second)
		began := time.Now()
		must(c.Put(w.t.Context(), "k1", "v"))
		if took := time.Since(began); took < 3*time.Second || took > 3100*time.Millisecond {
			w.t.Errorf("took %v", took)
		}
	})
}

func TestLeaseEndsByTheClockAndByARestartOnlyLater(t *testing.T) {
	inWorld(t, func(w *world) {
		var left []string
		w.OnChange(func(changes []virtualetcd.Change) {
			for _, c := range changes {
				if c.After == nil && c.Before != nil && c.Before.Lease != 0 {
					left = append(left, c.Key)
				}
			}
		})
		c, _ := w.connected()
		lease := must(c.Grant(w.t.Context(), 10)).ID
		must(c.Put(w.t.Context(), "k1", "v", clientv3.WithLease(lease)))
		time.Sleep(8 * time.Second)
		w.Stop()
		time.Sleep(8 * time.Second)
		check(w.t, w.Start())
		time.Sleep(8 * time.Second)
		w.has("restarted, with a full TTL", "k1")
		must(c.Put(w.t.Context(), "k2", "v"))
		time.Sleep(4 * time.Second)
		w.has("expired", "k2")
		if !slices.Equal(left, []string{"k1"}) || len(w.Leases()) > 0 {
			w.t.Errorf("left %q, leases %d", left, w.Leases())
		}
	})
}

// at sends requests to one member.
func (w *world) at(m *virtualetcd.Member) *clientv3.Client {
	c, _ := w.client("")
	c.SetEndpoints(c.Endpoints()[m.Index()])
	must(c.Get(w.t.Context(), "k"))
	return c
}

func TestMemberThatLagsShowsThePast(t *testing.T) {
	inWorld(t, func(w *world) {
		late, healthy := w.Members()[0], w.at(w.Members()[1])
		c := w.at(late)
		before := must(c.Put(w.t.Context(), "k1", "v")).Header
		events := c.Watch(w.t.Context(), "k2", clientv3.WithCreatedNotify())
		<-events
		late.Suffer(virtualetcd.Lagging)
		must(healthy.Put(w.t.Context(), "k2", "v"))
		old := must(c.Get(w.t.Context(), "k2", clientv3.WithSerializable()))
		if len(old.Kvs) > 0 || old.Header.Revision != before.Revision || old.Header.MemberId != before.MemberId {
			w.t.Errorf("read %v", old)
		}
		created := <-c.Watch(w.t.Context(), "k2", clientv3.WithCreatedNotify())
		if created.Header.Revision != before.Revision {
			w.t.Errorf("a new watch shows %d, want %d", created.Header.Revision, before.Revision)
		}
		quorum := make(chan int, 1)
		go func() { quorum <- len(must(c.Get(context.Background(), "k2")).Kvs) }()
		write := make(chan int64, 1)
		go func() { write <- must(c.Put(context.Background(), "k3", "v")).Header.Revision }()
		time.Sleep(time.Second)
		w.has("lags", "k1", "k2", "k3")
		if len(events)+len(quorum)+len(write) > 0 {
			w.t.Error("it has shown what it has not applied")
		}
		late.Heal()
		if rev := <-write; rev != before.Revision+2 {
			w.t.Errorf("the write shows revision %d", rev)
		}
		if n, ev := <-quorum, <-events; n != 1 || len(ev.Events) != 1 {
			w.t.Errorf("%d keys, event %v", n, ev)
		}
	})
}

func TestMemberThatStallsAppliesLate(t *testing.T) {
	inWorld(t, func(w *world) {
		m := w.Members()[0]
		c := w.at(m)
		lease := must(c.Grant(w.t.Context(), 10)).ID
		m.Suffer(virtualetcd.Stalled)
		lost := put(c, "k0", time.Minute)
		for range 5 { // longer than the TTL
			time.Sleep(5 * time.Second)
			must(c.KeepAliveOnce(w.t.Context(), lease))
		}
		if err := <-lost; !errors.Is(err, rpctypes.ErrTimeout) {
			w.t.Errorf("%v", err)
		}
		<-put(c, "k1", time.Second)
		w.has("stalled")
		m.Heal()
		time.Sleep(time.Second)
		w.has("healed", "k1")
	})
}

func TestMuteMemberAnswersNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		m := w.Members()[0]
		c := w.at(m)
		m.Suffer(virtualetcd.Mute)
		write := put(c, "k1", time.Minute)
		_, err := c.Get(within(time.Second), "k", clientv3.WithSerializable())
		if !errors.Is(err, context.DeadlineExceeded) || len(write) > 0 {
			w.t.Errorf("%v", err)
		}
		w.has("mute")
		m.Heal()
		check(w.t, <-write)
	})
}

func within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// kept renews a lease, and returns the TTL and the term that the member shows.
func (w *world) kept(c *clientv3.Client, lease clientv3.LeaseID) (ttl int64, term uint64) {
	s := must(pb.NewLeaseClient(c.ActiveConnection()).LeaseKeepAlive(w.t.Context(), grpc.WaitForReady(true)))
	check(w.t, s.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease)}))
	resp := must(s.Recv())
	return resp.TTL, resp.Header.RaftTerm
}

func TestDeposedLeaderAcknowledgesWhatDoesNotCount(t *testing.T) {
	inWorld(t, func(w *world) {
		m := w.Members()[0]
		c, healthy := w.at(m), w.at(w.Members()[1])
		lease := must(healthy.Grant(w.t.Context(), 10)).ID
		_, term := w.kept(c, lease)
		m.Suffer(virtualetcd.Deposed)
		for range 3 {
			time.Sleep(3 * time.Second)
			if ttl, shown := w.kept(c, lease); ttl != 10 || shown != term {
				w.t.Errorf("TTL %d in term %d, want 10 in term %d", ttl, shown, term)
			}
		}
		if _, shown := w.kept(healthy, 1); shown <= term {
			w.t.Errorf("the others show term %d", shown)
		}
		time.Sleep(3 * time.Second)
		if n := len(w.Leases()); n > 0 {
			w.t.Errorf("%d leases live", n)
		}
		if ttl, _ := w.kept(c, lease); ttl != 10 {
			w.t.Errorf("it has learned that the lease is over: %d", ttl)
		}
		m.Heal()
		if ttl, shown := w.kept(c, lease); ttl > 0 || shown <= term {
			w.t.Errorf("healed: TTL %d in term %d", ttl, shown)
		}
	})
}

func TestRequestsMeetTheirFates(t *testing.T) {
	inWorld(t, func(w *world) {
		c, _ := w.connected()
		fates := map[string]virtualetcd.Fate{
			"k1": {DropRequest: true}, "k2": {DropReply: true}, "k3": {DelayRequest: 3 * time.Second},
			"k4": {DelayReply: 3 * time.Second}, "k5": {Err: virtualetcd.Refused},
		}
		w.OnRequest(func(r virtualetcd.Request) virtualetcd.Fate {
			if p, ok := r.Message.(*pb.PutRequest); ok {
				return fates[string(p.Key)]
			}
			return virtualetcd.Fate{}
		})
		got := map[string]string{}
		for i := range 5 {
			key := fmt.Sprint("k", i+1)
			switch err := <-put(c, key, 2*time.Second); {
			case errors.Is(err, context.DeadlineExceeded):
				got[key] = "late"
			case errors.Is(err, rpctypes.ErrPermissionDenied):
				got[key] = "refused"
			case err != nil:
				got[key] = "broken"
			}
		}
		if fmt.Sprint(got) != "map[k1:broken k2:broken k3:late k4:late k5:refused]" {
			w.t.Errorf("%v", got)
		}
		time.Sleep(2 * time.Second)
		w.has("in the end", "k2", "k3", "k4")
	})
}

func TestOperatorsLevers(t *testing.T) {
	inWorld(t, func(w *world) {
		c, _ := w.connected()
		w.GrantTTL(4)
		if got := must(c.Grant(w.t.Context(), 10)).TTL; got != 4 {
			w.t.Errorf("granted %d", got)
		}
		check(w.t, w.SetNoSpace(true))
		if err := <-put(c, "k1", time.Second); !errors.Is(err, rpctypes.ErrNoSpace) {
			w.t.Errorf("%v", err)
		}
		check(w.t, w.SetNoSpace(false))
		rev := must(c.Put(w.t.Context(), "k1", "v")).Header.Revision
		must(c.Put(w.t.Context(), "k1", "v"))
		check(w.t, w.Compact())
		if _, err := c.Get(w.t.Context(), "k1", clientv3.WithRev(rev)); !errors.Is(err, rpctypes.ErrCompacted) {
			w.t.Errorf("%v", err)
		}
		watching, cancel := context.WithCancel(w.t.Context())
		<-c.Watch(watching, "k1", clientv3.WithCreatedNotify())
		if n := len(w.Watches()); n != 1 {
			w.t.Errorf("%d watches", n)
		}
		cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(w.Watches()); n != 0 {
			w.t.Errorf("%d watches are left", n)
		}
	})
}
