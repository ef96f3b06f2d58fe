package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

type fakeLease struct {
	clientv3.Lease
	f *fake
}

func (fakeLease) Close() error { return nil }

func (l fakeLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.f.note(ctx, "Grant")
	l.f.requests++
	id := clientv3.LeaseID(1000 + len(l.f.leases))
	l.f.leases[id] = max(ttl, l.f.minTTL)
	return &clientv3.LeaseGrantResponse{ID: id, TTL: l.f.leases[id]}, nil
}

func (l fakeLease) Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.f.note(ctx, "Revoke")
	l.f.requests++
	if l.f.leases[id] == 0 {
		return nil, rpctypes.ErrLeaseNotFound
	}
	l.f.leases[id] = 0
	var kvs []*mvccpb.KeyValue
	for _, kv := range l.f.kvs {
		if kv.Lease == int64(id) {
			kvs = append(kvs, kv)
		}
	}
	l.f.rev++
	l.f.notify(l.f.remove(kvs, l.f.rev), l.f.rev, false)
	return &clientv3.LeaseRevokeResponse{}, nil
}

func (l fakeLease) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.f.note(ctx, "KeepAlive")
	if l.f.leases[id] == 0 {
		return nil, rpctypes.ErrLeaseNotFound
	}
	l.f.kept = append(l.f.kept, id)
	return &clientv3.LeaseKeepAliveResponse{ID: id, TTL: l.f.leases[id]}, nil
}

func (l fakeLease) TimeToLive(
	_ context.Context, id clientv3.LeaseID, _ ...clientv3.LeaseOption,
) (*clientv3.LeaseTimeToLiveResponse, error) {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if ttl := l.f.leases[id]; ttl > 0 {
		return &clientv3.LeaseTimeToLiveResponse{ID: id, TTL: ttl, GrantedTTL: ttl}, nil
	}
	return &clientv3.LeaseTimeToLiveResponse{ID: id, TTL: -1}, nil
}

// KeepAlive never answers, which a concurrency.Session tolerates.
func (l fakeLease) KeepAlive(ctx context.Context, _ clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	answers := make(chan *clientv3.LeaseKeepAliveResponse)
	context.AfterFunc(ctx, func() { close(answers) })
	return answers, nil
}

type fakeWatcher struct{ f *fake }

func (fakeWatcher) Close() error                          { return nil }
func (fakeWatcher) RequestProgress(context.Context) error { return errors.New("not used") }

func (fw fakeWatcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	early := false // cancelled while it was being created
	if fw.f.opens != nil {
		fw.f.opens()
		early = ctx.Err() != nil
	}
	fw.f.mu.Lock()
	defer fw.f.mu.Unlock()
	fw.f.note(ctx, "Watch")
	stream, member := fw.f.stream(ctx)
	w := &watcher{clientv3.OpWatch(key, opts...), make(chan clientv3.WatchResponse, 100), stream}
	if fw.f.refuses != nil {
		if err := fw.f.refuses(stream); err != nil {
			w.out <- clientv3.WatchResponse{Header: member.header(), Canceled: true, CancelReason: err.Error()}
			close(w.out)
			return w.out
		}
	}
	if member == fw.f.past && fw.f.mute {
		fw.f.mu.Unlock()
		<-ctx.Done()
		fw.f.mu.Lock()
		close(w.out)
		return w.out
	}
	w.out <- clientv3.WatchResponse{Header: member.header(), Created: true}
	fw.f.watchers[w] = true
	if early { // then the client sends no cancel
		gone := make(chan clientv3.WatchResponse)
		close(gone)
		return gone
	}
	context.AfterFunc(ctx, func() {
		fw.f.mu.Lock()
		defer fw.f.mu.Unlock()
		if fw.f.watchers[w] {
			delete(fw.f.watchers, w)
			close(w.out)
		}
	})
	return w.out
}
