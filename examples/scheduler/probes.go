package main

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-go/baton/coordinator/event"
)

// place tells whether a replica stands in the line, or leads. It observes the replica's client.
type place struct{ inLine atomic.Int32 }

// Observe counts, and does not only note the last that it was told: that a term
// was lost may be told when the next contender stands in line.
func (p *place) Observe(e event.Event) {
	switch e.Kind {
	case event.Joined:
		p.inLine.Add(1)
	case event.NotGranted:
		if e.Token != 0 { // else it has not joined
			p.inLine.Add(-1)
		}
	case event.Released, event.Lost:
		p.inLine.Add(-1)
	}
}

// ServeHTTP answers 200 to whoever asks while the replica leads, or is there to take over.
func (p *place) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if p.inLine.Load() <= 0 {
		http.Error(w, "stands in no line", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("stands in line, or leads\n"))
}

// listen answers probes, if there is an address.
//
// Who leads is not what Kubernetes should know as readiness: one pod would be
// ready, a rollout would wait for its new pods to lead while it keeps the old
// leader, and the leader's node could not be drained, for ever. So being ready
// is to stand in line, and /leader is for those who look for the leader.
func (r *replica) listen(addr string) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/ready", &r.place)
	mux.Handle("/leader", r.health.Ready())
	mux.Handle("/live", r.health.Live())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	r.say("answers /ready, /leader and /live on %s", l.Addr())
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) }) // ends with Close
	return func() {
		_ = server.Close()
		wg.Wait()
	}, nil
}
