package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/baton-go/baton/coordinator/driver"
)

// wire sends the two requests of an uncontended lock.
type wire interface {
	// join sends a transaction that joins a queue if that is empty.
	join(ctx context.Context, line driver.Line, txn clientv3.Op) (*clientv3.TxnResponse, error)
	delete(ctx context.Context, key string) (*clientv3.DeleteResponse, error)
}

// direct sends each request by itself.
type direct struct{ c *clientv3.Client }

func (d direct) join(ctx context.Context, _ driver.Line, txn clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := d.c.Do(ctx, txn)
	return resp.Txn(), err
}

func (d direct) delete(ctx context.Context, key string) (*clientv3.DeleteResponse, error) {
	return d.c.Delete(ctx, key)
}
