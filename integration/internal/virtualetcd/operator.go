package virtualetcd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

var errStopped = errors.New("the etcd is stopped")

// at makes a call at the server itself, which needs no link.
func (e *Etcd) at(do func(ctx context.Context, server *etcdserver.EtcdServer) error) error {
	server := e.Server()
	if server == nil {
		return errStopped
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return do(server.AuthStore().WithRoot(ctx), server)
}

// Revoke ends a lease. It fails if there is none.
func (e *Etcd) Revoke(lease int64) error {
	return e.at(func(ctx context.Context, server *etcdserver.EtcdServer) error {
		_, err := server.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: lease})
		return err
	})
}

// Delete deletes a key, and reports whether there was one.
func (e *Etcd) Delete(key string) (deleted bool, err error) {
	err = e.at(func(ctx context.Context, server *etcdserver.EtcdServer) error {
		resp, err := server.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(key)})
		deleted = err == nil && resp.Deleted > 0
		return err
	})
	return deleted, err
}

// Put writes a key without a lease.
func (e *Etcd) Put(key, value string) error {
	return e.at(func(ctx context.Context, server *etcdserver.EtcdServer) error {
		_, err := server.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: []byte(value)})
		return err
	})
}

// Keys returns the keys with a prefix, in order.
func (e *Etcd) Keys(prefix string) []*mvccpb.KeyValue {
	server := e.Server()
	if server == nil {
		return nil
	}
	r, err := server.KV().Range(context.Background(), []byte(prefix), rangeEnd(prefix), mvcc.RangeOptions{})
	if err != nil {
		return nil
	}
	return r.KVs
}

// rangeEnd is the end of the range of a prefix that does not end with 0xff.
func rangeEnd(prefix string) []byte {
	if prefix == "" {
		return []byte{}
	}
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}

// Leases returns the live leases, sorted.
func (e *Etcd) Leases() []int64 {
	return slices.Sorted(maps.Keys(e.leases()))
}

// leases are the live leases, and their TTLs.
func (e *Etcd) leases() map[int64]int64 {
	all := map[int64]int64{}
	_ = e.at(func(ctx context.Context, server *etcdserver.EtcdServer) error {
		resp, err := server.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
		if err != nil {
			return err
		}
		for _, l := range resp.Leases {
			ttl, err := server.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: l.ID})
			if err == nil {
				all[l.ID] = ttl.GrantedTTL
			}
		}
		return nil
	})
	return all
}

// Compact compacts the history up to now, or to what the member shows that is
// furthest behind: it compacts only what it has applied.
func (e *Etcd) Compact() error {
	return e.at(func(ctx context.Context, server *etcdserver.EtcdServer) error {
		rev := server.KV().Rev()
		for _, m := range e.members {
			if s := m.at(); s.behind() {
				rev = min(rev, s.rev)
			}
		}
		_, err := server.Compact(ctx, &pb.CompactionRequest{Revision: rev, Physical: true})
		return err
	})
}

// SetNoSpace raises or disarms the alarm NOSPACE: puts and grants are refused.
func (e *Etcd) SetNoSpace(on bool) error {
	return e.at(func(ctx context.Context, server *etcdserver.EtcdServer) error {
		r := &pb.AlarmRequest{
			MemberID: uint64(server.MemberID()), Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE,
		}
		if !on {
			r.Action = pb.AlarmRequest_DEACTIVATE
		}
		_, err := server.Alarm(ctx, r)
		return err
	})
}

// AddRoot makes the user root, whose password is root.
func (e *Etcd) AddRoot() error {
	return e.at(func(ctx context.Context, server *etcdserver.EtcdServer) error {
		_, err := server.UserAdd(ctx, &pb.AuthUserAddRequest{Name: "root", Password: "root", Options: &authpb.UserAddOptions{}})
		if err == nil {
			_, err = server.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"})
		}
		return err
	})
}

// EnableAuth switches authentication on.
func (e *Etcd) EnableAuth() error {
	return e.at(func(ctx context.Context, server *etcdserver.EtcdServer) error {
		_, err := server.AuthEnable(ctx, &pb.AuthEnableRequest{})
		return err
	})
}

// GrantTTL makes the cluster grant leases of this many seconds, whatever
// clients ask for; with 0 those that they ask for.
func (e *Etcd) GrantTTL(seconds int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.granted = seconds
}

// Watch is a watch of a client.
type Watch struct {
	Key    string
	Link   *Link
	Member *Member
	Asked  time.Time
	// Resumed: the client library has asked for it again, after the stream of
	// the watch had ended. If such a watch is cancelled before the server has
	// answered, the library does not tell the server, which keeps the watch.
	Resumed bool
}

// Watches returns the watches of all clients.
func (e *Etcd) Watches() (all []Watch) {
	for _, m := range e.members {
		m.mu.Lock()
		for s := range m.opened {
			for _, w := range s.live {
				all = append(all, w)
			}
		}
		m.mu.Unlock()
	}
	return all
}
