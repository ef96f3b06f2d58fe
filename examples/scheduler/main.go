// Scheduler is a service of several replicas, whose leader runs the scheduled
// jobs. On SIGTERM, as in a rolling update, the leader finishes its current job
// and hands over: no job runs twice, and the next replica leads at once, not
// after a TTL.
//
//	go run ./examples/scheduler                              # three replicas, stopped in turn
//	go run ./examples/scheduler -url etcd://127.0.0.1:2379   # one: start several, stop one
//	go run ./examples/scheduler -url zk://127.0.0.1:2181 -http :8080   # /ready, /leader, /live
//
// The directory kubernetes has manifests for a Deployment; docs/cookbook.md
// explains them. The tests show how to test a service in virtual time: see
// docs/testing.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/event"
	"github.com/baton-go/baton/election"
	"github.com/baton-go/baton/examples/internal/demo"
)

// scheduler is one replica.
type scheduler struct {
	client       *coordinator.Client
	every, drain time.Duration
	// job passes its token to the resources that it writes to. They refuse
	// tokens smaller than the greatest they have seen, as after a pause.
	job    func(ctx context.Context, token coordinator.Token) error
	health election.Health
	out    *log.Logger
}

// run campaigns and leads, and campaigns again after a loss, until ctx ends.
func (s *scheduler) run(ctx context.Context) error {
	e, err := election.New(s.client, "scheduler")
	if err != nil {
		return err
	}
	err = e.Run(ctx, s.lead,
		election.WithHealth(&s.health),
		election.WithDrain(s.drain),
		election.WithOnError(func(err error) { s.log("continues after: %v", err) }))
	if ctx.Err() != nil && err == context.Cause(ctx) { //nolint:errorlint // only the cause, unwrapped
		return nil // a planned stop
	}
	return err
}

// lead runs job after job. ctx ends when the replica has to stop, or has lost
// the term. In the first case it leads until lead returns, so it finishes the
// current job: the term's own context ends only with the term.
func (s *scheduler) lead(ctx context.Context, t *election.Term) error {
	s.log("leads with token %d", t.Token())
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := s.job(t.Context(), t.Token()); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	s.log("stops: %v", context.Cause(ctx))
	return nil
}

func (s *scheduler) log(format string, args ...any) {
	s.out.Printf("%s %s", s.client.Identity(), fmt.Sprintf(format, args...))
}

// queued counts the replica's entries in the queue, as an observer of the
// client's events. The leader and each candidate have an entry.
type queued struct{ atomic.Int32 }

// Observe counts events. The last event alone is not enough: the loss of a term
// may be reported after the next entry is queued.
func (q *queued) Observe(e event.Event) {
	switch e.Kind {
	case event.Joined:
		q.Add(1)
	case event.NotGranted:
		if e.Token != 0 { // it had joined
			q.Add(-1)
		}
	case event.Released, event.Lost:
		q.Add(-1)
	}
}

// probes serves Kubernetes' probes. Ready means queued, not leading: if only
// the leader were ready, a rollout would wait forever for its new pods to lead.
func probes(health *election.Health, q *queued) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/leader", health.Ready())
	mux.Handle("/live", health.Live())
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if q.Load() <= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return mux
}

// serve runs one replica of the real service.
func serve(ctx context.Context, out *log.Logger, s *scheduler, url, addr string) error {
	var q queued
	client, err := coordinator.Open(url, coordinator.WithObserver(&q))
	if err != nil {
		return err
	}
	s.client = client
	if addr != "" {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return errors.Join(err, client.Close(ctx))
		}
		server := &http.Server{Handler: probes(&s.health, &q), ReadHeaderTimeout: 5 * time.Second}
		go func() { _ = server.Serve(l) }() // ends with Close
		defer server.Close()
		out.Printf("answers /ready, /leader and /live on %s", l.Addr())
	}
	err = s.run(ctx)
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, client.Close(bound))
}

func main() {
	url := flag.String("url", cmp.Or(os.Getenv("BATON_URL"), demo.InMemory),
		"the service; by default the environment's BATON_URL")
	addr := flag.String("http", "", "address to answer /ready, /leader and /live on, such as :8080")
	every := flag.Duration("every", 250*time.Millisecond, "time between jobs")
	drain := flag.Duration("drain", 10*time.Second, "how long a job may continue after SIGTERM")
	demo.Main(func(ctx context.Context, out *log.Logger) error {
		job := func(ctx context.Context, token coordinator.Token) error {
			out.Printf("a job runs (token %d)", token)
			return demo.Sleep(ctx, *every/2)
		}
		if *url != demo.InMemory {
			s := &scheduler{every: *every, drain: *drain, job: job, out: out}
			return serve(ctx, out, s, *url, *addr)
		}
		return demo.Run(ctx, *url, 3, func(ctx context.Context, client *coordinator.Client) error {
			s := &scheduler{client: client, every: *every, drain: *drain, out: out}
			bound, stop := context.WithCancel(ctx)
			defer stop()
			jobs := 0
			s.job = func(ctx context.Context, token coordinator.Token) error {
				if jobs++; jobs == 4 {
					stop() // as SIGTERM does, in the middle of a job
				}
				return job(ctx, token)
			}
			return s.run(bound)
		})
	})
}
