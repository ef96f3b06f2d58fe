package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/integration/internal/zkserver"
)

// IdleResult has the costs of clients that only keep their sessions.
type IdleResult struct {
	Name    string        `json:"name"`
	Place   string        `json:"place"`
	Clients int           `json:"clients"`
	TTL     time.Duration `json:"ttl_ns"`
	Lasted  time.Duration `json:"lasted_ns"`
	// Server and Client are shares of a core: 1 is a core in use all the time.
	Server float64 `json:"server_cores"`
	Client float64 `json:"client_cores"`
	// Requests are the requests of all clients that were answered per second:
	// renewals and the client libraries' pings.
	Requests float64 `json:"requests_per_second"`
	// Ops are the same by etcd's names; ZooKeeper does not tell them apart.
	Ops map[string]float64 `json:"ops,omitempty"`
}

func (r IdleResult) line() string {
	return fmt.Sprintf("%d idle clients, TTL %v, for %v: server %.1f %% of a core, clients %.1f %%; %.0f requests/s (%.2f per client) %s",
		r.Clients, r.TTL, r.Lasted.Round(time.Second), 100*r.Server, 100*r.Client, r.Requests, r.Requests/float64(r.Clients), ops(r.Ops))
}

const (
	idleClients = 1000
	idleTTL     = 10 * time.Second
	idleTime    = 60 * time.Second
)

// idle measures clients with a connection and a session each.
func (f *field) idle(ctx context.Context) (IdleResult, error) {
	n, lasts := idleClients/max(1, f.Divide), idleTime/time.Duration(max(1, f.Divide))
	r := IdleResult{Name: "idle/" + f.contest.place, Place: f.contest.place, Clients: n, TTL: idleTTL}
	opened, err := openBaton(ctx, f.access(), load{contenders: n, clients: n, ttl: idleTTL}, batonMutex)
	if err != nil {
		return r, err
	}
	defer opened.close()
	clients := opened.(*batonParty).clients
	sessions, err := sessionIDs(ctx, clients)
	if err != nil {
		return r, err
	}
	// The clients were opened one after the other, so their renewals have all
	// phases. The first renewals still pay for compiled code and connections.
	if err := sleep(ctx, min(idleTTL, lasts)); err != nil {
		return r, err
	}
	if err := f.measureIdle(ctx, &r, lasts); err != nil {
		return r, err
	}
	now, err := sessionIDs(ctx, clients)
	if err == nil && !slices.Equal(now, sessions) {
		err = errors.New("idle clients lost their sessions: the figures include their opening")
	}
	return r, err
}

// measureIdle measures the servers and this process for some time.
func (f *field) measureIdle(ctx context.Context, r *IdleResult, lasts time.Duration) error {
	rec := &recorder{servers: f.place.pids()}
	from, err := f.place.answered(ctx)
	if err != nil {
		return err
	}
	rec.begin()
	began := time.Now()
	if err := sleep(ctx, lasts); err != nil {
		return err
	}
	rec.end()
	r.Lasted = time.Since(began)
	to, err := f.place.answered(ctx)
	if err != nil {
		return err
	}
	seconds := r.Lasted.Seconds()
	r.Server, r.Client = rec.total.server.Seconds()/seconds, rec.total.client.Seconds()/seconds
	r.Ops = map[string]float64{}
	for op, count := range to {
		perSecond := (count - from[op]) / seconds
		r.Requests += perSecond
		if op != "" && perSecond > 0 {
			r.Ops[op] = perSecond
		}
	}
	return nil
}

// sessionIDs returns the clients' sessions. A client whose session was lost
// opens another one.
func sessionIDs(ctx context.Context, clients []*coordinator.Client) (ids []string, err error) {
	for _, c := range clients {
		s, err := c.Session(ctx)
		if err != nil {
			return nil, err
		}
		ids = append(ids, s.ID())
	}
	return ids, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answered counts the messages to all clients by method. Those from them would
// include the ends of streams.
func (p *etcdPlace) answered(ctx context.Context) (map[string]float64, error) {
	counts := map[string]float64{}
	for _, addr := range p.addrs() {
		if err := addMetrics(ctx, "http://"+addr+"/metrics", "grpc_server_msg_sent_total", "grpc_method", counts); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// addMetrics adds the values of a metric to the values by one of its labels.
func addMetrics(ctx context.Context, url, metric, label string, to map[string]float64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	found := false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), metric+"{")
		labels, value, cut := strings.Cut(rest, "} ")
		if !ok || !cut {
			continue
		}
		_, key, _ := strings.Cut(labels, label+`="`)
		key, _, _ = strings.Cut(key, `"`)
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return err
		}
		to[key] += v
		found = true
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("bench: no %s at %s", metric, url)
	}
	return nil
}

// answered counts all messages: the servers do not tell them apart.
func (p *zkPlace) answered(ctx context.Context) (map[string]float64, error) {
	n, err := total(p.addrs(), func(addr string) (int, error) {
		m, err := zkserver.Monitor(ctx, addr)
		return int(m["packets_sent"]), err
	})
	return map[string]float64{"": float64(n)}, err
}
