package etcdcount_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/baton-go/baton/integration/internal/await"
	"github.com/baton-go/baton/integration/internal/etcdcount"
	"github.com/baton-go/baton/integration/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func TestCallsRenewalsAndWatchesAreCounted(t *testing.T) {
	counter := etcdcount.New()
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   servers.Etcd(t).Endpoints(),
		DialOptions: counter.DialOptions(),
		Logger:      zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	key := servers.Name(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	_, err = client.Get(ctx, key) // before the snapshot: connecting must not count
	must(err)
	<-client.Watch(ctx, key+"-other", clientv3.WithCreatedNotify()) // keeps the stream open
	before := counter.Snapshot()

	watching, stop := context.WithCancel(ctx)
	events := client.Watch(watching, key, clientv3.WithCreatedNotify())
	<-events
	lease, err := client.Grant(ctx, 10)
	must(err)
	_, err = client.Put(ctx, key, "1", clientv3.WithLease(lease.ID))
	must(err)
	if got := <-events; len(got.Events) != 1 {
		t.Fatalf("watch: %+v", got)
	}
	_, err = client.KeepAliveOnce(ctx, lease.ID)
	must(err)
	_, err = client.Txn(ctx).Then(clientv3.OpDelete(key)).Commit()
	must(err)
	<-events
	stop()

	// Another goroutine sends the cancel.
	var got etcdcount.Counts
	await.Until(t, "the cancel", func() bool {
		got = counter.Snapshot().Since(before)
		return got.WatchCancels == 1
	})
	for call, want := range map[string]int{"Lease.LeaseGrant": 1, "KV.Put": 1, "KV.Txn": 1, "KV.Range": 0} {
		if got.Unary[call] != want {
			t.Errorf("%s: %d, want %d", call, got.Unary[call], want)
		}
	}
	if got.Streams["Watch.Watch"] != 0 || got.Streams["Lease.LeaseKeepAlive"] != 1 || got.KeepAlives != 1 {
		t.Errorf("streams %v, renewals %d", got.Streams, got.KeepAlives)
	}
	if got.WatchCreates != 1 || got.WatchCancels != 1 || got.WatchEvents != 2 || got.WatchResponses != 2 {
		t.Errorf("watch: %+v", got)
	}
	if got.Total() != 4 {
		t.Errorf("%d requests, want 4: %+v", got.Total(), got)
	}
}
