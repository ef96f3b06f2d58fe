package etcd_test

import (
	"context"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/coordinator/fence"
)

// These need an etcd, so they are compiled here and not run.

// A client by URL: import the package for its schemes.
func Example() {
	client, err := coordinator.Open("etcd://127.0.0.1:2379/apps/orders?ttl=10s")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
}

// On a client that exists already, and stays the caller's.
func ExampleFromClient() {
	etcdClient, err := clientv3.New(clientv3.Config{
		Endpoints:         []string{"127.0.0.1:2379"},
		DialKeepAliveTime: 10 * time.Second, // else a dead connection is noticed late
	})
	if err != nil {
		log.Fatal(err)
	}
	defer etcdClient.Close()

	d, err := etcd.FromClient(etcdClient, etcd.Namespace("apps/orders"))
	if err != nil {
		log.Fatal(err)
	}
	client, err := coordinator.New(d, coordinator.WithTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background()) // before etcdClient
}

// A write into etcd that is applied while the lock is held, or never. seq is
// from lock.Sequencer.
func ExampleGuard() {
	pay := func(ctx context.Context, etcdClient *clientv3.Client, seq fence.Sequencer) (late bool, err error) {
		holds, err := etcd.Guard(seq)
		if err != nil {
			return false, err
		}
		resp, err := etcdClient.Txn(ctx).If(holds).Then(clientv3.OpPut("/orders/42", "paid")).Commit()
		return err == nil && !resp.Succeeded, err
	}
	_ = pay
}
