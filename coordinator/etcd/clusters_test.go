package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/baton-go/baton/coordinator/driver"
)

// statuses are what members answer, by endpoint.
type statuses struct {
	clientv3.Maintenance
	of map[string]*clientv3.StatusResponse
}

func (s statuses) Status(_ context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	return s.of[endpoint], nil
}

// newMembers returns a client of a fake with members that show a status.
func newMembers(t *testing.T, versions map[string]string, clusters map[string]uint64) (*fake, *clientv3.Client) {
	t.Helper()
	var endpoints []string
	of := map[string]*clientv3.StatusResponse{}
	for endpoint, version := range versions {
		endpoints = append(endpoints, endpoint)
		of[endpoint] = &clientv3.StatusResponse{Version: version, Leader: 1,
			Header: &pb.ResponseHeader{ClusterId: clusters[endpoint]}}
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	check(t, err)
	lease, watcher := c.Lease, c.Watcher
	t.Cleanup(func() {
		// Not put back into c: a watch that its session has given up may still
		// be asked for.
		_, _, _ = lease.Close(), watcher.Close(), c.Close()
	})
	f, fake := newFake(t)
	c.KV, c.Lease, c.Watcher, c.Maintenance = fake.KV, fake.Lease, fake.Watcher, statuses{of: of}
	return f, c
}

// TestMembersOfTwoClustersAreRefused: the member that gets the sentinel does
// not know the lease; or by chance all requests of an Open go to one cluster,
// and those of the next to the other. A cluster that was made anew is none of
// these.
func TestMembersOfTwoClustersAreRefused(t *testing.T) {
	const a, b = "10.0.0.1:2379", "10.0.0.2:2379"
	versions := map[string]string{a: "3.7.3", b: "3.7.3"}
	two, one := map[string]uint64{a: 1, b: 2}, map[string]uint64{a: 2, b: 2}
	refused := func(err error) bool {
		return errors.Is(err, driver.ErrInvalid) && strings.Contains(err.Error(), a) && strings.Contains(err.Error(), b)
	}
	f, c := newMembers(t, versions, two)
	d, err := FromClient(c)
	check(t, err)
	f.before = func(context.Context, *pb.TxnRequest) error { return rpctypes.ErrGRPCLeaseNotFound }
	if _, err := d.Open(t.Context(), 10*time.Second); !refused(err) {
		t.Errorf("a lease of another cluster: %v", err)
	}
	for _, clusters := range []map[string]uint64{two, one} {
		f, c := newMembers(t, versions, clusters)
		d, err := FromClient(c)
		check(t, err)
		f.cluster.Store(1)
		s, err := d.Open(t.Context(), 10*time.Second)
		check(t, err)
		check(t, s.Close(t.Context()))
		f.cluster.Store(2)
		if s, err = d.Open(t.Context(), 10*time.Second); err == nil {
			check(t, s.Close(t.Context()))
		}
		if differ := clusters[a] != clusters[b]; differ != refused(err) || differ == (err == nil) {
			t.Errorf("an Open on another cluster than before, of members of %v: %v", clusters, err)
		}
		if clusters[a] != clusters[b] && len(f.kvs) != 0 {
			t.Errorf("left behind: %v", f.kvs)
		}
	}
}

func TestDoctorNamesClustersAndVersions(t *testing.T) {
	findings := func(versions map[string]string, clusters map[string]uint64) (text string) {
		_, c := newMembers(t, versions, clusters)
		d, err := FromClient(c)
		check(t, err)
		for _, f := range d.(driver.Examiner).Examine(t.Context()) {
			if f.Grade != driver.Fine {
				text += f.About + " " + f.Text + "\n"
			}
		}
		return text
	}
	const a, b = "10.0.0.1:2379", "10.0.0.2:2379"
	got := findings(map[string]string{a: "3.7.3", b: "3.7.3"}, map[string]uint64{a: 7, b: 15})
	if !strings.Contains(got, "2 clusters: 10.0.0.1:2379 in cluster 7; 10.0.0.2:2379 in cluster f") {
		t.Errorf("two clusters: %q", got)
	}
	for version, warned := range map[string]bool{
		"3.3.27": true, "3.4.23": true, "3.4.30": true, "3.4.31": false, "3.5.12": true, "3.5.13": false,
		"3.6.0": false, "3.7.3": false, "3.5.9-pre": true, "unknown": false,
	} {
		got := findings(map[string]string{a: version}, map[string]uint64{a: 7})
		if warns := strings.Contains(got, "renewals that do not count"); warns != warned {
			t.Errorf("%s: %q", version, got)
		}
	}
}
