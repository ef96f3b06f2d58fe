package zookeeper_test

import (
	"context"
	"errors"
	"log"

	"github.com/go-zookeeper/zk"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/zookeeper"
)

// The examples need a ZooKeeper, so they are compiled and not run.

// Opens a client by URL: import the package for its schemes.
func Example() {
	client, err := coordinator.Open("zk://127.0.0.1:2181/apps/orders?ttl=10s")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
}

// A write to ZooKeeper that is applied while the lock is held, or never. seq is
// from lock.Sequencer.
func ExampleGuard() {
	pay := func(ctx context.Context, conn *zk.Conn, seq fence.Sequencer) (late bool, err error) {
		holds, err := zookeeper.Guard("/apps/orders", seq)
		if err != nil {
			return false, err
		}
		results, err := conn.Multi(holds, &zk.SetDataRequest{Path: "/orders/42", Data: []byte("paid"), Version: -1})
		return errors.Is(err, zk.ErrNoNode) && errors.Is(results[0].Error, zk.ErrNoNode), err
	}
	_ = pay
}
