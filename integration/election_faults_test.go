package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdserver"
	"github.com/baton-go/baton/integration/internal/servers"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

// While the observer is cut off, the leader proclaims, resigns and is
// succeeded, and etcd compacts those revisions.
func TestObserverSurvivesReconnectAndCompaction(t *testing.T) {
	each(t, func(t *testing.T, s site) {
		ctx, name := await.Context(t), servers.Name(t)
		far := s.link(t, 30*time.Second)
		leader := newElection(t, s.client(t, 30*time.Second), name)
		term, err := leader.Campaign(ctx, []byte("first"))
		if err != nil {
			t.Fatal(err)
		}
		seen := make(chan string, 100)
		go func() {
			defer close(seen)
			for l, err := range newElection(t, far.Client, name).Observe(ctx) {
				if err != nil {
					return
				}
				seen <- string(l.Payload)
			}
		}()
		sees := func(want string) {
			t.Helper()
			for last := ""; ; {
				if last = await.Receive(t, fmt.Sprintf("the observer to see %q after %q", want, last), seen); last == want {
					return
				}
			}
		}
		sees("first")
		far.proxy.Refuse()
		far.proxy.Reset()
		for i := range 5 {
			if err := term.Proclaim(ctx, fmt.Appendf(nil, "proclaimed %d", i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := term.Resign(ctx); err != nil {
			t.Fatal(err)
		}
		if term, err = leader.Campaign(ctx, []byte("second")); err != nil {
			t.Fatal(err)
		}
		if s.service == "etcd" {
			raw := s.etcdClient(t)
			resp, err := raw.Put(ctx, "noise", "")
			if err == nil {
				_, err = raw.Compact(ctx, resp.Header.Revision)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := far.proxy.Admit(); err != nil {
			t.Fatal(err)
		}
		sees("second")
		if err := term.Proclaim(ctx, []byte("third")); err != nil {
			t.Fatal(err)
		}
		sees("third")
	})
}

// The session does not survive the outage. Run leads again in a new term, after
// the work of the last term has ended.
func TestRunLeadsAgainAfterAnOutage(t *testing.T) {
	const ttl = 4 * time.Second
	type node interface {
		Kill()
		Restart(context.Context) error
	}
	run := func(t *testing.T, s site, n node) {
		ctx, stop := context.WithCancel(await.Context(t))
		e := newElection(t, s.client(t, ttl), servers.Name(t))
		terms, lost := make(chan *election.Term, 10), make(chan error, 10)
		ended := make(chan error, 1)
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context, t *election.Term) error {
				terms <- t
				<-ctx.Done()
				lost <- context.Cause(ctx)
				return nil
			})
		}()
		first := <-terms
		n.Kill()
		if err := <-lost; !errors.Is(err, coordinator.ErrSessionLost) {
			t.Errorf("the work got %v", err)
		}
		await.For(t.Context(), ttl/2) // the server stays away
		if err := n.Restart(await.Context(t)); err != nil {
			t.Fatal(err)
		}
		second := await.Receive(t, "Run to lead again", terms)
		if second.Token() <= first.Token() || first.Err() == nil {
			t.Errorf("token %d after %d, whose term is over: %v", second.Token(), first.Token(), first.Err())
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v", err)
		}
	}
	t.Run("etcd", func(t *testing.T) {
		cluster := servers.NewEtcd(t, etcdserver.Options{Nodes: 1})
		run(t, site{"etcd", cluster.Endpoints()}, cluster.Node(0))
	})
	t.Run("zookeeper", func(t *testing.T) {
		cluster := servers.NewZooKeeper(t, zkserver.Options{Nodes: 1})
		run(t, site{"zk", cluster.Endpoints()}, cluster.Node(0))
	})
}
