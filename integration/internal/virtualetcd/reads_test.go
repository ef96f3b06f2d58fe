package virtualetcd_test

import (
	"context"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/integration/internal/virtualetcd"
	"github.com/baton-go/baton/mutex"
	"github.com/baton-go/baton/recipes/barrier"
	"github.com/baton-go/baton/recipes/counter"
	"github.com/baton-go/baton/recipes/group"
	"github.com/baton-go/baton/recipes/partition"
	"github.com/baton-go/baton/semaphore"
)

// kinds counts requests: those that raft orders, reads by quorum, and reads
// that the member at hand answers alone.
type kinds struct{ writes, quorum, local int }

func (k *kinds) count(message any) {
	switch r := message.(type) {
	case *pb.RangeRequest:
		k.read(r.Serializable)
	case *pb.TxnRequest:
		serializable := true
		for _, op := range append(r.Success[:len(r.Success):len(r.Success)], r.Failure...) {
			read := op.GetRequestRange()
			if read == nil {
				k.writes++
				return
			}
			serializable = serializable && read.Serializable
		}
		k.read(serializable)
	case *pb.PutRequest, *pb.DeleteRangeRequest, *pb.LeaseGrantRequest, *pb.LeaseRevokeRequest:
		k.writes++
	}
}

func (k *kinds) read(serializable bool) {
	if serializable {
		k.local++
	} else {
		k.quorum++
	}
}

// only is the error of a call.
func only[T any](_ T, err error) error { return err }

// TestReadsOfRecipesWriteNothing: raft orders no request of a call that only
// reads. What has to be as new as all finished writes is read by quorum.
func TestReadsOfRecipesWriteNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		cli, _ := w.client("")
		c := w.baton(cli)
		ctx := w.t.Context()
		m := must(mutex.New(c, "a"))
		_ = must(m.Lock(ctx))
		e := must(election.New(c, "a"))
		_ = must(e.Campaign(ctx, []byte("me")))
		sem := must(semaphore.New(c, "a", 2))
		_ = must(sem.Acquire(ctx, 1))
		g := must(group.New(c, "a"))
		_ = must(g.Join(ctx, nil))
		n := must(counter.New(c, "a"))
		_ = must(n.Add(ctx, 1))
		gate := must(barrier.New(c, "a"))
		check(w.t, gate.Set(ctx))
		check(w.t, gate.Remove(ctx))
		shards := must(partition.New(c, "a", 2))
		var mu sync.Mutex
		var sent kinds
		w.OnRequest(func(r virtualetcd.Request) virtualetcd.Fate {
			mu.Lock()
			defer mu.Unlock()
			sent.count(r.Message)
			return virtualetcd.Fate{}
		})
		for _, call := range []struct {
			name   string
			does   func(ctx context.Context) error
			quorum int
		}{
			{"Counter.Get", func(ctx context.Context) error { return only(n.Get(ctx)) }, 1},
			{"Counter.Observe", func(ctx context.Context) error {
				for _, err := range n.Observe(ctx) {
					return err
				}
				return nil
			}, 1},
			{"Barrier.Wait", gate.Wait, 1},
			{"Mutex.Contenders", func(ctx context.Context) error { return only(m.Contenders(ctx)) }, 1},
			{"Semaphore.List", func(ctx context.Context) error { return only(sem.List(ctx)) }, 2},
			{"Semaphore.Limit", func(ctx context.Context) error { return only(sem.Limit(ctx)) }, 1},
			{"Election.Leader", func(ctx context.Context) error { return only(e.Leader(ctx)) }, 1},
			{"Election.Candidates", func(ctx context.Context) error { return only(e.Candidates(ctx)) }, 1},
			{"Election.Observe", func(ctx context.Context) error {
				for _, err := range e.Observe(ctx) {
					return err
				}
				return nil
			}, 1},
			{"Group.Members", func(ctx context.Context) error { return only(g.Members(ctx)) }, 1},
			{"Group.AwaitLeave", func(ctx context.Context) error { return g.AwaitLeave(ctx, 1) }, 3},
			{"Partition.Assignments", func(ctx context.Context) error { return only(shards.Assignments(ctx)) }, 2},
			{"Client.Queues", func(ctx context.Context) error { return only(c.Queues(ctx, "")) }, 1},
		} {
			mu.Lock()
			sent = kinds{}
			mu.Unlock()
			check(w.t, call.does(ctx))
			mu.Lock()
			got := sent
			mu.Unlock()
			if got.writes != 0 || got.quorum != call.quorum {
				w.t.Errorf("%s: %d writes, %d reads by quorum, want %d, and %d local reads",
					call.name, got.writes, got.quorum, call.quorum, got.local)
			}
		}
		w.OnRequest(nil)
	})
}
