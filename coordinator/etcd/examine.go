package etcd

import (
	"context"
	"errors"
	"net/http"
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
	clockGap      = 2 * time.Second // members report whole seconds
)

// Examine asks each member that the driver knows for its status, the service
// for its shortest lease, and, unless the client is external, each member for
// its time.
func (d *service) Examine(ctx context.Context) []driver.Finding {
	c, err := d.source.get(ctx)
	if err != nil {
		return []driver.Finding{driver.Found(driver.Failure, "service", "no client: %v", d.source.explain(err))}
	}
	endpoints := d.source.endpoints()
	members := make([]member, len(endpoints))
	var wg sync.WaitGroup
	// at once, so that a silent member delays no other
	for i, endpoint := range endpoints {
		wg.Go(func() {
			members[i] = examineStatus(ctx, c, endpoint)
			if d.source.given == nil && members[i].up {
				members[i].add(d.source.examineClock(ctx, endpoint))
			}
		})
	}
	wg.Wait()
	var all member
	versions := map[string]bool{"": true}
	for _, m := range members {
		all.add(m.found...)
		all.up = all.up || m.up
		versions[m.version] = true
	}
	if len(versions) > 2 {
		all.add(driver.Found(driver.Warning, "versions", "members run different versions").
			So("finish the upgrade: all members should have the same minor version"))
	}
	if all.up { // else no member grants a lease
		all.add(d.examineLeases(ctx, c))
	}
	return all.found
}

type member struct {
	found   []driver.Finding
	up      bool
	version string // "" if unknown
}

func (m *member) add(found ...driver.Finding) { m.found = append(m.found, found...) }

func examineStatus(ctx context.Context, c *clientv3.Client, endpoint string) (m member) {
	about := "member " + describeHost(endpoint)
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	began := time.Now()
	s, err := c.Status(ctx, endpoint)
	took := time.Since(began).Round(10 * time.Microsecond)
	switch {
	case err == nil:
	case answer.Code(answer.Of(err)) == codes.Unimplemented:
		m.add(driver.Found(driver.Failure, about, "the server is not etcd: %v", answer.Of(err)).
			So("is the address right? Is a proxy in between?"))
		return m
	case errors.Is(answer.Kind(err), driver.ErrRefused):
		m.add(driver.Found(driver.Note, about, "refuses to show this user its status: %v", answer.Of(err)))
		m.up = true
		return m
	default:
		m.add(driver.Found(driver.Failure, about, "no answer within %v: %v", memberTimeout, answer.Of(err)).
			So("is the member running, is the address right, and does a firewall let it through?"))
		return m
	}
	m.up, m.version = true, s.Version
	role := "follower"
	switch {
	case s.Leader == 0:
		role = "without a leader"
	case s.IsLearner:
		role = "learner"
	case s.Leader == s.Header.MemberId:
		role = "leader"
	}
	m.add(driver.Found(driver.Fine, about, "etcd %s, %s, answers in %v, connection included", s.Version, role, took))
	if s.Leader == 0 {
		m.add(driver.Found(driver.Failure, about, "knows no leader").
			So("a majority of the members must be up and connected to each other"))
	}
	if s.IsLearner {
		m.add(driver.Found(driver.Warning, about, "is a learner, and refuses most requests").
			So("remove it from the URL until it is promoted"))
	}
	for _, e := range s.Errors {
		if !strings.Contains(e, "etcdserver: no leader") { // reported above
			m.add(driver.Found(driver.Failure, about, "raises the alarm %q", e).
				So("see `etcdctl alarm list`; after NOSPACE compact, defragment, and disarm"))
		}
	}
	if share := float64(s.DbSize) / float64(s.DbSizeQuota); s.DbSizeQuota > 0 && share > fullShare {
		m.add(driver.Found(driver.Warning, about, "its database of %d MiB is %.0f %% of the quota", s.DbSize>>20, 100*share).
			So("compact and defragment: once it is full, no lock can be acquired"))
	}
	return m
}

// examineLeases finds the shortest TTL.
func (d *service) examineLeases(ctx context.Context, c *clientv3.Client) driver.Finding {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	lease, err := c.Grant(d.source.lead(ctx), 1)
	if err != nil {
		return driver.Found(driver.Failure, "TTL", "no lease is granted: %v", answer.Of(err))
	}
	_, _ = c.Revoke(d.source.lead(ctx), lease.ID) // else its TTL ends it
	return driver.Found(driver.Fine, "TTL", "whole seconds, from %v on (1.5 election timeouts of the members)", time.Duration(lease.TTL)*time.Second)
}

// examineClock compares this machine's clock with a member's. Baton only counts
// durations, so nothing depends on it; but the times in listings come from many
// machines.
func (d *source) examineClock(ctx context.Context, endpoint string) driver.Finding {
	about := "clock of " + describeHost(endpoint)
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: d.cfg.TLS.Clone()}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/version", nil)
	if err != nil {
		return driver.Found(driver.Note, about, "no answer: %v", err)
	}
	began := time.Now()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return driver.Found(driver.Note, about, "no answer: %v", err)
	}
	_ = resp.Body.Close()
	theirs, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return driver.Found(driver.Note, about, "the member does not report its time")
	}
	// It is cut to the second, and was read between began and now.
	gap := theirs.Add(time.Second / 2).Sub(began.Add(time.Since(began) / 2))
	if gap.Abs() <= clockGap {
		return driver.Found(driver.Fine, about, "within %v of this machine's", clockGap)
	}
	return driver.Found(driver.Note, about, "%v off this machine's", gap.Round(time.Second)).
		So("locks do not depend on it, but the times in listings do: synchronize all clocks with a time server")
}

// describeHost is an endpoint without scheme or secrets.
func describeHost(endpoint string) string {
	full := describe([]string{endpoint}, "")
	return strings.TrimSuffix(full[strings.Index(full, "://")+3:], "/")
}
