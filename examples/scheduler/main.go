// Scheduler: a service of several replicas, one of which, the leader, runs the
// scheduled jobs. Told to stop (SIGTERM, as in a rolling update) the leader
// finishes the job that it has begun and hands over: no job runs twice, and the
// next replica leads at once, not after a TTL.
//
//	go run ./examples/scheduler                              # three replicas, stopped in turn
//	go run ./examples/scheduler -url etcd://127.0.0.1:2379   # one: start several, stop one
//	go run ./examples/scheduler -url zk://127.0.0.1:2181 -http :8080   # /ready, /leader, /live
//
// The directory kubernetes has manifests to run it as a Deployment;
// docs/cookbook.md explains them. The tests show how to test a service in
// virtual time; see docs/testing.md.
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
	client       *coordinator.Client // given, so that a test can disturb it
	every, drain time.Duration
	// job is one job. It shows its token to what it writes to, which refuses a
	// token below the greatest it has seen: that of a leader that was paused.
	job    func(ctx context.Context, token coordinator.Token) error
	health election.Health
	out    *log.Logger
}

// run is the replica's life: candidate, leader, candidate again if it loses the
// lead, until ctx ends.
func (s *scheduler) run(ctx context.Context) error {
	e, err := election.New(s.client, "scheduler")
	if err != nil {
		return err
	}
	err = e.Run(ctx, s.lead,
		election.WithHealth(&s.health),
		election.WithDrain(s.drain),
		election.WithOnError(func(err error) { s.say("goes on after: %v", err) }))
	if ctx.Err() != nil && err == context.Cause(ctx) { //nolint:errorlint // that and nothing else
		return nil // it stopped as it was told
	}
	return err
}

// lead runs job after job. ctx ends when the replica is told to stop or has
// lost the lead. In the first case it leads until lead returns, so it finishes
// the job that it has begun; the term's own context ends only with the lead.
func (s *scheduler) lead(ctx context.Context, t *election.Term) error {
	s.say("leads with token %d", t.Token())
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
	s.say("stops: %v", context.Cause(ctx))
	return nil
}

func (s *scheduler) say(format string, args ...any) {
	s.out.Printf("%s %s", s.client.Identity(), fmt.Sprintf(format, args...))
}

// queued counts the entries of a replica in the queue: the leader and each
// candidate that could take over have one. It observes the client's events.
type queued struct{ atomic.Int32 }

// Observe counts, instead of keeping the last event: the loss of a term may be
// reported when the next entry is queued already.
func (q *queued) Observe(e event.Event) {
	switch e.Kind {
	case event.Joined:
		q.Add(1)
	case event.NotGranted:
		if e.Token != 0 { // else it has not joined
			q.Add(-1)
		}
	case event.Released, event.Lost:
		q.Add(-1)
	}
}

// probes answers Kubernetes. Ready means queued, not leading: if only the
// leader were ready, a rollout would wait forever for its new pods to lead.
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
		"the service; by default that of the environment's BATON_URL")
	addr := flag.String("http", "", "address to answer /ready, /leader and /live on, such as :8080")
	every := flag.Duration("every", 250*time.Millisecond, "time between jobs")
	drain := flag.Duration("drain", 10*time.Second, "how long a job may go on after SIGTERM")
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
			told, stop := context.WithCancel(ctx)
			defer stop()
			jobs := 0
			s.job = func(ctx context.Context, token coordinator.Token) error {
				if jobs++; jobs == 4 {
					stop() // as SIGTERM does, in the middle of a job
				}
				return job(ctx, token)
			}
			return s.run(told)
		})
	})
}
