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

// The examples need an etcd, so they are compiled and not run.

// Opens a client by URL: import the package for its schemes.
func Example() {
	client, err := coordinator.Open("etcd://127.0.0.1:2379/apps/orders?ttl=10s")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
}

// Uses an existing client, which the caller still owns.
func ExampleFromClient() {
	etcdClient, err := clientv3.New(clientv3.Config{
		Endpoints:         []string{"127.0.0.1:2379"},
		DialKeepAliveTime: 10 * time.Second, // else a dead connection is detected late
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

// A write to etcd that is applied while the lock is held, or never. seq is from
// lock.Sequencer.
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
