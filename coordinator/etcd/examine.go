package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/coordinator/etcd/internal/answer"
)

const (
	memberTimeout = 3 * time.Second // for one member's answer
	fullShare     = 0.8             // of the quota; a larger database is a warning
)

// Examine asks each member that the driver knows for its status.
func (d *service) Examine(ctx context.Context) []driver.Finding {
	c, err := d.source.get(ctx)
	if err != nil {
		return []driver.Finding{driver.Found(driver.Failure, "service", "no client: %v", d.source.explain(err))}
	}
	var all []driver.Finding
	members := statusOfAll(ctx, c, d.source.endpoints())
	for _, m := range members {
		all = append(all, m.examine()...)
	}
	if clusters := clustersOf(members); len(clusters) > 1 {
		all = append(all, driver.Found(driver.Failure, "service", "the URL names members of %d clusters: %s",
			len(clusters), strings.Join(clusters, "; ")).
			So("name members of one cluster only: sessions of the others end as soon as they are renewed"))
	}
	return all
}

// member is what one member has answered.
type member struct {
	host   string
	status *clientv3.StatusResponse
	err    error
	took   time.Duration
}

func statusOfAll(ctx context.Context, c *clientv3.Client, endpoints []string) []member {
	members := make([]member, len(endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range endpoints {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, memberTimeout)
			defer cancel()
			began := time.Now()
			s, err := c.Status(ctx, endpoint)
			members[i] = member{describeHost(endpoint), s, err, time.Since(began).Round(10 * time.Microsecond)}
		})
	}
	wg.Wait()
	return members
}

// clustersOf lists the members by cluster.
func clustersOf(members []member) (clusters []string) {
	hosts := map[uint64][]string{}
	for _, m := range members {
		if m.err == nil {
			id := m.status.Header.GetClusterId()
			hosts[id] = append(hosts[id], m.host)
		}
	}
	for id, those := range hosts {
		clusters = append(clusters, fmt.Sprintf("%s in cluster %x", strings.Join(those, ", "), id))
	}
	slices.Sort(clusters)
	return clusters
}

// oneCluster returns ErrInvalid if the members are of several clusters. The
// client sends each request to another member, so that no session could live.
func (d *service) oneCluster(ctx context.Context, c *clientv3.Client) error {
	clusters := clustersOf(statusOfAll(ctx, c, d.source.endpoints()))
	if len(clusters) < 2 {
		return nil
	}
	return answer.Invalid("the addresses are of %d etcd clusters: %s",
		len(clusters), strings.Join(clusters, "; "))
}

func (r member) examine() (m []driver.Finding) {
	add := func(f driver.Finding) { m = append(m, f) }
	about := "member " + r.host
	s, err, took := r.status, r.err, r.took
	switch {
	case err == nil:
	case answer.Code(answer.Of(err)) == codes.Unimplemented:
		add(driver.Found(driver.Failure, about, "the server is not etcd: %v", answer.Of(err)).
			So("is the address right? Is a proxy in between?"))
		return m
	case errors.Is(answer.Kind(err), driver.ErrRefused):
		add(driver.Found(driver.Note, about, "refuses to show this user its status: %v", answer.Of(err)))
		return m
	default:
		add(driver.Found(driver.Failure, about, "no answer within %v: %v", memberTimeout, answer.Of(err)).
			So("is the member running, is the address right, and does a firewall let it through?"))
		return m
	}
	role := "follower"
	switch {
	case s.Leader == 0:
		role = "without a leader"
	case s.IsLearner:
		role = "learner"
	case s.Leader == s.Header.MemberId:
		role = "leader"
	}
	add(driver.Found(driver.Fine, about, "etcd %s, %s, answers in %v, connection included", s.Version, role, took))
	if acknowledgesForNothing(s.Version) {
		add(driver.Found(driver.Warning, about, "as a leader whose disk hangs, etcd %s acknowledges renewals that do not count", s.Version).
			So("upgrade to 3.4.31, 3.5.13 or newer; until then a client whose URL names one member may hold too long"))
	}
	if s.Leader == 0 {
		add(driver.Found(driver.Failure, about, "knows no leader").
			So("a majority of the members must be up and connected to each other"))
	}
	if s.IsLearner {
		add(driver.Found(driver.Warning, about, "is a learner, and refuses most requests").
			So("remove it from the URL until it is promoted"))
	}
	for _, e := range s.Errors {
		if !strings.Contains(e, "etcdserver: no leader") { // reported above
			add(driver.Found(driver.Failure, about, "raises the alarm %q", e).
				So("see `etcdctl alarm list`; after NOSPACE compact, defragment, and disarm"))
		}
	}
	if share := float64(s.DbSize) / float64(s.DbSizeQuota); s.DbSizeQuota > 0 && share > fullShare {
		add(driver.Found(driver.Warning, about, "its database of %d MiB is %.0f %% of the quota", s.DbSize>>20, 100*share).
			So("compact and defragment: once it is full, no lock can be acquired"))
	}
	return m
}

// acknowledgesForNothing reports whether a version lacks the check of its
// leadership before a keep-alive: see lease.Session.Keep.
func acknowledgesForNothing(version string) bool {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n < 3 || major != 3 {
		return false
	}
	return minor < 4 || minor == 4 && patch < 31 || minor == 5 && patch < 13
}

// describeHost is an endpoint without scheme or secrets.
func describeHost(endpoint string) string {
	full := describe([]string{endpoint}, "")
	return strings.TrimSuffix(full[strings.Index(full, "://")+3:], "/")
}
