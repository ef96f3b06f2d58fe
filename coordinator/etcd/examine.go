package etcd

import (
	"context"
	"errors"
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
	endpoints := d.source.endpoints()
	members := make([][]driver.Finding, len(endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range endpoints {
		wg.Go(func() { members[i] = examineStatus(ctx, c, endpoint) })
	}
	wg.Wait()
	return slices.Concat(members...)
}

func examineStatus(ctx context.Context, c *clientv3.Client, endpoint string) (m []driver.Finding) {
	add := func(f driver.Finding) { m = append(m, f) }
	about := "member " + describeHost(endpoint)
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	began := time.Now()
	s, err := c.Status(ctx, endpoint)
	took := time.Since(began).Round(10 * time.Microsecond)
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

// describeHost is an endpoint without scheme or secrets.
func describeHost(endpoint string) string {
	full := describe([]string{endpoint}, "")
	return strings.TrimSuffix(full[strings.Index(full, "://")+3:], "/")
}
